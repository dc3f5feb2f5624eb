"""`isamap verify`: run emitted code in a child process, and compare it with the oracle."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.bench.kept_rows import append_row, open_rows
from isamap.cli.answers import Answer, Finding, with_proof
from isamap.cli.early_words import read_emulator, read_size_sets, read_sizes, read_sizes_file
from isamap.cli.kernel_sizes import JOBS, SCHEDULER, refuse_standard_input
from isamap.cli.model_runs import KERNEL_OR_MODEL, ModelRun, is_whole_model, verify_model
from isamap.cli.option_parser import (
    EMULATOR,
    MACHINE_HELP,
    PROGRAM,
    REQUIRE,
    SIZES,
    CommandOptions,
    argument,
    flag,
    one_word,
    refuse,
)
from isamap.cli.program_files import read_cases, refuse_compiling_options
from isamap.driver.inputs import machine_of, read_file, read_kernel
from isamap.driver.options import OptionKind, given_names, option, plugin, read_choice, read_names
from isamap.driver.request import Choices, Size, make_request
from isamap.driver.side_by_side import done_side_by_side, workers_of
from isamap.hw_specs import shipped_machines
from isamap.kernels import list_kernels
from isamap.machine import load_machine, machine_digest
from isamap.report.columns import align, percent_text
from isamap.source import Source, UsageProblem, dataclass, field, replace
from isamap.source.cache import digest
from isamap.source.progress import Progress
from isamap.version import __version__

if TYPE_CHECKING:
    from isamap.driver.matrix import Cell, CellRequest, Verdict
    from isamap.driver.verifying import Case
    from isamap.run.child import Emulator


# --- verify matrix --------------------------------------------------------------------------------------

# `isamap verify --all`: kernels × machines, each cell compiled, run and compared at a few sizes.
#
# aarch64-neon: 45 verified, 2 failed, 22 without a mapping
# ok      gemm_f32  fma_n_q_f32          89 %  6 comparisons, emulator
# FAILED  gru_bf16  ...                        result-wrong: ...
# –       ...                                  no-mapping: ...


FILLS = ("integers", "random", "edges", "spread", "peaks", "ties")


def _read_fills(words: Sequence[str], flag: str) -> tuple[str, ...]:
    return tuple(read_choice(word, flag, FILLS) for word in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOptions:
    """How to compare a program: the data, with or without guard pages."""

    fills: tuple[str, ...] = option(
        "--fill", "FILL",
        f"One of {', '.join(FILLS)}; by default those that the kernel's operations ask for.",
        OptionKind(_read_fills, given_names, many=True),
        default=(),
    )  # fmt: skip
    guard: bool = flag(
        "--guard/--no-guard",
        "Place data next to guard pages, which detect accesses out of bounds.",
        default=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixStore:
    """How to fill the matrix: the number of processes, the folder of cells, and whether to reuse stored ones."""

    jobs: int = JOBS.field()
    scheduler: str | None = SCHEDULER.field()
    folder: str | None = one_word("-o", "FOLDER", "Store the results of --all here as they come.")
    resume: bool = flag("--resume", "Resume from the results in -o; failed ones are repeated.")


def verify_matrix(
    kernel: str | None,
    hw: str | None,
    choices: Choices,
    sets: Sequence[Mapping[str, Size]],
    compared: ComparisonOptions,
    under: Emulator | None,
    kept: MatrixStore,
) -> Answer:
    """Return the matrix. A refused cell shows its reason. Raises: UsageProblem for wrong words."""
    from isamap.driver.matrix import Cell

    kernels, machines = _select_names(kernel, list_kernels()), _select_names(hw, shipped_machines())
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
    cells = _fill_cells(cell_requests, workers_of(kept.jobs, kept.scheduler), folder, settled)
    counts = Counter(cell.verdict for cell in cells)
    totals = {verdict: counts[verdict] for verdict in WORDS}
    payload = {"totals": totals, "cells": [cell.as_json() for cell in cells]}
    return Answer(payload, _text(cells), exit=1 if counts["failed"] else 0)


def _select_names(word: str | None, shipped: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a word selects: all shipped names without a word, or those that match a pattern."""
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
    compared: ComparisonOptions,
    under: Emulator | None,
) -> Iterator[CellRequest]:
    """Yield the requests for a machine's cells."""
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


def _fill_cells(
    cell_requests: Sequence[CellRequest], where: int | str, folder: Path | None, known: Mapping[str, Cell]
) -> list[Cell]:
    """Return the cells in order. Known cells are not computed again."""
    from isamap.driver.matrix import verify_cell

    found = {n: known[one.key] for n, one in enumerate(cell_requests) if one.key in known}
    left = [n for n in range(len(cell_requests)) if n not in found]
    with Progress() as progress:
        progress("verify", len(found), len(cell_requests))
        asked = [cell_requests[n] for n in left]
        for number, cell in done_side_by_side(verify_cell, asked, where, machines=lambda one: (one.machine,)):
            assert cell.key == asked[number].key, "the cell that was asked for"
            found[left[number]] = cell
            append_row(folder, cell)
            progress(f"verify {cell.kernel} on {cell.machine}", len(found), len(cell_requests))
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
    """Return a table for each machine, and the totals."""
    machines = dict.fromkeys(cell.machine for cell in cells)
    parts: list[str] = []
    for machine in machines:
        own = [cell for cell in cells if cell.machine == machine]
        parts += [f"{machine}: {_sums(own)}", align([_line(cell) for cell in own]), ""]
    return "\n".join([*parts, f"{len(cells)} cells: {_sums(cells)}"])


def _sums(cells: Iterable[Cell]) -> str:
    counts = Counter(cell.verdict for cell in cells)
    return ", ".join(f"{counts[verdict]} {said}" for verdict, (_, said) in WORDS.items() if counts[verdict])


def _line(cell: Cell) -> tuple[str, str, str, str, str]:
    """Return the row of a cell. Instructions that do one iteration at a time are marked as scalar."""
    by = ", ".join(f"{name} (scalar)" if name in cell.scalar else name for name in cell.instructions)
    share = "" if cell.utilisation is None else percent_text(cell.utilisation)
    said = f"{cell.comparisons} comparisons, {' and '.join(cell.ran_on)}" if cell.comparisons else ""
    return WORDS[cell.verdict][0], cell.kernel, by, share, cell.reason or said


# --- verify command -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions(CommandOptions):
    """The options of `verify`."""

    kernel: str | None = argument(
        "KERNEL", f"{KERNEL_OR_MODEL[:-1]}; with --all also `gemm_*`, or several with commas.", default=None
    )
    hw: str | None = one_word(
        "--hw", "MACHINE",
        f"{MACHINE_HELP}. Append @Q=8 to set the vector length, or @Q=any to test the program at every "
        "length in the description. With --all also `x86-*`, or several with commas.",
    )  # fmt: skip
    every: bool = flag("--all", "Every shipped kernel on every shipped machine, or those that are named.")
    sizes: tuple[str, ...] = SIZES.field()
    sizes_file: str | None = one_word("--sizes", "FILE", "A set of sizes per line: M=64 N=64 K=64.")
    compared: ComparisonOptions = field(default_factory=ComparisonOptions)
    heuristic: str = option(
        "--heuristic", "NAME",
        "The scheduler: cpsat, annealing, or greedy, which is fast and the default of --all.",
        plugin("heuristic"), default="",
    )  # fmt: skip
    choices: Choices = field(default_factory=Choices)
    require: str = REQUIRE.field()
    emulator: str | None = EMULATOR.field()
    kept: MatrixStore = field(default_factory=MatrixStore)
    program: str | None = PROGRAM.field()
    of_model: ModelRun = field(default_factory=ModelRun)


def verify_command(asked: VerifyOptions) -> Answer:
    """Compile a kernel, run it, and compare the results with the interpreter's. -D may give several sets."""
    if is_whole_model(asked.kernel or "", asked, "--program"):
        hw = _require_word(asked.hw, "the option --hw")
        choices = replace(asked.choices, heuristic=asked.heuristic or "cpsat")
        return verify_model(asked.kernel or "", hw, asked.sizes, choices, asked.of_model, asked.program)
    if asked.emulator is not None:
        why = "asks for plain C, which needs no emulator, and `--emulator` for the instructions"
        refuse(asked, ["--model"], why)
    under = read_emulator(asked.emulator)
    choices = replace(asked.choices, heuristic=asked.heuristic or ("greedy" if asked.every else "cpsat"))
    sets = _read_sets(asked.sizes, asked.sizes_file)
    if asked.program is not None:
        refuse_compiling_options(asked)
        kernel, hw = _require_word(asked.kernel, "a kernel"), _require_word(asked.hw, "the option --hw")
        return _verify_file(asked.program, kernel, hw, sets, asked.compared.fills)
    if asked.every:
        of_one = ["--schedule", "--fix", "--packed", "--transform"]
        refuse(asked, of_one, "is of one kernel, and `--all` verifies many")
        return verify_matrix(asked.kernel, asked.hw, choices, sets, asked.compared, under, asked.kept)
    refuse(
        asked.kept,
        ["--jobs", "-o", "--resume"],
        "is of the matrix of many kernels and machines",
        "add --all, or leave it out",
    )
    kernel, hw = _require_word(asked.kernel, "a kernel"), _require_word(asked.hw, "the option --hw")
    return with_proof(_verify_one(kernel, hw, choices, sets, asked.compared, under), asked.require)


def _verify_file(
    path: str, kernel: str, machine: str, sets: Sequence[Mapping[str, Size]], fills: tuple[str, ...]
) -> Answer:
    """Run a program file and return its comparisons."""
    cases, counts, _ = read_cases(path, kernel, machine, sets, fills)
    wrong = [case for case in cases if not case.ok]
    findings = tuple(Finding.of(d) for case in wrong for d in case.problems)
    payload = {**_verify_payload(cases, 1), "emulator": None, "program": path, "instructions": counts}
    return Answer(payload, _verify_text(cases), findings, int(bool(wrong)))


def _require_word(word: str | None, what: str) -> str:
    """Return a word that a single verification requires. Raises: UsageProblem if it is missing."""
    if word is None:
        help_ = "see `isamap verify --help`; `--all` takes all that are shipped"
        raise UsageProblem.of("missing-argument", f"`isamap verify` needs {what}", help=help_)
    return word


def _read_sets(words: Sequence[str], file: str | None) -> list[dict[str, Size]]:
    """Return the sets of sizes in the lines of a file, or in words. Sizes in words are common to all lines."""
    if file is None:
        return read_size_sets(words)
    common = read_sizes(words)
    return [common | own for own in read_sizes_file(read_file(Path(file), file))]


def _verify_one(
    kernel: str,
    hw: str,
    choices: Choices,
    sets: Sequence[Mapping[str, Size]],
    compared: ComparisonOptions,
    under: Emulator | None,
) -> Answer:
    """Verify one kernel on one machine, and return its comparisons."""
    from isamap.driver.runnable import prepare
    from isamap.driver.verifying import all_cases

    cases: list[Case] = []
    warnings: dict[str, Finding] = {}
    gaps: list[float | None] = []
    source, machine = read_kernel(kernel), machine_of(hw)
    with Progress() as progress:
        for number, own in enumerate(sets, 1):
            prepared = prepare(make_request(source, machine, own, choices), progress, under)
            warnings |= {w.text: Finding(w.json, w.text) for w in prepared.program.outcome.warnings}
            gaps += prepared.program.outcome.gaps
            progress(f"verify {number} of {len(sets)}")
            cases += all_cases(prepared, compared.fills, guard=compared.guard)
    wrong = [case for case in cases if not case.ok]
    findings = (*warnings.values(), *(Finding.of(d) for case in wrong for d in case.problems))
    payload = {
        **_verify_payload(cases, choices.threads),
        "emulator": str(under) if under is not None else None,
    }
    return Answer(payload, _verify_text(cases), findings, int(bool(wrong)), tuple(gaps))


def case_json(case: Case) -> dict[str, object]:
    """Return a comparison as JSON."""
    return {
        "sizes": dict(case.sizes),
        "fill": case.fill,
        "verified": case.ok,
        "max_error": case.max_error,
        "bound": case.bound,
        "ran_on": case.ran_on,
        "checked": case.checked,
        "guarded": case.guarded,
        **({"at": case.at} if case.at else {}),
    }


def _verify_payload(cases: list[Case], threads: int) -> dict[str, object]:
    """Return the comparisons as JSON. The one closest to its bound represents all."""

    def closeness(case: Case) -> tuple[bool, float]:
        ratio = case.max_error / case.bound if case.bound else float(case.max_error > 0)
        return not case.ok, ratio

    worst = max(cases, key=closeness)
    return {
        "max_error": worst.max_error,
        "bound": worst.bound,
        "ran_on": worst.ran_on,
        "threads": threads,
        "cases": [{**case_json(case), "diagnostics": [d.as_json() for d in case.problems]} for case in cases],
    }


def _verify_text(cases: list[Case]) -> str:
    rows = [("", "sizes", "fill", "largest error", "allowed", "ran on", "checked")]
    for case in cases:
        sizes = " ".join(f"{n}={v}" for n, v in case.sizes.items())
        allowed = "exact" if case.bound == 0 else f"{case.bound:.2g}"
        checked = case.checked + (", guarded" if case.guarded else "")
        word = "ok" if case.ok else "FAILED"
        ran_on = f"{case.ran_on}, {case.at}" if case.at else case.ran_on
        rows.append((word, sizes, case.fill, f"{case.max_error:.2g}", allowed, ran_on, checked))
    failed = sum(not case.ok for case in cases)
    last = f"{failed} of {len(cases)} comparisons failed" if failed else f"all {len(cases)} comparisons fine"
    return f"{align(rows)}\n\n{last}"
