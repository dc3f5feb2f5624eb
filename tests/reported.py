"""Reports that several tests look at: a product on a processor, one in scratchpads."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from isamap.driver.api import source_of
from isamap.driver.length_versions import compile_request
from isamap.driver.pipeline import Compilation
from isamap.driver.reporting import recording_of, report_of
from isamap.driver.request import Request
from isamap.report.page.report_facts import Report, SubjectLine
from isamap.source import Source

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
REQUANT = "gemm_requant", "edge-npu", (("M", 64), ("N", 64), ("K", 64))
PRODUCT = "gemm_f32", "x86-avx512", (("M", 64), ("N", 64), ("K", 64))


def source(kernel: str) -> Source:
    path = EXAMPLES / f"{kernel}.ir"
    return Source(path.name, path.read_text(encoding="utf-8")) if path.exists() else source_of(kernel)


@cache
def made(kernel: str, machine: str, sizes: tuple[tuple[str, int], ...]) -> tuple[Request, Compilation]:
    request = Request(source(kernel), machine, dict(sizes), heuristic="greedy")
    return request, compile_request(request)


@cache
def report(kernel: str, machine: str, sizes: tuple[tuple[str, int], ...]) -> Report:
    request, compilation = made(kernel, machine, sizes)
    return report_of(request, compilation, recording_of(request, compilation))


def pane(found: Report, name: str) -> tuple[SubjectLine, ...]:
    return next(p.lines for p in found.panes if p.name == name)


def line(found: Report, name: str, begins: str) -> SubjectLine:
    return next(one for one in pane(found, name) if one.text.strip().startswith(begins))
