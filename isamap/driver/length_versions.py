"""One program for several vector lengths, which it reads from the hardware at run time: `--hw rvv@Q=any`.

The schedule is found for the length that the machine typically has, and made longer and shorter for others.
For each the kernel is lowered, and judged, as for that length alone; what comes out is joined into one
program. Where a schedule cannot be made longer or shorter, that length has one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isamap.driver.pipeline import Compilation, Seen, compile_kernel, unseen
from isamap.driver.printers import emit_artifact
from isamap.driver.request import Request
from isamap.driver.size_versions import compile_sizes
from isamap.driver.stages import STAGES, Clock, Watch
from isamap.driver.workspace_packing import pack_workspace
from isamap.ir import print_routine
from isamap.lower.length_join import join_lengths
from isamap.lower.program import LoweredProgram
from isamap.lower.walk import issued
from isamap.machine import (
    EmitCall,
    EmitNothing,
    Machine,
    join_word,
    load_machine,
    passed_when_run,
    split_word,
)
from isamap.plan.check import check_schedule
from isamap.plan.loops import LoopStep, UnrolledLoop
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import NestSchedule, Schedule, unclaimed
from isamap.plan.text import print_versions
from isamap.source import Diagnostic, Source, UsageProblem
from isamap.source.records import replace


def compile_request(
    request: Request,
    stop_after: str = "emit",
    watch: Watch = lambda _: None,
    seen: Seen = unseen,
) -> Compilation:
    """Return the compilation of a request, for one length of vectors or several. Raises: as `compile_kernel`.

    Stages and passes before the whole program leave what they leave for the typical length.
    """
    word, given = split_word(request.machine)
    if all(len(values) == 1 for values in given.values()):
        return compile_sizes(request, stop_after, watch, seen)
    machine = load_machine(request.machine)
    values = {length.constant: length.value for length in machine.target.lengths}
    if machine.served is None:  # a single value was given by another word
        return compile_sizes(request, stop_after, watch, seen)
    constant, lengths = machine.served
    typical = values[constant]
    assert typical is not None, "the machine is at one length"

    def at(length: int) -> Request:
        return replace(request, machine=join_word(word, {**given, constant: (length,)}))

    if stop_after not in STAGES[STAGES.index("lower") :]:
        return compile_sizes(at(typical), stop_after, watch, seen)
    _check_alone(request, constant, typical)
    made = compile_sizes(at(typical), "lower", watch, seen)
    others = {
        length: _other(at(length), made, (typical, length), watch) for length in lengths if length != typical
    }
    clock = Clock(watch)
    clock.seconds |= made.stage_seconds
    with clock("lower"):
        program = _joined(constant, lengths, {typical: made} | others, load_machine(word))
    own = tuple(length for length, one in others.items() if not one.origin.get("grown"))
    found = replace(made, program=program, stage_seconds=clock.seconds, own_lengths=own)
    if stop_after == "lower":
        return found
    assert made.machine, "all stages have run"
    with clock("emit"):
        emitted = emit_artifact(program, passed_when_run(made.machine, load_machine(word)))
    return replace(found, emitted=emitted)


def _other(request: Request, made: Compilation, lengths: tuple[int, int], watch: Watch) -> Compilation:
    """Return the compilation for another length: by the schedule of the typical one where that can be grown."""
    free = replace(request, fixed={}, tune=0, tuned=False, evaluate="")
    grown = [_grown(free, one, lengths) for one in made.versions or (made,)]
    schedules = [schedule for schedule in grown if schedule is not None]
    if len(schedules) == len(grown):
        text = Source(f"{made.kernel.name}.schedule", print_versions(schedules))
        found = compile_sizes(replace(free, schedule=text), "lower", watch)
        found = replace(found, origin={"grown": True})
    else:
        found = compile_sizes(
            replace(request, tune=0, tuned=False, evaluate="", schedule=None), "lower", watch
        )
    assert found.canonical, "all stages have run"
    assert made.canonical, "all stages have run"
    if print_routine(found.canonical) != print_routine(made.canonical):
        raise UsageProblem(
            Diagnostic(
                "several-lengths",
                "the best variant of the kernel differs between vector lengths",
                help="leave `--transform` out, or name one variant",
            )
        )
    return found


def _grown(request: Request, one: Compilation, lengths: tuple[int, int]) -> Schedule | None:
    """Return the schedule of a compilation for another length; None where that is no answer there."""
    assert one.schedule, "all stages have run"
    assert one.problem, "all stages have run"
    named = tuple(sorted({nest.mapping for nest in one.schedule.nests}))
    sizes = dict(one.schedule.sizes)
    problem = compile_kernel(replace(request, sizes=sizes), "formulate", extent=named).problem
    assert problem, "this stage has run"
    schedule = at_other_tiles(one.schedule, one.problem, problem, lengths)
    return schedule if schedule is not None and not check_schedule(schedule, problem) else None


def _joined(
    constant: str, lengths: tuple[int, ...], made: dict[int, Compilation], described: Machine
) -> LoweredProgram:
    """Return the program of all lengths, with its workspace packed. Raises: UsageProblem."""
    programs: list[LoweredProgram] = []
    for length in lengths:
        program = made[length].program
        assert program, "all stages have run"
        programs.append(program)
    machine = made[lengths[-1]].machine
    assert machine, "all stages have run"
    for name in dict.fromkeys(name for program in programs for name in issued(program.body)):
        _check_emission(name, machine, described)
    return pack_workspace(join_lengths(constant, lengths, programs, machine), machine)


def _check_emission(name: str, machine: Machine, described: Machine) -> None:
    """Only calls are the same text for all lengths."""
    entry, whole = machine.instructions[name], described.instructions.get(name)
    if isinstance(entry.emit, EmitCall | EmitNothing):
        return
    if whole is None or (entry.instruction, entry.emit) != (whole.instruction, whole.emit):
        raise UsageProblem(
            Diagnostic(
                "several-lengths",
                f"`{name}` is emitted as a function for one length of vectors",
                notes=("a program for several lengths issues calls, which are told the length",),
                help=f"write `emit` of `{name}` as one call, or name one length",
            )
        )


def _check_alone(request: Request, constant: str, typical: int) -> None:
    """Refuse options that need a single vector length. Raises: UsageProblem."""
    refused = (("--packed", bool(request.packed)), ("--model", request.model))
    for option, asked in refused:
        if asked:
            raise UsageProblem(
                Diagnostic(
                    "several-lengths",
                    f"`{option}` and a program for several lengths of vectors do not go together",
                    help=f"name one length, as in `@{constant}={typical}`, or leave `{option}` out",
                )
            )


# --- a schedule for a machine whose tiles are longer or shorter ---


def at_other_tiles(
    schedule: Schedule, problem: Problem, other: Problem, lengths: tuple[int, int]
) -> Schedule | None:
    """Return the schedule of a problem as an answer to that of the same machine at another length of its vectors.

    `lengths` are both, in the order of the problems. None where a mapping is not offered there, or cuts its
    axes otherwise. What comes out is judged as any schedule is.
    """
    nests: list[NestSchedule] = []
    for nest in schedule.nests:
        here = next((o for o in _offered(nest, problem) if o.choose == nest.choose), None)
        there = _counterpart(nest, tuple(_offered(nest, other)), lengths)
        if here is None or there is None:
            return None
        tiles = {axis.name: axis.tile for axis in here.axes}
        others = {axis.name: axis.tile for axis in there.axes}
        if tiles.keys() != others.keys() or any(loop.step % tiles[loop.axis] for loop in nest.loops):
            return None
        loops = tuple(_loop(loop, tiles, others) for loop in nest.loops)
        nests.append(replace(nest, choose=there.choose, loops=loops))
    return replace(unclaimed(schedule), nests=tuple(nests))


def _offered(nest: NestSchedule, problem: Problem) -> Iterator[NestOption]:
    """Return the options of a nest's mapping."""
    question: NestProblem = next(one for one in problem.nests if one.statement == nest.statement)
    return (option for option in question.options if option.mapping == nest.mapping)


def _counterpart(
    nest: NestSchedule, options: tuple[NestOption, ...], lengths: tuple[int, int]
) -> NestOption | None:
    """Return the option that chooses as much of a vector; what does not grow with it is chosen alike."""
    here, there = lengths
    grown = tuple((name, value * there // here) for name, value in nest.choose)
    chosen = dict(nest.choose)

    def fits(option: NestOption) -> bool:
        grows = dict(grown)
        return all(value in (grows.get(name), chosen.get(name)) for name, value in option.choose)

    exact = next((option for option in options if option.choose == grown), None)
    return exact or next((option for option in options if fits(option)), None)


def _loop(loop: LoopStep, tiles: Mapping[str, int], others: Mapping[str, int]) -> LoopStep:
    tile, other = tiles[loop.axis], others[loop.axis]
    step = loop.step // tile * other
    if isinstance(loop, UnrolledLoop):
        return replace(loop, step=step)
    return replace(loop, step=step, rest=tuple(piece // tile * other for piece in loop.rest))
