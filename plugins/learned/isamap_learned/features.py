"""The features of a schedule for learned cost models, comparable between kernels and machines.

    described(trial, model).features  ->  {"issues": 0.71, "packing": 0.12, "rows.unroll": 2.58, ...}

No feature contains the name of an axis, an operand, a memory or an instruction. The parts of the price appear
as shares of the whole. Loops and operands of the longest statement appear by their roles:

    rows, columns, sums      axes of the result, of its rows without gaps, and those that are summed over
    left, right, result      inputs that do not follow the columns, those that do, and the output
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log2, prod

from isamap.plan.decisions import ahead_of, block_of, prefetch_of, rows_of, spread_of, stage_of, unroll_of
from isamap.plan.problem import NestOption, Problem, TileAxis, TileOperand
from isamap.plan.protocols import CostModel, Trial
from isamap.plan.schedule import NestSchedule
from isamap.plan.time_shares import NestTime
from isamap.scheduler.effects.table import EFFECTS
from isamap.scheduler.effects.time_parts import FUSED, where_time_goes
from isamap.scheduler.nests.pricing import read_nest
from isamap.source.records import dataclass

FEATURES_VERSION = 1
"""The version of the features' meaning. A trained model stores it, and a model of another version is refused."""

AXES = ("rows", "columns", "sums")
OPERANDS = ("left", "right", "result")
NEAR, FAR, OTHERS = "from near", "from far", "by units"
_DECIDED = {
    "stage": stage_of,
    "ahead": ahead_of,
    "spread": spread_of,
    "copied rows": rows_of,
    "prefetch": prefetch_of,
}
_OF_AXES = ("issues", "tile", "unroll", "block", "blocks", "waste")
_OF_OPERANDS = (*_DECIDED, "block", "panel", "row", "pitch", "bytes")
_SHARES = (
    *(effect.name for effect in EFFECTS if "{by}" not in effect.name),
    *(NEAR, FAR, OTHERS, "threads", FUSED),
)
_WHOLE = ("total", "over issues", "statements", "turns", "costliest")
_LOOPS = (
    *("loop count", "body", "held", "chained", "visits", "hold"),
    *("rows outside", "columns outside", "sums outside", "last trips", "last sums"),
)
FEATURES = (
    *_SHARES,
    *_WHOLE,
    *_LOOPS,
    *(f"{role}.{what}" for role in AXES for what in _OF_AXES),
    *(f"{role}.{what}" for role in OPERANDS for what in _OF_OPERANDS),
)
"""The names, in the order in which models are trained; sizes and counts are logarithms to base 2."""
OF_PRICE = (*_SHARES, "over issues")
"""The features of the price: with few samples they predict unseen kernels better."""


@dataclass(frozen=True, slots=True)
class Described:
    """A schedule's decisions, its price, and its features; without the latter if it cannot be priced.

    Units: `total_ns` in nanoseconds of the model, None if it cannot say.
    """

    decisions: Mapping[str, int]
    total_ns: float | None
    features: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Nest:
    """A scheduled statement: its choices, and the parts of its time."""

    chosen: NestSchedule
    option: NestOption
    assignment: Mapping[str, int]
    iterations: int
    time: NestTime


def described(trial: Trial, model: CostModel) -> Described:
    """Return the features of a trial, from which learned models predict."""
    problem, chosen = trial.problem, {nest.statement: nest for nest in trial.schedule.nests}
    nests: list[_Nest] = []
    is_priced = True
    times = where_time_goes(trial.schedule, problem, model)
    for nest, time in zip(problem.nests, times, strict=True):
        if nest.statement not in chosen:  # another statement takes it along
            continue
        read = read_nest(problem, nest, chosen[nest.statement])
        if read is None or time is None:
            is_priced = False
        else:
            nests.append(_Nest(chosen[nest.statement], *read, nest.iterations, time))
    decisions = {name: value for nest in nests for name, value in nest.assignment.items()}
    total_ns = sum(nest.time.total_ns for nest in nests)
    if not is_priced or total_ns <= 0:
        return Described(decisions, total_ns if is_priced else None, {})
    most = max(nests, key=lambda nest: nest.time.total_ns)
    found = dict.fromkeys(FEATURES, 0.0)
    found |= _shares(problem, nests, total_ns)
    issues_ns = found["issues"] * total_ns
    found |= {
        "total": log2(total_ns),
        "over issues": log2(total_ns / issues_ns) if issues_ns > 0 else 0.0,
        "statements": float(len(nests)),
        "turns": log2(most.iterations),
        "costliest": most.time.total_ns / total_ns,
    }
    found |= _loops(problem, most) | _axes(most) | _operands(problem, most)
    assert len(found) == len(FEATURES), "no two features have one name"
    return Described(decisions, total_ns, found)


def _shares(problem: Problem, nests: Iterable[_Nest], total_ns: float) -> dict[str, float]:
    """Return the time of each effect relative to the total; overlapped effects are included, so the sum exceeds 1."""
    near = {f"from {cache.name}" for cache in problem.caches}
    found = dict.fromkeys(_SHARES, 0.0)
    for nest in nests:
        for name, ns in nest.time.sums().items():
            if name in found:
                key = name
            elif name.startswith("from "):
                key = NEAR if name in near else FAR
            else:
                key = OTHERS
            found[key] += ns / total_ns
    return found


def _role(axis: TileAxis, option: NestOption) -> str:
    if axis.is_reduction:
        return "sums"
    dense = {operand.layout.dense_axis for operand in option.operands if operand.is_accumulator}
    return "columns" if axis.name in dense else "rows"


def _unroll(nest: _Nest, axis: TileAxis) -> int:
    return nest.assignment.get(unroll_of(nest.chosen.statement, axis.name), 1)


def _block(nest: _Nest, axis: TileAxis) -> int:
    return min(axis.extent, nest.assignment.get(block_of(nest.chosen.statement, axis.name), axis.extent))


def _loops(problem: Problem, nest: _Nest) -> dict[str, float]:
    """Return the features of the loops: their number, the work inside, and the places of sums."""
    option, chosen = nest.option, nest.chosen
    left = {axis.name: axis.extent for axis in option.axes}
    roles = {axis.name: _role(axis, option) for axis in option.axes}
    trips: list[tuple[str, int]] = []
    for loop in chosen.loops:
        if not loop.is_unrolled:
            trips.append((loop.axis, -(-left.get(loop.axis, 1) // loop.step)))
        left[loop.axis] = loop.step
    registers = dict(problem.registers)
    held = [
        prod(_unroll(nest, axis) for axis in option.axes if axis.name in o.axes and not axis.is_reduction)
        * o.registers
        / max(1, registers.get(o.memory, 1))
        for o in option.operands
        if o.is_accumulator
    ]
    looped = [roles.get(axis, "") for axis, _ in trips]
    last = trips[-1] if trips else ("", 1)
    outside = {f"{r} outside": 1 - looped.index(r) / len(looped) if r in looped else 0.0 for r in AXES}
    return outside | {
        "loop count": float(len(trips)),
        "body": log2(prod(_unroll(nest, axis) for axis in option.axes)),
        "held": max(held, default=0.0),
        "chained": option.latency_ns / option.interval_ns if option.interval_ns > 0 else 0.0,
        "visits": log2(prod(count for axis, count in trips[: chosen.hold] if roles.get(axis) == "sums")),
        "hold": chosen.hold / max(1, len(chosen.loops)),
        "last trips": log2(max(1, last[1])),
        "last sums": float(roles.get(last[0]) == "sums"),
    }


def _axes(nest: _Nest) -> dict[str, float]:
    """Return the decisions about the axes of each role, together."""
    found: dict[str, float] = {f"{role}.{what}": 0.0 for role in AXES for what in _OF_AXES}
    for axis in nest.option.axes:
        role, unroll, block = _role(axis, nest.option), _unroll(nest, axis), _block(nest, axis)
        step = axis.tile * unroll
        for what, value in (
            ("issues", -(-axis.extent // axis.tile)),
            ("tile", axis.tile),
            ("unroll", unroll),
            ("block", block),
            ("blocks", axis.extent / block),
            ("waste", -(-axis.extent // step) * step / axis.extent),
        ):
            found[f"{role}.{what}"] += log2(value)
    return found


def _operands(problem: Problem, nest: _Nest) -> dict[str, float]:
    """Return the decisions about operands by role, and the sizes of the pieces; the largest of each."""
    near_bytes = problem.caches[0].capacity_bytes if problem.caches else 1 << 15
    columns = {axis.name for axis in nest.option.axes if _role(axis, nest.option) == "columns"}
    found: dict[str, float] = {}
    for operand in nest.option.operands:
        role = "result" if operand.is_accumulator else "right" if columns & set(operand.axes) else "left"
        values = {
            what: float(nest.assignment.get(name(nest.chosen.statement, operand.name), 0))
            for what, name in _DECIDED.items()
        }
        values |= _pieces(nest, operand, near_bytes)
        for what, value in values.items():
            key = f"{role}.{what}"
            found[key] = max(found.get(key, value), value)
    return found


def _pieces(nest: _Nest, operand: TileOperand, near_bytes: int) -> dict[str, float]:
    """Return block and panel relative to the nearest cache, a block's piece of a row, and divisors of the pitch."""
    own = [axis for axis in nest.option.axes if axis.name in operand.axes]
    block = prod(_block(nest, axis) for axis in own)
    panel = prod(_block(nest, axis) if axis.is_reduction else axis.tile * _unroll(nest, axis) for axis in own)
    row = next((_block(nest, axis) for axis in own if axis.name == operand.layout.dense_axis), 1)
    size, pitch = max(1, operand.layout.tensor_bytes), operand.layout.pitch_bytes
    return {
        "block": log2(block * size / near_bytes),
        "panel": log2(panel * size / near_bytes),
        "row": log2(row * size),
        "pitch": log2(pitch & -pitch) if pitch > 0 else 0.0,
        "bytes": float(size),
    }
