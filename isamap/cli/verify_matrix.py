"""`isamap verify --all`: kernels × machines, each cell compiled, run and compared at a few sizes.

aarch64-neon: 45 verified, 2 failed, 22 without a mapping
ok      gemm_f32  fma_n_q_f32          89 %  6 comparisons, emulator
FAILED  gru_bf16  ...                        result-wrong: ...
–       ...                                  no-mapping: ...
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.bench.kept_rows import append_row, open_rows
from isamap.cli.answers import Answer
from isamap.cli.kernel_sizes import JOBS, refuse_standard_input
from isamap.cli.option_parser import flag, one_word
from isamap.cli.terminal import Progress
from isamap.driver.inputs import machine_of, read_kernel
from isamap.driver.options import Kind, given_names, option, read_choice, read_names
from isamap.driver.request import Choices, Size, make_request
from isamap.driver.side_by_side import all_jobs, done_side_by_side
from isamap.hw_specs import shipped_machines
from isamap.kernels import list_kernels
from isamap.machine import load_machine, machine_digest
from isamap.report.columns import percent_text, table
from isamap.source import Source
from isamap.source.cache import digest
from isamap.source.records import dataclass, replace
from isamap.version import __version__

if TYPE_CHECKING:
    from isamap.driver.matrix import Cell, CellRequest, Verdict
    from isamap.run.child import Emulator


FILLS = ("integers", "random", "edges", "spread", "peaks", "ties")


def _read_fills(words: Sequence[str], flag: str) -> tuple[str, ...]:
    return tuple(read_choice(word, flag, FILLS) for word in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The way to compare a program: the data, with or without guard pages."""

    fills: tuple[str, ...] = option(
        "--fill", "FILL",
        f"One of {', '.join(FILLS)}; by default those that the kernel's operations ask for.",
        Kind(_read_fills, given_names, many=True),
        default=(),
    )  # fmt: skip
    guard: bool = flag(
        "--guard/--no-guard",
        "Place data next to guard pages, which detect accesses out of bounds.",
        default=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The number of processes that fill the matrix, the folder of cells, and whether to reuse those there."""

    jobs: int = JOBS.field()
    folder: str | None = one_word("-o", "FOLDER", "Store the results of --all here as they come.")
    resume: bool = flag("--resume", "Resume from the results in -o; failed ones are repeated.")


def verify_matrix(
    kernel: str | None,
    hw: str | None,
    choices: Choices,
    sets: Sequence[Mapping[str, Size]],
    compared: Compared,
    under: Emulator | None,
    kept: Kept,
) -> Answer:
    """Return the matrix. Raises: UsageProblem for words that do not fit; what a cell refuses stands in the cell."""
    from isamap.driver.matrix import Cell

    kernels, machines = _named(kernel, list_kernels()), _named(hw, shipped_machines())
    refuse_standard_input([*kernels, *machines])
    for machine in machines:
        if machine not in shipped_machines():
            load_machine(machine)
    folder = Path(kept.folder) if kept.folder is not None else None
    known = open_rows(folder, kept.resume, Cell.of)
    sources = [read_kernel(name) for name in kernels]
    cell_requests = [
        one
        for machine in machines
        for one in _cell_requests(sources, machine, choices, sets, compared, under)
    ]
    settled = {key: cell for key, cell in known.items() if cell.is_settled}
    cells = _filled(cell_requests, kept.jobs or all_jobs(), folder, settled)
    counts = Counter(cell.verdict for cell in cells)
    totals = {verdict: counts[verdict] for verdict in WORDS}
    payload = {"totals": totals, "cells": [cell.as_json() for cell in cells]}
    return Answer(payload, _text(cells), exit=1 if counts["failed"] else 0)


def _named(word: str | None, shipped: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a word selects: patterns select shipped ones, no word selects all."""
    if word is None:
        return tuple(shipped)
    found: list[str] = []
    for one in read_names([word]):
        matching = [name for name in shipped if fnmatchcase(name, one)]
        found += matching or [one]
    return tuple(dict.fromkeys(found))


def _cell_requests(
    kernels: Sequence[Source],
    machine: str,
    choices: Choices,
    sets: Sequence[Mapping[str, Size]],
    compared: Compared,
    under: Emulator | None,
) -> Iterator[CellRequest]:
    """Yield the cells of a machine, which are to be filled."""
    from isamap.driver.matrix import CellRequest, sizes_for

    asked = make_request(kernels[0], machine_of(machine), {}, choices)
    how = {
        "options": asked.options(), "fills": compared.fills, "guard": compared.guard,
        "emulator": str(under or ""), "version": __version__,
    }  # fmt: skip
    common = (machine_digest(asked.machine), json.dumps(how, sort_keys=True))
    for source in kernels:
        sizes = sizes_for(source, sets)
        name = source.name.removesuffix(".ir")
        key = f"{name} {machine} {digest(*common, source.text, json.dumps(sizes))[:16]}"
        requests = tuple(replace(asked, kernel=source, sizes=own) for own in sizes)
        yield CellRequest(key, name, machine, requests, compared.fills, compared.guard, under)


def _filled(
    cell_requests: Sequence[CellRequest], jobs: int, folder: Path | None, known: Mapping[str, Cell]
) -> list[Cell]:
    """Return the cells in their order; those that are known are not filled again."""
    from isamap.driver.matrix import verify_cell

    found = {n: known[one.key] for n, one in enumerate(cell_requests) if one.key in known}
    left = [n for n in range(len(cell_requests)) if n not in found]
    with Progress() as progress:
        progress(f"verify {len(found)} of {len(cell_requests)}")
        for number, cell in done_side_by_side(verify_cell, [cell_requests[n] for n in left], jobs):
            found[left[number]] = cell
            append_row(folder, cell)
            progress(f"verify {len(found)} of {len(cell_requests)}: {cell.kernel} on {cell.machine}")
    return [found[n] for n in range(len(cell_requests))]


WORDS: Mapping[Verdict, tuple[str, str]] = {
    "verified": ("ok", "verified"),
    "failed": ("FAILED", "failed"),
    "no-mapping": ("–", "without a mapping"),
    "no-schedule": ("–", "without a schedule"),
    "not-run": ("not run", "not run"),
}
"""For each verdict the word at the beginning of its line, and its word in the totals."""


def _text(cells: Sequence[Cell]) -> str:
    """Return a table for each machine, and the sums."""
    machines = dict.fromkeys(cell.machine for cell in cells)
    parts: list[str] = []
    for machine in machines:
        own = [cell for cell in cells if cell.machine == machine]
        parts += [f"{machine}: {_sums(own)}", table([_line(cell) for cell in own]), ""]
    return "\n".join([*parts, f"{len(cells)} cells: {_sums(cells)}"])


def _sums(cells: Iterable[Cell]) -> str:
    counts = Counter(cell.verdict for cell in cells)
    return ", ".join(f"{counts[verdict]} {said}" for verdict, (_, said) in WORDS.items() if counts[verdict])


def _line(cell: Cell) -> tuple[str, str, str, str, str]:
    """Return a row: instructions that do one iteration at a time are said to be scalar."""
    by = ", ".join(f"{name} (scalar)" if name in cell.scalar else name for name in cell.instructions)
    share = "" if cell.utilisation is None else percent_text(cell.utilisation)
    said = f"{cell.comparisons} comparisons, {' and '.join(cell.ran_on)}" if cell.comparisons else ""
    return WORDS[cell.verdict][0], cell.kernel, by, share, cell.reason or said
