"""One program with several schedules, selected by the sizes of a call: `-D M=1..8192@1,35,512`.

Each profile value has a schedule of its own; a text of several schedules says itself what each is for. One
ends where the next one is cheaper by the cost model, which prices both: for M = 1 and M = 35 the first is
cheaper up to M = 1, say. Steps are by ratios, so that a boundary is found within an eighth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import inf, isqrt, prod

from isamap.driver.pipeline import Compilation, Seen, compile_kernel, unseen
from isamap.driver.printers import emit_artifact
from isamap.driver.request import Request, Size
from isamap.driver.sizes import complete_sizes, has_versions, read_profiles, whole_sizes
from isamap.driver.stages import PASS_NAMES, STAGES, Clock, Watch
from isamap.driver.workspace_packing import judged, pack_workspace
from isamap.ir import bind
from isamap.lower.lower import Version, lower_versions, versions_behind
from isamap.plan.plugins import load_cost_model
from isamap.plan.schedule import Schedule
from isamap.plan.text import box_of, check_versions, parse_schedule, split_versions
from isamap.scheduler.nests.pricing import price
from isamap.source import Diagnostic, UsageProblem
from isamap.source.records import replace
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

PRECISION = 1.125


def parts_of_size(request: Request, name: str, whole: Mapping[str, Size]) -> tuple[Size, ...]:
    """Return the parts of a size, one for each of its profile values; `whole` are the sizes with one of these each.

    Raises: UsageProblem for profile values outside the range, or not in order.
    """
    value = request.sizes[name]
    if isinstance(value, int) or "," not in value:
        return (value,)
    low, high, profiles = read_profiles(value)
    _check_profiles(name, value, low, high, profiles)
    asked = [_asked(request, whole, name, low, high, profile) for profile in profiles]
    schedules = [_schedule(one) for one in asked]

    def end(number: int) -> int:
        pair = schedules[number : number + 2]

        def costs(at: int) -> list[float]:
            return _costs(_asked(request, whole, name, low, high, at), pair)

        return end_of_first(costs, profiles[number], profiles[number + 1])

    ends = [end(number) for number in range(len(profiles) - 1)]
    starts = [low, *(end + 1 for end in ends)]
    return tuple(
        start if start == end else f"{start}..{end}@{profile}"
        for start, end, profile in zip(starts, [*ends, high], profiles, strict=True)
    )


def end_of_first(costs: Callable[[int], Sequence[float]], below: int, beyond: int) -> int:
    """Return the last value that is left to the first of two schedules: the better one `below`, the other `beyond`.

    `costs` prices both at a value.
    """
    while beyond > below + 1 and beyond > PRECISION * below:
        middle = min(max(isqrt(below * beyond), below + 1), beyond - 1)
        first, second = costs(middle)
        below, beyond = (middle, beyond) if first <= second else (below, middle)
    return below


def _asked(
    request: Request, whole: Mapping[str, Size], name: str, low: int, high: int, profile: int
) -> Request:
    """Return the request for one schedule for all values of a size."""
    return replace(request, sizes={**whole, name: f"{low}..{high}@{profile}"}, evaluate="", tune=0)


def _schedule(request: Request) -> Schedule:
    found = compile_kernel(request, "schedule").schedule
    assert found, "this stage has run"
    return found


def _costs(request: Request, schedules: Sequence[Schedule]) -> list[float]:
    """Return the costs of schedules at a profile value; infinite where the model has none. Units: nanoseconds."""
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
    raise UsageProblem(
        Diagnostic(
            "several-profiles",
            f"`{name}={value}`: profile values increase, and lie between {low} and {high}",
            help=f"write `{name}={low}..{high}@{','.join(map(str, inside))}`",
        )
    )


MOST_VERSIONS = 16


def compile_sizes(
    request: Request,
    stop_after: str = "emit",
    watch: Watch = lambda _: None,
    seen: Seen = unseen,
) -> Compilation:
    """Return the compilation of a request, whether that has one schedule or several. Raises: as `compile_kernel`."""
    texts = split_versions(request.schedule) if request.schedule is not None else ()
    if len(texts) < 2 and not has_versions(request.sizes):
        return compile_kernel(request, stop_after, watch, seen=seen)
    whole = replace(request, sizes=whole_sizes(request.sizes))
    if len(texts) == 1 or stop_after in STAGES[: STAGES.index("schedule")]:
        return compile_kernel(whole, stop_after, watch, seen=seen)
    _check_alone(request)
    parts = tuple(_of_text(whole)) if texts else tuple(_of_profiles(request))
    made = tuple(compile_kernel(part, "schedule", watch) for part in parts)
    return _joined(whole, parts, made, stop_after, watch, seen)


def _joined(
    request: Request,
    parts: tuple[Request, ...],
    made: tuple[Compilation, ...],
    stop_after: str,
    watch: Watch,
    seen: Seen,
) -> Compilation:
    """Return the program of all versions, with what is known of the last of them."""
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
        program = judged(packed, last.machine)
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
        raise UsageProblem(
            Diagnostic(
                "several-profiles",
                f"{count} schedules in one program are too many: at most {MOST_VERSIONS} can be",
                help="name fewer profile values",
            )
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


def _check_alone(request: Request) -> None:
    """Forms differ in their arrays, and each schedule would pack in an order of its own."""
    option = "--packed" if request.packed else "--transform" if request.transform is not None else ""
    if option:
        raise UsageProblem(
            Diagnostic(
                "several-profiles",
                f"`{option}` and several schedules in one program do not go together",
                help=f"name one profile value, or leave `{option}` out",
            )
        )
