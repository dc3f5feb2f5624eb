"""One program for several vector lengths, which it reads from the hardware at run time: `--hw rvv@Q=any`.

The schedule is found for the machine's typical length, and scaled to the others. The kernel is lowered and
checked for each length separately, and the results are joined into one program. If the schedule cannot be
scaled to a length, that length gets a separate one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import inf, isqrt, prod

from isamap.driver.pipeline import Compilation, Seen, compile_kernel, ignore_pass
from isamap.driver.printers import emit_artifact
from isamap.driver.request import Request, Size, complete_sizes, has_versions, read_profiles, whole_sizes
from isamap.driver.stages import PASS_NAMES, STAGES, Clock, Watch
from isamap.driver.workspace_packing import finish_program, pack_workspace
from isamap.ir import bind, print_routine
from isamap.lower.length_join import join_lengths
from isamap.lower.passes import Version, lower_versions, versions_behind
from isamap.lower.program import LoweredProgram
from isamap.lower.walk import issued_names
from isamap.machine.chain import join_word, split_word
from isamap.machine.checks import load_machine
from isamap.machine.emit_nodes import EmitCall, EmitNothing
from isamap.machine.lengths import passed_when_run
from isamap.machine.model import Machine
from isamap.plan.check import check_schedule
from isamap.plan.plugins import load_cost_model
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import LoopStep, NestSchedule, Schedule, UnrolledLoop, forget_cost
from isamap.plan.text import box_of, check_versions, parse_schedule, print_versions, split_versions
from isamap.scheduler.nests.pricing import price
from isamap.source import Source, UsageProblem, replace
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

# --- size versions --------------------------------------------------------------------------------------

# One program with several schedules, selected by the sizes of a call: `-D M=1..8192@1,35,512`.
#
# Each profile value has a schedule of its own; a text of several schedules says itself what each is for. One
# ends where the next one is cheaper by the cost model, which prices both: for M = 1 and M = 35 the first is
# cheaper up to M = 1, say. Steps are by ratios, so that a boundary is found within an eighth.


PRECISION = 1.125


def parts_of_size(request: Request, name: str, whole: Mapping[str, Size]) -> tuple[Size, ...]:
    """Return the parts of a size, one for each of its profile values. `whole` has one profile value per size.

    Raises: UsageProblem for profile values outside the range, or not in order.
    """
    value = request.sizes[name]
    if isinstance(value, int) or "," not in value:
        return (value,)
    low, high, profiles = read_profiles(value)
    _check_profiles(name, value, low, high, profiles)
    asked = [_request_length(request, whole, name, low, high, profile) for profile in profiles]
    schedules = [_schedule(one) for one in asked]

    def end(number: int) -> int:
        pair = schedules[number : number + 2]

        def costs(at: int) -> list[float]:
            return _costs(_request_length(request, whole, name, low, high, at), pair)

        return end_of_first(costs, profiles[number], profiles[number + 1])

    ends = [end(number) for number in range(len(profiles) - 1)]
    starts = [low, *(end + 1 for end in ends)]
    return tuple(
        start if start == end else f"{start}..{end}@{profile}"
        for start, end, profile in zip(starts, [*ends, high], profiles, strict=True)
    )


def end_of_first(costs: Callable[[int], Sequence[float]], below: int, beyond: int) -> int:
    """Return the last value of a size for which the first schedule is better. `costs` prices both at a value.

    `costs` prices both at a value.
    """
    while beyond > below + 1 and beyond > PRECISION * below:
        middle = min(max(isqrt(below * beyond), below + 1), beyond - 1)
        first, second = costs(middle)
        below, beyond = (middle, beyond) if first <= second else (below, middle)
    return below


def _request_length(
    request: Request, whole: Mapping[str, Size], name: str, low: int, high: int, profile: int
) -> Request:
    """Return the request for one schedule that serves all values of a size between limits."""
    return replace(request, sizes={**whole, name: f"{low}..{high}@{profile}"}, evaluate="", tune=0)


def _schedule(request: Request) -> Schedule:
    found = compile_kernel(request, "schedule").schedule
    assert found, "this stage has run"
    return found


def _costs(request: Request, schedules: Sequence[Schedule]) -> list[float]:
    """Return the costs of schedules at a profile value, infinite without a model. Units: nanoseconds."""
    named = {nest.mapping for schedule in schedules for nest in schedule.nests}
    problem = compile_kernel(request, "formulate", extent=tuple(sorted(named))).problem
    assert problem, "this stage has run"
    model = load_cost_model(request.cost_model)
    prices = [price(schedule, problem, model) for schedule in schedules]
    return [inf if None in parts else sum(part or 0.0 for part in parts) for parts in prices]


def _check_profiles(name: str, value: str, low: int, high: int, profiles: tuple[int, ...]) -> None:
    ordered = all(a < b for a, b in pairwise(profiles))
    if ordered and low <= profiles[0] and profiles[-1] <= high:
        return
    inside = sorted({p for p in profiles if low <= p <= high}) or [high]
    raise UsageProblem.of(
        "several-profiles",
        f"`{name}={value}`: profile values increase, and lie between {low} and {high}",
        help=f"write `{name}={low}..{high}@{','.join(map(str, inside))}`",
    )


MOST_VERSIONS = 16


def compile_sizes(
    request: Request, stop_after: str = "emit", watch: Watch = lambda _: None, seen: Seen = ignore_pass
) -> Compilation:
    """Return the compilation of a request with one or several schedules. Raises: as `compile_kernel`."""
    texts = split_versions(request.schedule) if request.schedule is not None else ()
    if len(texts) < 2 and not has_versions(request.sizes):
        return compile_kernel(request, stop_after, watch, seen=seen)
    whole = replace(request, sizes=whole_sizes(request.sizes))
    if len(texts) == 1 or stop_after in STAGES[: STAGES.index("schedule")]:
        return compile_kernel(whole, stop_after, watch, seen=seen)
    # Refuse options that need a single schedule, because variants differ in arrays and schedules in packing.
    option = "--packed" if request.packed else "--transform" if request.transform is not None else ""
    if option:
        raise UsageProblem.of(
            "several-profiles",
            f"`{option}` and several schedules in one program do not go together",
            help=f"name one profile value, or leave `{option}` out",
        )
    parts = tuple(_of_text(whole)) if texts else tuple(_of_profiles(request))
    made = tuple(compile_kernel(part, "schedule", watch) for part in parts)
    return _joined_size_versions(whole, parts, made, stop_after, watch, seen)


def _joined_size_versions(
    request: Request,
    parts: tuple[Request, ...],
    made: tuple[Compilation, ...],
    stop_after: str,
    watch: Watch,
    seen: Seen,
) -> Compilation:
    """Return the program of all versions, with the compilation data of the last one."""
    clock, last = Clock(watch), made[-1]
    parsed = parse_kernel(request.kernel)
    sizes = complete_sizes(parsed, request.sizes)
    kernel = bind(parsed, sizes)
    warnings = tuple(dict.fromkeys(w for one in made for w in one.warnings))
    seconds = {stage: sum(one.stage_seconds.get(stage, 0.0) for one in made) for stage in STAGES}
    clock.seconds |= {stage: took for stage, took in seconds.items() if took}
    found = replace(last, kernel=kernel, warnings=warnings, versions=made, stage_seconds=clock.seconds)
    if stop_after in ("schedule", "check"):
        return found
    assert last.machine, "all stages up to the schedule have run"
    with clock("lower"):
        versions: list[Version] = []
        for part, one in zip(parts, made, strict=True):
            assert one.canonical, "all stages up to the schedule have run"
            assert one.schedule, "all stages up to the schedule have run"
            known = one.canonical, one.schedule, complete_sizes(parsed, part.sizes), one.matches
            versions.append(Version(*known))
        whole = make_guards_explicit(kernel)
        if stop_after in PASS_NAMES[:-1]:
            return replace(found, passed=versions_behind(stop_after, whole, last.machine, versions))
        lowered = lower_versions(whole, last.machine, versions, sizes, seen)
        packed = pack_workspace(lowered, last.machine)
        seen("workspace", packed)
        if stop_after == "workspace":
            return replace(found, passed=(packed,))
        program = finish_program(packed, last.machine)
    found = replace(found, program=program)
    if stop_after == "lower":
        return found
    with clock("emit"):
        model = request.model or last.machine.target.run == "model"
        emitted = emit_artifact(program, last.machine, model=model)
    return replace(found, emitted=emitted)


def _of_profiles(request: Request) -> Iterator[Request]:
    """Yield a request for each version."""
    whole = whole_sizes(request.sizes)
    count = prod(str(value).count(",") + 1 for value in request.sizes.values())
    if count > MOST_VERSIONS:
        raise UsageProblem.of(
            "several-profiles",
            f"{count} schedules in one program are too many: at most {MOST_VERSIONS} can be",
            help="name fewer profile values",
        )
    choices = [parts_of_size(request, name, whole) for name in request.sizes]
    for values in product(*choices):
        sizes: dict[str, Size] = dict(zip(request.sizes, values, strict=True))
        yield replace(request, sizes=sizes)


def _of_text(request: Request) -> Iterator[Request]:
    """Yield a request for each schedule of a text. Raises: UsageProblem, SyntaxProblem."""
    assert request.schedule, "there is a text"
    texts = split_versions(request.schedule)
    given = [dict(parse_schedule(text).sizes) for text in texts]
    kernel = parse_kernel(request.kernel)
    defaults = {p.name: p.default for p in kernel.params if p.default is not None and p.dtype is None}
    whole: Mapping[str, Size] = {**defaults, **request.sizes}
    findings = check_versions([box_of(sizes.items()) for sizes in given], box_of(whole.items()))
    if findings:
        raise UsageProblem(*findings)
    for text, sizes in zip(texts, given, strict=True):
        yield replace(request, sizes=sizes, schedule=text)


# --- length versions ------------------------------------------------------------------------------------


def compile_request(
    request: Request, stop_after: str = "emit", watch: Watch = lambda _: None, seen: Seen = ignore_pass
) -> Compilation:
    """Return the compilation of a request, for one vector length or several. Raises: as `compile_kernel`.

    Stages and passes before the joined program report their results for the typical length.
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
        program = _join_lengths(constant, lengths, {typical: made} | others, load_machine(word))
    own = tuple(length for length, one in others.items() if not one.origin.get("grown"))
    found = replace(made, program=program, stage_seconds=clock.seconds, own_lengths=own)
    if stop_after == "lower":
        return found
    assert made.machine, "all stages have run"
    with clock("emit"):
        emitted = emit_artifact(program, passed_when_run(made.machine, load_machine(word)))
    return replace(found, emitted=emitted)


def _other(request: Request, made: Compilation, lengths: tuple[int, int], watch: Watch) -> Compilation:
    """Return the compilation for another length, by the scaled schedule if that is valid."""
    free = replace(request, fixed={}, tune=0, tuned=False, evaluate="")
    grown = [_grow_schedule(free, one, lengths) for one in made.versions or (made,)]
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
        raise UsageProblem.of(
            "several-lengths",
            "the best variant of the kernel differs between vector lengths",
            help="leave `--transform` out, or name one variant",
        )
    return found


def _grow_schedule(request: Request, one: Compilation, lengths: tuple[int, int]) -> Schedule | None:
    """Return a compilation's schedule scaled to another length, or None if it is invalid there."""
    assert one.schedule, "all stages have run"
    assert one.problem, "all stages have run"
    named = tuple(sorted({nest.mapping for nest in one.schedule.nests}))
    sizes = dict(one.schedule.sizes)
    problem = compile_kernel(replace(request, sizes=sizes), "formulate", extent=named).problem
    assert problem, "this stage has run"
    schedule = at_other_tiles(one.schedule, one.problem, problem, lengths)
    return schedule if schedule is not None and not check_schedule(schedule, problem) else None


def _join_lengths(
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
    for name in dict.fromkeys(name for program in programs for name in issued_names(program.body)):
        _check_emission(name, machine, described)
    return pack_workspace(join_lengths(constant, lengths, programs, machine), machine)


def _check_emission(name: str, machine: Machine, described: Machine) -> None:
    """Refuse instructions that are not emitted as calls, because their text may differ between lengths."""
    entry, whole = machine.instructions[name], described.instructions.get(name)
    if isinstance(entry.emit, EmitCall | EmitNothing):
        return
    if whole is None or (entry.instruction, entry.emit) != (whole.instruction, whole.emit):
        raise UsageProblem.of(
            "several-lengths",
            f"`{name}` is emitted as a function for one length of vectors",
            notes=("a program for several lengths issues calls that receive the length",),
            help=f"write `emit` of `{name}` as one call, or name one length",
        )


def _check_alone(request: Request, constant: str, typical: int) -> None:
    """Refuse options that need a single vector length. Raises: UsageProblem."""
    refused = (("--packed", bool(request.packed)), ("--model", request.model))
    for option, asked in refused:
        if asked:
            raise UsageProblem.of(
                "several-lengths",
                f"`{option}` and a program for several lengths of vectors do not go together",
                help=f"name one length, as in `@{constant}={typical}`, or leave `{option}` out",
            )


# --- a schedule for a machine whose tiles are longer or shorter ---


def at_other_tiles(
    schedule: Schedule, problem: Problem, other: Problem, lengths: tuple[int, int]
) -> Schedule | None:
    """Return a schedule scaled to the problem of the same machine at another vector length, or None.

    `lengths` are both lengths, in the order of the problems. Scaling fails if a mapping does not exist there,
    or cuts its axes in another way. The result is checked like any schedule.
    """
    nests: list[NestSchedule] = []
    for nest in schedule.nests:
        here = next((o for o in _find_options(nest, problem) if o.choose == nest.choose), None)
        there = _counterpart(nest, tuple(_find_options(nest, other)), lengths)
        if here is None or there is None:
            return None
        tiles = {axis.name: axis.tile for axis in here.axes}
        others = {axis.name: axis.tile for axis in there.axes}
        if tiles.keys() != others.keys() or any(loop.step % tiles[loop.axis] for loop in nest.loops):
            return None
        loops = tuple(_loop(loop, tiles, others) for loop in nest.loops)
        nests.append(replace(nest, choose=there.choose, loops=loops))
    return replace(forget_cost(schedule), nests=tuple(nests))


def _find_options(nest: NestSchedule, problem: Problem) -> Iterator[NestOption]:
    """Yield the options of a nest's mapping."""
    question: NestProblem = next(one for one in problem.nests if one.statement == nest.statement)
    return (option for option in question.options if option.mapping == nest.mapping)


def _counterpart(
    nest: NestSchedule, options: tuple[NestOption, ...], lengths: tuple[int, int]
) -> NestOption | None:
    """Return the option that fills the same part of a vector, with equal other choices, or None."""
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
