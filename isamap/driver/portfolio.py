"""`--portfolio`: choose the faster of our code and library calls for a kernel.

`isamap.libraries` finds the calls that compute the kernel. Each call runs in a child process, as emitted code
does, and is verified against the oracle. The correct calls and our code are timed in alternation. A library
is used if it wins significantly many rounds. The result is cached for equal questions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import prod
from typing import Any

from isamap.driver.cached_compilations import Warned
from isamap.driver.compiling import CompiledProgram, manifest
from isamap.driver.request import complete_sizes, whole_sizes
from isamap.driver.runnable import PreparedKernel
from isamap.driver.stages import Watch
from isamap.driver.verifying import symbols_of, verify_case
from isamap.emit.c_build import pool_files
from isamap.emit.c_library import emit_library_call
from isamap.ir import Kernel, bind, typical_size
from isamap.libraries.description import Library
from isamap.libraries.installed import InstalledLibrary, find_installed
from isamap.libraries.recognise import RecognisedCall, find_call
from isamap.machine import detect_features
from isamap.machine.processor import this_cpu
from isamap.run.child import RunProblem
from isamap.run.fills import fills_of, make_arrays, make_scalars
from isamap.run.toolchain import CompilerRefused, compile_library
from isamap.source import Diagnostic, MissingTool, OnlyWarned, UsageProblem, dataclass, replace
from isamap.source.cache import digest
from isamap.syntax import parse_kernel
from isamap.tune.implementation_choices import OURS, ChoiceDatabase, ImplementationChoice
from isamap.tune.measured import FEWEST_CALLS, LIMITS, SECONDS, MeasuredSchedule
from isamap.tune.tournament import play

Sizes = Mapping[str, int]
PATIENCE_NS = 20_000_000_000
"""After so long no round begins but those without which none can win."""


@dataclass(frozen=True, slots=True)
class Theirs:
    """A library call that performs a kernel, ready to run."""

    library: InstalledLibrary
    performed: RecognisedCall
    prepared: PreparedKernel

    @property
    def name(self) -> str:
        return self.library.library.name

    @property
    def function(self) -> str:
        return self.performed.call.prototype.name


@dataclass(frozen=True, slots=True)
class ComparedCall:
    """A library call compared with our code, with measurements at each of some sizes."""

    theirs: Theirs
    choices: tuple[tuple[Sizes, ImplementationChoice], ...]

    @property
    def is_faster(self) -> bool:
        """Return whether it is faster at all sizes, because our code has schedules for parts of them."""
        return not any(choice.is_ours for _, choice in self.choices)

    @property
    def ratio(self) -> float:
        """The time of the call divided by ours, as the geometric mean over sizes."""
        return prod(choice.ratio for _, choice in self.choices) ** (1 / len(self.choices))

    @property
    def json(self) -> dict[str, Any]:
        """The call and its measurements as JSON."""
        names = ("ratio", "ours_ns", "theirs_ns", "rounds", "time")
        return {
            "library": self.theirs.name,
            "origin": self.theirs.library.origin,
            "path": str(self.theirs.library.path),
            "function": self.theirs.function,
            "measured": [
                {"sizes": dict(sizes), **{name: getattr(choice, name) for name in names}}
                for sizes, choice in self.choices
            ],
        }


def with_faster(
    prepared: PreparedKernel, libraries: Sequence[Library], watch: Watch = lambda _: None
) -> PreparedKernel:
    """Return the program, or a library call that was measured to be faster, with the comparison.

    Raises: MissingTool if no library is installed, or this processor cannot run the machine; UsageProblem if
    no library call computes the kernel; RunProblem if our own code fails.
    """
    _check(prepared)
    names = [OURS, *(library.name for library in libraries)]
    if (twice := next((name for n, name in enumerate(names) if name in names[:n]), None)) is not None:
        said = f"two libraries to compare are called `{twice}`"
        raise UsageProblem.of("usage", said, help="give one of them another name")
    watch("portfolio")
    installed = [found for library in libraries if (found := find_installed(library)) is not None]
    if not installed:
        raise _nothing_installed(libraries)
    ready, findings = ready_calls(prepared, installed)
    if not ready:
        return _report_winner(prepared, None, (), findings)
    found = [(sizes, _choices(prepared, ready, sizes)) for sizes in measured_sizes(prepared)]
    compared = [
        ComparedCall(one, tuple((sizes, choices[n]) for sizes, choices in found))
        for n, one in enumerate(ready)
    ]
    winner = min((c for c in compared if c.is_faster), key=lambda c: c.ratio, default=None)
    return _report_winner(prepared, winner.theirs if winner else None, compared, findings)


def measured_sizes(prepared: PreparedKernel) -> tuple[Sizes, ...]:
    """Return the sizes to measure: the given ones, and for ranges each value with a schedule."""
    parsed, summary = parse_kernel(prepared.request.kernel), prepared.program.outcome.summary
    every = [version["sizes"] for version in summary.get("versions", ())] or [prepared.request.sizes]
    typical = [{n: typical_size(v) for n, v in complete_sizes(parsed, given).items()} for given in every]
    return tuple(sizes for n, sizes in enumerate(typical) if sizes not in typical[:n])


def _check(prepared: PreparedKernel) -> None:
    """Check that emitted programs run on this computer. Raises: MissingTool, UsageProblem."""
    if prepared.packers:
        said = (
            "`--portfolio` compares with calls that take operands as they lie, and `--packed` has some packed"
        )
        raise UsageProblem.of("usage", said, help="leave out one of them")
    if prepared.ran_on != "native":
        missing = ", ".join(prepared.missing)
        why = f"this processor lacks {missing}" if missing else f"its programs run as {prepared.ran_on}"
        said = f"code for {prepared.machine.name} cannot be compared with libraries here: {why}"
        help_ = "name a machine that this processor is, such as `--hw host`, or leave out `--portfolio`"
        raise MissingTool.of("not-measurable", said, help=help_)


def _nothing_installed(libraries: Sequence[Library]) -> MissingTool:
    notes = tuple(
        f"{one.name}: no {', no '.join(_place(p.file, p.package) for p in one.places)}" for one in libraries
    )
    packages = dict.fromkeys(p.package for one in libraries for p in one.places if p.package)
    first = next(iter(packages), "")
    help_ = f"`pip install {first}`, or " if first else ""
    said = "none of the libraries that are described is installed"
    return MissingTool.of("no-library", said, notes=notes, help=f"{help_}leave out `--portfolio`")


def _place(file: str, package: str) -> str:
    return f"`{file}` of the package {package}" if package else f"`{file}`"


def ready_calls(
    prepared: PreparedKernel, installed: Sequence[InstalledLibrary]
) -> tuple[list[Theirs], tuple[Diagnostic, ...]]:
    """Return the library calls that compute the kernel correctly, and diagnostics about the others."""
    parsed = parse_kernel(prepared.request.kernel)
    kernel = bind(parsed, complete_sizes(parsed, whole_sizes(prepared.request.sizes)))
    assert isinstance(kernel, Kernel)
    ready: list[Theirs] = []
    findings: list[Diagnostic] = []
    for library in installed:
        performed = find_call(kernel, library.library, detect_features())
        if performed is None:
            continue
        try:
            emitted = emit_library_call(prepared.compiled.interface, kernel, performed, library)
            variables = tuple(library.library.variables(prepared.request.threads).items())
            compiled = replace(compile_library(emitted, prepared.machine), environment=variables)
            program = CompiledProgram(prepared.program.outcome, emitted, prepared.program.stages)
            theirs = Theirs(library, performed, replace(prepared, program=program, compiled=compiled))
            wrong = _find_wrong_results(theirs)
        except CompilerRefused as problem:  # it cannot be linked with
            findings.append(_not_taken(library, performed, kernel.name, problem.diagnostics[0]))
            continue
        if wrong is None:
            ready.append(theirs)
        else:
            findings.append(_not_taken(library, performed, kernel.name, wrong))
    if not ready and not findings:
        findings.append(_report_no_call(kernel, installed))
    return ready, tuple(findings)


def _find_wrong_results(theirs: Theirs) -> Diagnostic | None:
    """Return the error if a library's results are wrong at a measured size or at the smallest one, or None."""
    request = theirs.prepared.request
    parsed = parse_kernel(request.kernel)
    sizes = complete_sizes(parsed, whole_sizes(request.sizes))
    least = {name: value if isinstance(value, int) else value.low for name, value in sizes.items()}
    measured = measured_sizes(theirs.prepared)
    cases = [(at, fill) for at in measured for fill in fills_of(bind(parsed, dict(at)))]
    cases += [(least, "random")] if least not in measured else []
    for at, fill in cases:
        case = verify_case(theirs.prepared, at, fill)
        if not case.ok:
            return case.problems[0]
    return None


def _not_taken(
    library: InstalledLibrary, performed: RecognisedCall, kernel: str, problem: Diagnostic
) -> Diagnostic:
    function = performed.call.prototype.name
    return Diagnostic(
        "library-wrong",
        f"{function} of {library.library.name} is not taken: it does not compute {kernel}",
        severity="warning",
        notes=(problem.message, *problem.notes[:2]),
        help="correct its description, or describe its result on this processor",
    )


def _report_no_call(kernel: Kernel, installed: Sequence[InstalledLibrary]) -> Diagnostic:
    names = ", ".join(one.library.name for one in installed)
    strict = ("a strict kernel has its sums in order, which no library promises",) if kernel.strict else ()
    return Diagnostic(
        "no-library-call",
        f"no call that is described of {names} computes {kernel.name}: the code is ours",
        severity="note",
        notes=strict,
        help="a file behind `--library` describes others",
    )


def _choices(prepared: PreparedKernel, ready: Sequence[Theirs], sizes: Sizes) -> list[ImplementationChoice]:
    """Return, for each call, whether it or our code is faster, from the database or measured now."""
    keys = [_key(prepared, theirs, sizes) for theirs in ready]
    if prepared.request.cache:
        with OnlyWarned():
            kept = [ChoiceDatabase.open().find(key) for key in keys]
            if all(kept):
                return [choice for choice in kept if choice is not None]
    contenders = {OURS: contender_of(prepared, sizes)}
    contenders |= {theirs.name: contender_of(theirs.prepared, sizes) for theirs in ready}
    turns = {name: lambda c=contender: c.turn(SECONDS) for name, contender in contenders.items()}
    rounds = play(turns, time.monotonic_ns, time.monotonic_ns() + PATIENCE_NS)
    for name, contender in contenders.items():  # what failed has no time, and nothing is faster than it
        check_ran(name, contender)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    found: list[ImplementationChoice] = []
    for key, theirs in zip(keys, ready, strict=True):
        own = {n: {OURS: c[OURS], theirs.name: c[theirs.name]} for n, c in rounds.items() if theirs.name in c}
        kernel = prepared.compiled.interface.name
        choice = ImplementationChoice.of(own, key=key, kernel=kernel, library=theirs.name, time=now)
        found.append(choice)
        if prepared.request.cache:
            with OnlyWarned():
                ChoiceDatabase.open().keep(choice)
    return found


def _key(prepared: PreparedKernel, theirs: Theirs, sizes: Sizes) -> str:
    """Return the sha256 of everything that may change which implementation is faster."""
    file = theirs.library.path.stat()
    library = [str(theirs.library.path), theirs.library.origin, file.st_size, file.st_mtime_ns]
    asked = json.dumps([library, sorted(sizes.items()), prepared.request.threads])
    compiler, cpu = prepared.compiled.compiler.version, this_cpu().key
    codes = [p.program.emitted.source for p in (prepared, theirs.prepared)]
    return digest(*codes, *theirs.library.library.texts, asked, compiler, cpu)


def contender_of(prepared: PreparedKernel, sizes: Sizes) -> MeasuredSchedule:
    """Return the program as a contender, called once on random data. Raises: RunProblem if it fails."""
    threads, kernel = prepared.request.threads, bind(parse_kernel(prepared.request.kernel), dict(sizes))
    assert isinstance(kernel, Kernel)
    arrays, scalars = make_arrays(kernel, "random"), make_scalars(kernel, "random")
    symbols = symbols_of(prepared, sizes)
    made = MeasuredSchedule(prepared.compiled, arrays, symbols, scalars, LIMITS.seconds, [], threads)
    made.processor_time = threads == 1
    made.run(FEWEST_CALLS)
    check_ran(prepared.compiled.interface.name, made)
    return made


def check_ran(name: str, contender: MeasuredSchedule) -> None:
    """Check that all calls have returned. Raises: RunProblem."""
    if contender.failure:
        said = f"`{name}` could not be measured: {contender.failure}"
        raise RunProblem.of("nothing-ran", said, help="repeat it, or leave out `--portfolio`")


def _report_winner(
    prepared: PreparedKernel,
    winner: Theirs | None,
    found: Sequence[ComparedCall],
    findings: tuple[Diagnostic, ...],
) -> PreparedKernel:
    """Return the winning implementation with the findings in its report, summary and manifest."""
    threads = prepared.request.threads
    told: dict[str, Any] = {
        "chosen": winner.name if winner else OURS,
        "function": winner.function if winner else None,
        "link": winner.library.link if winner else None,
        "clock": "processor time" if threads == 1 else "wall clock",
        "libraries": [one.json for one in found],
    }
    chosen = winner.prepared if winner else prepared
    outcome = prepared.program.outcome
    files = dict(outcome.files)
    files["report.txt"] += "".join(f"{line}\n" for line in _lines(prepared, winner, found, told))
    if winner is not None:
        for name in pool_files():
            files.pop(name, None)
        files |= chosen.program.emitted.files()
    summary = {**outcome.summary, "portfolio": told}
    depends: dict[str, Any] = json.loads(files.pop("manifest.json"))["depends_on"]
    files["manifest.json"] = manifest(summary, depends, files)
    warnings = (*outcome.warnings, *(Warned.of(d) for d in findings))
    outcome = replace(outcome, files=files, summary=summary, warnings=warnings)
    return replace(chosen, program=CompiledProgram(outcome, chosen.program.emitted, prepared.program.stages))


def _lines(
    prepared: PreparedKernel, winner: Theirs | None, found: Sequence[ComparedCall], told: Mapping[str, Any]
) -> list[str]:
    """Return the text of the report."""
    name = prepared.compiled.interface.name
    lines = ["", f"portfolio: {told['chosen']} performs {name}"]
    if winner is not None:
        lines[-1] += f", by {winner.function} ({winner.library.origin}): link with {winner.library.link}"
        lines.append("  the lines above describe our own code, which the call replaces")
    for one in found:
        for sizes, choice in one.choices:
            at = ", ".join(f"{n} = {v}" for n, v in sizes.items())
            lines.append(f"  {one.theirs.library.origin}, {one.theirs.function}, {at}: {choice.said}")
    if found:
        threads = prepared.request.threads
        lines.append(f"  {told['clock']}, {f'{threads} threads' if threads > 1 else 'one thread'}")
    else:
        lines[-1] += ": no call of an installed library that is described computes it rightly"
    return lines
