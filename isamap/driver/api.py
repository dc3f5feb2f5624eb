"""The Python interface: what the command line does, as functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from isamap.driver.callable import CompiledKernel
from isamap.driver.inputs import machine_of as machine_called
from isamap.driver.inputs import named_kernel, read_file
from isamap.driver.prepare import prepare
from isamap.driver.profiles import find_profile
from isamap.driver.request import MAX_THREADS, MOST_TUNED, Request, Size
from isamap.driver.sizes import complete_sizes
from isamap.driver.verify import Case, all_cases
from isamap.ir import bind
from isamap.machine import load_machine
from isamap.match import CountMode
from isamap.match import Mapping as KernelMapping
from isamap.match import find_mappings as find_all
from isamap.source import Diagnostic, Source, UsageProblem
from isamap.syntax import parse_kernel

Sizes = Mapping[str, Size]
FILLS = ("integers", "random", "edges")


def compile(  # noqa: A001 - whoever writes `isamap.compile` hides nothing
    kernel: str | Path,
    machine: str | Path,
    sizes: Sizes | None = None,
    *,
    schedule: str | Path | None = None,
    heuristic: str = "cpsat",
    isolate: bool = False,
    profile: str = "default",
    threads: int = 1,
    limit_s: float = 10.0,
    fix: Mapping[str, int | None] | None = None,
    tune: int = 0,
    tuned: bool = False,
    packed: Sequence[str] = (),
    cold: bool = False,
) -> CompiledKernel:
    """The kernel, compiled for a machine, and for so many threads.

    `kernel` is a shipped name, the path of an .ir file, or a text of the language; `machine` a name, a path
    or "host"; sizes are numbers, or ranges such as "1..8192@512", which stay open until the call. `schedule`
    is a text to replay, or the path of one. `profile` is "default" (the newest one that fits), "none" or a
    path. `limit_s` is the longest time for the solver, `fix` what it may not decide: {"block.k": 256}, or
    {"block": None} for what `schedule` has. `tune` is how many of the model's best schedules to measure, of
    which the fastest is taken and kept; `tuned` takes the one that was kept before. `packed` names inputs
    that calls take packed: `CompiledKernel.pack`. `cold` says that each call's operands are in no cache yet;
    what `tune` measures finds them there.
    Raises: IsamapError of every kind.
    """
    name, text = machine_of(machine), schedule_of(schedule)
    _check_choosers({"schedule": text is not None, "tune": tune != 0, "tuned": tuned}, fix or {})
    _check_count("threads", threads, 1, MAX_THREADS)
    if tune:
        _check_count("tune", tune, 2, MOST_TUNED)
    request = Request(
        source_of(kernel),
        name,
        sizes or {},
        schedule=text,
        heuristic=heuristic,
        profile=find_profile(profile, name),
        threads=threads,
        limit_s=limit_s,
        fixed=fix or {},
        tune=tune,
        tuned=tuned,
        packed=tuple(packed),
        cold=cold,
    )
    return CompiledKernel(prepare(request), isolate)


def find_mappings(
    kernel: str | Path, machine: str | Path, sizes: Sizes | None = None, mode: CountMode = "complete"
) -> tuple[KernelMapping, ...]:
    """Every mapping of a kernel onto a machine's instructions; without sizes, for all that it allows.

    `mode` says what is counted: "complete", "fixed" or "amos" (docs/matching.md).
    """
    routine = parse_kernel(source_of(kernel))
    if sizes:
        routine = bind(routine, complete_sizes(routine, sizes))
    return find_all(routine, load_machine(machine_of(machine)), mode)


def verify(
    kernel: str | Path,
    machine: str | Path,
    sizes: Sizes | None = None,
    *,
    schedule: str | Path | None = None,
    heuristic: str = "cpsat",
    threads: int = 1,
    packed: Sequence[str] = (),
) -> tuple[Case, ...]:
    """The comparisons of a compiled kernel with the interpreter; each says whether it is `ok`."""
    _check_count("threads", threads, 1, MAX_THREADS)
    request = Request(
        source_of(kernel),
        machine_of(machine),
        sizes or {},
        schedule=schedule_of(schedule),
        heuristic=heuristic,
        threads=threads,
        packed=tuple(packed),
    )
    return tuple(all_cases(prepare(request), FILLS, guard=True))


def source_of(kernel: str | Path) -> Source:
    """The text of a kernel: a shipped one, that of a file, or the text itself. Raises: UsageProblem."""
    if isinstance(kernel, Path):
        return read_file(kernel, str(kernel))
    return Source("kernel", kernel) if _is_text(kernel) else named_kernel(kernel)


def schedule_of(schedule: str | Path | None) -> Source | None:
    """The text of a schedule: that of a file, or the text itself. Raises: UsageProblem."""
    if schedule is None or (isinstance(schedule, str) and _is_text(schedule)):
        return None if schedule is None else Source("schedule", str(schedule))
    return read_file(Path(schedule), str(schedule))


def machine_of(machine: str | Path) -> str:
    """The machine's name, or path, "host" resolved."""
    return machine_called(str(machine))


def _is_text(word: str) -> bool:
    """Whether a word is a text of a language; names and paths have neither braces nor lines."""
    return "{" in word or "\n" in word


def _check_choosers(choosers: Mapping[str, bool], fix: Mapping[str, int | None]) -> None:
    """Nothing, where one thing at most says which schedule to take. Raises: UsageProblem."""
    found = [name for name, is_given in choosers.items() if is_given]
    if len(found) > 1:
        message = f"`{found[0]}` and `{found[1]}` both say which schedule to take"
        raise UsageProblem(Diagnostic("usage", message, help="leave out one of them"))
    kept = [name for name, value in fix.items() if value is None]
    if kept and not choosers["schedule"]:
        message = f"`fix` keeps `{kept[0]}` as the schedule has it, and there is no `schedule`"
        raise UsageProblem(Diagnostic("fix-syntax", message, help="give it a number, or give a `schedule`"))


def _check_count(name: str, value: int, low: int, high: int) -> None:
    """Nothing, where a number is within its limits. Raises: UsageProblem."""
    if not low <= value <= high:
        message = f"`{name}` takes a whole number from {low} to {high}, not {value}"
        raise UsageProblem(Diagnostic("option-value", message))
