"""Refusals of an accelerator that lacks an instruction for a statement of networks; docs/refusals.md lists them."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelerator_cases import CASES, Case, write_machine

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.source import NoMapping, Source

PAGE = Path(__file__).resolve().parents[2] / "docs" / "refusals.md"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_a_refusal_names_what_the_machine_lacks_and_with_it_there_is_none(case: Case, tmp_path: Path) -> None:
    kernel = Source("k.ir", case.kernel)
    with pytest.raises(NoMapping) as refused:
        compile_kernel(Request(kernel, write_machine(tmp_path / "without", case.has), {}, heuristic="greedy"))
    found = refused.value.diagnostics[0]
    row = f"| {case.what} | {found.notes[0] if found.notes else found.message} |"
    assert row in PAGE.read_text(encoding="utf-8").splitlines()
    if case.lacks:
        machine = write_machine(tmp_path / "whole", case.has + case.lacks)
        compile_kernel(Request(kernel, machine, {}, heuristic="greedy"))
