"""The coverage matrix of `isamap match`: several kernels, or folders of them, against one machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answer import Answer, Finding
from isamap.cli.progress import Progress
from isamap.driver.inputs import read_file, read_kernel
from isamap.kernels import kernel_path, list_kernels
from isamap.source import Diagnostic, IsamapError, Source, UsageProblem

if TYPE_CHECKING:
    from isamap.match import CountMode
    from isamap.report.coverage import Coverage
    from isamap.report.facts import Matched

SHIPPED = "kernels"
"""The word for the folder of shipped kernels, where no folder of that name is nearer."""


def is_several(words: Sequence[str]) -> bool:
    """Whether words name more than one kernel, or a folder."""
    return len(words) > 1 or _is_folder(words[0])


def coverage_answer(words: Sequence[str], machines: Sequence[str], mode: CountMode) -> Answer:
    """The matrix of the kernels that words name; one that cannot be read is a finding, and has no row."""
    from isamap.report.coverage import coverage_json, coverage_text
    from isamap.report.overview import overview_text

    sources = [source for word in dict.fromkeys(words) for source in _sources(word)]
    found: list[Coverage] = []
    findings: tuple[Finding, ...] = ()
    with Progress() as progress:
        for machine in dict.fromkeys(machines):
            one, findings = _covered(sources, machine, mode, progress)
            found.append(one)
    if len(found) == 1:
        payload, text = coverage_json(found[0]), coverage_text(found[0])
    else:
        payload, text = {"machines": [coverage_json(c) for c in found]}, overview_text(found)
    return Answer(payload, text if found[0].rows else "", findings, 2 if findings else 0)


def _covered(
    sources: Sequence[Source], machine_name: str, mode: CountMode, progress: Progress
) -> tuple[Coverage, tuple[Finding, ...]]:
    """The matrix of one machine, and what is wrong with kernels."""
    from isamap.driver.matching import match_kernel
    from isamap.machine import load_machine
    from isamap.report.coverage import coverage_of

    machine = load_machine(machine_name)
    found: list[Matched] = []
    findings: list[Finding] = []
    for source in sources:
        progress(f"match {source.name} on {machine.name}")
        try:
            found.append(match_kernel(source, machine, {}, mode))
        except IsamapError as error:
            findings += [Finding.of(d) for d in error.diagnostics]
    return coverage_of(machine, found, mode), tuple(findings)


def _sources(word: str) -> list[Source]:
    """The kernel that a word names, or all in a folder. Raises: UsageProblem."""
    if not _is_folder(word):
        return [read_kernel(word)]
    folder = Path(word)
    if not folder.is_dir():
        return [read_file(kernel_path(name), f"{name}.ir") for name in list_kernels()]
    try:
        paths = sorted(p for p in folder.iterdir() if p.suffix == ".ir" and p.is_file())
    except OSError as error:
        raise UsageProblem(
            Diagnostic("file-unreadable", f"{word} cannot be read: {error.strerror}")
        ) from None
    if not paths:
        raise UsageProblem(
            Diagnostic("no-kernels", f"the folder {word} holds no kernel", help="a kernel's file ends in .ir")
        )
    return [read_file(path, str(path)) for path in paths]


def _is_folder(word: str) -> bool:
    try:
        return Path(word).is_dir() or word.rstrip("/") == SHIPPED
    except ValueError:
        return False
