"""`isamap verify`: emitted code, run in a child process and compared with the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isamap.cli.answers import Answer, Finding
from isamap.cli.cases import Jobs
from isamap.cli.options import (
    AsJson,
    AsModel,
    CostModelName,
    EmulatorCommand,
    FixWords,
    FormNumber,
    LimitSeconds,
    PackedNames,
    ProfileName,
    ProgramPath,
    Requirement,
    ScheduleFile,
    SizeWords,
    ThreadCount,
)
from isamap.cli.program_files import read_cases, refuse_beside_program
from isamap.cli.requests import Choices, make_request, with_proof
from isamap.cli.terminal import Progress
from isamap.cli.verify_matrix import Compared, Kept, verify_matrix
from isamap.cli.words import read_choice, read_emulator, read_size_sets, read_sizes, read_sizes_file
from isamap.driver.inputs import read_file
from isamap.driver.request import Size
from isamap.report.columns import table
from isamap.source import Diagnostic, UsageProblem

if TYPE_CHECKING:
    from isamap.driver.verifying import Case

FILLS = ("integers", "random", "edges", "spread", "peaks", "ties")
KernelOrAll = Annotated[
    str | None,
    typer.Argument(
        metavar="KERNEL",
        help="A shipped kernel's name, the path of an .ir file, or -; with --all also `gemm_*`, or "
        "several with commas.",
        show_default=False,
    ),
]
MachineOrAll = Annotated[
    str | None,
    typer.Option(
        "--hw",
        metavar="MACHINE",
        help="A shipped machine's name, `host`, or the path of a description; @Q=8 behind it gives a length "
        "of vectors, @Q=any tries the program at all; with --all also `x86-*`, or several with commas.",
        show_default=False,
    ),
]
Every = Annotated[
    bool,
    typer.Option("--all", help="Every shipped kernel on every shipped machine, or those that are named."),
]
SizesFile = Annotated[
    str | None,
    typer.Option(
        "--sizes", metavar="FILE", help="A set of sizes per line: M=64 N=64 K=64.", show_default=False
    ),
]
Fills = Annotated[
    list[str] | None,
    typer.Option(
        "--fill",
        metavar="FILL",
        help=f"One of {', '.join(FILLS)}; by default those that the kernel's operations ask for.",
        show_default=False,
    ),
]
Guard = Annotated[
    bool, typer.Option("--guard/--no-guard", help="Lay data beside memory that must not be touched.")
]
HeuristicOfBoth = Annotated[
    str | None,
    typer.Option(
        "--heuristic",
        metavar="NAME",
        help="How to schedule: cpsat, annealing, or greedy, which is quick, and what --all takes.",
        show_default=False,
    ),
]
CellsFolder = Annotated[
    str | None,
    typer.Option("-o", metavar="FOLDER", help="Keep what --all finds here as it comes.", show_default=False),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what -o has; what failed is done again.")]


def verify_command(
    kernel: KernelOrAll = None,
    hw: MachineOrAll = None,
    every: Every = False,
    sizes: SizeWords = None,
    sizes_file: SizesFile = None,
    fill: Fills = None,
    guard: Guard = True,
    schedule: ScheduleFile = None,
    heuristic: HeuristicOfBoth = None,
    cost_model: CostModelName = "analytic",
    limit: LimitSeconds = "10",
    require: Requirement = "",
    fix: FixWords = None,
    threads: ThreadCount = "1",
    packed: PackedNames = None,
    model: AsModel = False,
    transform: FormNumber = None,
    profile: ProfileName = "default",
    emulator: EmulatorCommand = None,
    jobs: Jobs = None,
    program: ProgramPath = None,
    output: CellsFolder = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> Answer:
    """Compile a kernel, run it, and compare the results with the interpreter's; -D may give several sets."""
    _check_emulator(emulator, model)
    under = read_emulator(emulator)
    fills = tuple(read_choice(word, "--fill", FILLS) for word in fill or ())
    chosen = heuristic or ("greedy" if every else "cpsat")
    choices = Choices(
        schedule, chosen, cost_model, limit, fix, model, profile, transform, threads=threads, packed=packed
    )
    sets = _read_sets(sizes or (), sizes_file)
    kept = Kept(jobs, output, resume)
    if program is not None:
        refuse_beside_program(
            {"--all": every, "--schedule": schedule, "--heuristic": heuristic, "--fix": fix,
             "--packed": packed, "--model": model, "--transform": transform, "--emulator": emulator,
             "-o": output}
        )  # fmt: skip
        word, hw_word = _needed(kernel, "a kernel"), _needed(hw, "the option --hw")
        return _verify_file(program, word, hw_word, sets, fills)
    if every:
        return verify_matrix(kernel, hw, choices, sets, Compared(fills, guard, under), kept)
    _refuse_of_all(kept)
    compared = Compared(fills, guard, under)
    answer = _verify_one(_needed(kernel, "a kernel"), _needed(hw, "the option --hw"), choices, sets, compared)
    return with_proof(answer, require)


def _verify_file(
    path: str, kernel: str, machine: str, sets: Sequence[Mapping[str, Size]], fills: tuple[str, ...]
) -> Answer:
    """Return the words of a file, performed and compared."""
    cases, counts, _ = read_cases(path, kernel, machine, sets, fills)
    wrong = [case for case in cases if not case.ok]
    findings = tuple(Finding.of(d) for case in wrong for d in case.problems)
    payload = {**_verify_payload(cases, 1), "emulator": None, "program": path, "instructions": counts}
    return Answer(payload, _verify_text(cases), findings, int(bool(wrong)))


def _needed(word: str | None, what: str) -> str:
    """Return a word without which one kernel is not verified. Raises: UsageProblem."""
    if word is None:
        help_ = "see `isamap verify --help`; `--all` takes all that are shipped"
        raise UsageProblem(Diagnostic("missing-argument", f"`isamap verify` needs {what}", help=help_))
    return word


def _refuse_of_all(kept: Kept) -> None:
    """Nothing, unless an option is given that says something of many cells. Raises: UsageProblem."""
    given = {"--jobs": kept.jobs, "-o": kept.folder, "--resume": kept.resume or None}
    if found := next((option for option, value in given.items() if value is not None), None):
        said = f"`{found}` is of the matrix of many kernels and machines"
        raise UsageProblem(Diagnostic("usage", said, help="add --all, or leave it out"))


def _read_sets(words: Sequence[str], file: str | None) -> list[dict[str, Size]]:
    """Return the sets of sizes that are given: by words, and by the lines of a file, to which words are common."""
    if file is None:
        return read_size_sets(words)
    common = read_sizes(words)
    return [common | own for own in read_sizes_file(read_file(Path(file), file))]


def _verify_one(
    kernel: str, hw: str, choices: Choices, sets: Sequence[Mapping[str, Size]], compared: Compared
) -> Answer:
    """Return one kernel on one machine, comparison by comparison."""
    from isamap.driver.runnable import prepare
    from isamap.driver.verifying import all_cases

    cases: list[Case] = []
    warnings: dict[str, Finding] = {}
    gaps: list[float | None] = []
    under = compared.emulator
    with Progress() as progress:
        for number, own in enumerate(sets, 1):
            prepared = prepare(make_request(kernel, hw, own, choices), progress, under)
            warnings |= {w.text: Finding(w.json, w.text) for w in prepared.program.outcome.warnings}
            gaps += prepared.program.outcome.gaps
            progress(f"verify {number} of {len(sets)}")
            cases += all_cases(prepared, compared.fills, guard=compared.guard)
    wrong = [case for case in cases if not case.ok]
    findings = (*warnings.values(), *(Finding.of(d) for case in wrong for d in case.problems))
    payload = {
        **_verify_payload(cases, int(choices.threads)),
        "emulator": str(under) if under is not None else None,
    }
    return Answer(payload, _verify_text(cases), findings, int(bool(wrong)), tuple(gaps))


def _check_emulator(emulator: str | None, model: bool) -> None:
    """Nothing, unless an emulator is named for what needs none. Raises: UsageProblem."""
    if emulator is not None and model:
        said = "`--model` asks for plain C, which needs no emulator, and `--emulator` for the instructions"
        raise UsageProblem(Diagnostic("usage", said, help="leave out one of them"))


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
    """Return the case that came closest to its bound speaks for all."""

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
    return f"{table(rows)}\n\n{last}"
