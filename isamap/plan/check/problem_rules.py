"""Check a scheduling problem: names that exist, sizes and counts in range, times that can be added.

    check_problem(problem)  ->  ("statement 0, option 1, operand `b`: the tensor lies along `q`, not an axis",)

Heuristics, solvers and cost models rely on these rules. `judge` checks a schedule against a problem, and trusts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from isamap.plan.problem import Flow, NestOption, Problem, TileOperand

ROUNDING = 1e-9


def check_problem(problem: Problem) -> tuple[str, ...]:
    """Return the violated rules of a problem, each with its place, or () if it may be scheduled."""
    return (*_whole(problem), *_nests(problem))


def _nests(problem: Problem) -> Iterator[str]:
    statements = [nest.statement for nest in problem.nests]
    if statements != sorted(set(statements)):
        yield f"the statements {statements} are not in order"
    for nest in problem.nests:
        if nest.iterations < 0 or not nest.others_ns >= 0:
            yield f"statement {nest.statement}: {nest.iterations} iterations, others from {nest.others_ns} ns"
        for start in nest.starts:
            if not 0 <= start.option < len(nest.options):
                yield f"statement {nest.statement}: a start is of option {start.option} of {len(nest.options)}"
        for number, option in enumerate(nest.options):
            place = f"statement {nest.statement}, option {number}"
            yield from (f"{place}: {wrong}" for wrong in _option(option, nest.statement, problem))
            for operand in option.operands:
                found = _operand(operand, option, problem)
                yield from (f"{place}, operand `{operand.name}`: {wrong}" for wrong in found)


def _whole(problem: Problem) -> Iterator[str]:
    for kind, stated in (("registers", problem.registers), ("scratchpads", problem.scratchpads)):
        yield from _once(kind, [name for name, _ in stated])
        yield from _times(kind, stated)
    yield from _times("addresses", problem.address_steps, least=1)
    yield from _once("caches", [cache.name for cache in problem.caches])
    for cache in problem.caches:
        if min(cache.capacity_bytes, cache.bandwidth_bytes_per_ns, cache.cores, cache.usable_factor) <= 0:
            yield f"cache `{cache.name}` has no capacity, bandwidth, core or usable part"
        if min(cache.ways, cache.line_bytes, cache.kept_ns) < 0:
            yield f"cache `{cache.name}` has a negative number of ways, bytes or nanoseconds"
    yield from _unknown("hinted cache", problem.hinted, [cache.name for cache in problem.caches])
    if problem.threads < 1 or problem.memory_bandwidth_bytes_per_ns < 0:
        yield f"{problem.threads} threads, {problem.memory_bandwidth_bytes_per_ns} bytes per ns of main memory"
    yield from _times("time", [("threads", problem.thread_start_ns), ("barriers", problem.barrier_ns)])


def _option(option: NestOption, statement: int, problem: Problem) -> Iterator[str]:
    axes, files = [axis.name for axis in option.axes], dict(problem.registers)
    yield from _once("axes", axes)
    yield from _once("operands", [operand.name for operand in option.operands])
    for axis in option.axes:
        if axis.tile < 1 or axis.extent < 0:
            yield f"axis `{axis.name}` has {axis.extent} elements by {axis.tile}"
    if not any(operand.is_accumulator for operand in option.operands):
        yield "no operand is the result"
    issue = ("interval", option.interval_ns), ("latency", option.latency_ns), ("energy", option.issue_pj)
    yield from _times("issue", issue)
    yield from _times("registers between", option.between, least=0)
    yield from _unknown(
        "register", [name for name, _ in option.between], {*files, *dict(problem.scratchpads)}
    )
    yield from _unknown("scratchpad", [name for name, _ in option.passes], dict(problem.scratchpads))
    yield from _unknown("axis in parts", [name for name, _ in option.parts], axes)
    offered = {fusion.statement for fusion in option.fusions}
    for fusion in option.fusions:
        if fusion.statement == statement or not offered.issuperset(fusion.needs):
            yield f"the fusion of statement {fusion.statement} needs {fusion.needs}, which is not offered"
        yield from _times(f"fusion of statement {fusion.statement}", [("time", fusion.extra_ns)])
    if option.carried is not None and (option.carried.axis in axes or option.carried.chain_ns < 0):
        yield f"values are carried for {option.carried.chain_ns} ns along `{option.carried.axis}`"


def _operand(operand: TileOperand, option: NestOption, problem: Problem) -> Iterator[str]:
    axes, layout, costs = [axis.name for axis in option.axes], operand.layout, operand.costs
    staging, prefetching = operand.staging, operand.prefetching
    moved = {name for subscript in layout.subscripts for name, _ in subscript}
    yield from _unknown("axis", {*operand.axes, *moved}, axes)
    yield from _unknown("axis of rows", {layout.dense_axis, layout.next_row} - {""}, operand.axes)
    sizes = (operand.registers, layout.tensor_bytes, layout.pitch_bytes, layout.least_row_bytes)
    sizes = (
        *sizes,
        staging.staged_bytes,
        staging.fresh_bytes,
        prefetching.line_bytes,
        prefetching.ahead_bytes,
    )
    if min(sizes) < 0 or min(operand.tile_elements, staging.iterations_of_copy) < 1:
        yield f"a size is out of range: {operand.tile_elements} elements a tile, {sizes}"
    yield from _unknown("register", [name for name, _ in operand.over], dict(problem.registers))
    if not staging.homes:
        yield "its buffer has no memory"
    yield from _unknown("backing memory", staging.homes, {*dict(problem.scratchpads), ""})
    if costs.direct_ns is None and costs.staged_ns is None and not staging.is_packed:
        yield "it is read neither in place nor from a buffer"
    if staging.is_packed and operand.is_accumulator:
        yield "the caller packs a result"
    whole = ("in place", costs.direct_ns or 0.0), ("from a buffer", costs.staged_ns or 0.0)
    busy = costs.direct_busy_ns, costs.staged_busy_ns
    copies = ("copy", staging.pack_ns_per_element), ("copy by itself", staging.moved_ns_per_element)
    copies = (*copies, ("arrival", staging.arrives_ns))
    pj = (
        (f"energy {n}", one)
        for n, one in enumerate((*costs.energy.direct, *costs.energy.staged, *costs.energy.copied))
    )
    yield from _times("cost", (*whole, *copies, *(("busy", ns) for ns in busy), *prefetching.hints, *pj))
    yield from _unknown(
        "hinted cache", [name for name, _ in prefetching.hints], [c.name for c in problem.caches]
    )
    if staging.flow is not None:
        yield from _flow(staging.flow)


def _flow(flow: Flow) -> Iterator[str]:
    for busy in (flow.begun, flow.finished, flow.loaded, flow.around, flow.between, flow.apart):
        yield from _times("unit of a flow", busy)
    rest = flow.first_ns, flow.latency_ns, flow.issues, flow.queued, flow.early, flow.again_ns, flow.turn_ns
    yield from _times("flow", ((f"field {n}", one) for n, one in enumerate(rest)))


def _times(kind: str, stated: Iterable[tuple[str, float]], least: float = 0) -> Iterator[str]:
    """Yield a message for each value that is below `least`, infinite, or NaN."""
    return (f"{kind} `{name}` is {value}" for name, value in stated if not least <= value < inf)


def _once(kind: str, names: Sequence[str]) -> Iterator[str]:
    return (f"{kind}: `{name}` is there twice" for n, name in enumerate(names) if name in names[:n])


def _unknown(kind: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    return (f"{kind} `{name}` does not exist" for name in sorted({*names} - {*known}))
