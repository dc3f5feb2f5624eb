"""Costs: numbers or expressions of an instruction's parameters, in nanoseconds, with their evaluation and check.

`"0.5 * R"` with R = 16 is 8 ns.

The check proves that a cost is at least 0 for all values of its parameters, or finds a counterexample:

`1 / (N - 4)` with N in 4..8 divides by 0 at N = 4. `max(8, R)` with R in 1..16 is between 8 and 16.

The check first computes bounds over the whole range. If they do not decide, it halves the range until each
part is decided or is a single instance. Ranges of billions take a few dozen steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf, isfinite, isnan
from typing import assert_never

import numpy as np

from isamap.ir.bind import MAX_EXTENT, comparison_holds
from isamap.ir.dtypes import F64
from isamap.ir.nodes import Call, Cast, Const, Constraint, Expr, IndexValue, Instruction, Param, Read, Scalar
from isamap.ir.ops import OPS
from isamap.ir.walk import walk
from isamap.machine.families import Row
from isamap.machine.fields import NUMBER
from isamap.machine.model import Cost, Machine, MachineInstruction
from isamap.machine.spec import CostSpec, TimeSpec
from isamap.source import Diagnostic, IsamapError, Source, SpecProblem, dataclass
from isamap.syntax import parse_expression, substitute_text


def cost_value(expr: Expr, params: Mapping[str, int]) -> float:
    """Return the value of a cost at these values of the parameters. Units: ns."""
    match expr:
        case Const(value):
            return float(value)
        case Scalar(name):
            return float(params[name])
        case Call(op, args, _, mode):
            values = [cost_value(arg, params) for arg in args]
            compute = OPS[op].compute
            return float(compute(*values, mode) if mode is not None else compute(*values))
        case Cast(value):
            return cost_value(value, params)
        case IndexValue(index):
            return float(index.evaluate(params))
        case Read():
            raise AssertionError("a cost knows parameters only")
        case _ as unreachable:
            assert_never(unreachable)


def cost_params(item: MachineInstruction, machine: Machine, known: Mapping[str, int]) -> dict[str, int]:
    """Return values for all names that the costs of an instruction may use.

    An unknown parameter counts as 1, or as its allowed value nearest to 1. A constant of the machine has its
    typical value.
    """
    named = (*(p for p in item.instruction.params if p.dtype is None), *machine.constants)
    return {p.name: known[p.name] if p.name in known else _usual(p) for p in named}


def _usual(p: Param) -> int:
    if p.default is not None:
        return p.default
    low = p.low.value if p.low is not None else None
    high = p.high.value if p.high is not None else None
    return max(1 if low is None else low, 1 if high is None else min(1, high))


MAX_STEPS = 2000

Ranges = tuple[tuple[str, int, int], ...]
"""Names of parameters, each with its least and its greatest value."""

Bounds = tuple[float, ...]
"""Two numbers between which a cost lies."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """An error in a cost: the message, the next step, the values that cause it, and all names in it."""

    said: str
    advice: str
    values: Mapping[str, int]
    names: frozenset[str]


_BY_ZERO = ("it divides by 0", "divide by `max(1, …)`, or narrow the range")
_NO_NUMBER = ("it is not a number", "keep its inputs within `min` and `max`, or narrow the range")
_INFINITE = ("it is infinite", _NO_NUMBER[1])
_OPEN = (
    "it is not proved to be at least 0",
    "write `max(0, …)` around it and divide by `max(1, …)`, or narrow the range",
)
_BELOW = "write `max(0, …)` around it, or narrow the range"


def parameter_ranges(instruction: Instruction, constants: Iterable[Param]) -> Ranges:
    """Return the range of each integer parameter, and of each constant of the machine."""
    known = {p.name: p for p in constants}
    lows = {name: p.low.value for name, p in known.items() if p.low and p.low.value is not None}
    highs = {name: p.high.value for name, p in known.items() if p.high and p.high.value is not None}
    found: list[tuple[str, int, int]] = []
    for p in (*(p for p in instruction.params if p.dtype is None), *known.values()):
        low = p.low.substitute(lows).value if p.low is not None else None
        high = p.high.substitute(highs).value if p.high is not None else None
        least = 1 if low is None else low
        found.append((p.name, least, max(least, MAX_EXTENT if high is None else high)))
    return tuple(found)


def find_flaw(expr: Expr, ranges: Ranges, where: tuple[Constraint, ...]) -> Flaw | None:
    """Return the first instance at which a cost is not a number of at least 0, or None if there is none.

    Instances that `where` excludes do not count. A cost that remains undecided for too long has a flaw, too,
    so that a loaded machine never fails in a schedule.
    """
    names = names_in(expr)
    waiting, steps = [tuple(r for r in ranges if r[0] in names)], 0
    while waiting:
        box = waiting.pop()
        bounds = _bounds(expr, {name: (float(low), float(high)) for name, low, high in box})
        if bounds is not None and bounds[0] >= 0 and bounds[1] < inf:
            continue
        values = {name: low for name, low, _ in box}
        if (found := _flaw_at(expr, values)) is not None and is_allowed(values, where):
            return Flaw(*found, values, names)
        steps += 1
        if steps > MAX_STEPS:
            return Flaw(*_OPEN, {}, names)
        waiting += reversed(_halves(box))
    return None


def _flaw_at(expr: Expr, values: Mapping[str, int]) -> tuple[str, str] | None:
    """Return the flaw of a cost at one instance, and the next step, or None if it has none."""
    try:
        with np.errstate(all="ignore"):
            value = cost_value(expr, values)
    except ZeroDivisionError:
        return _BY_ZERO
    if isnan(value):
        return _NO_NUMBER
    if not isfinite(value):
        return _INFINITE
    return (f"it is {value:g}", _BELOW) if value < 0 else None


def is_allowed(values: Mapping[str, int], where: tuple[Constraint, ...]) -> bool:
    """Return whether no constraint is violated by these values. Undecided constraints count as satisfied."""
    for c in where:
        left, right = c.left.substitute(values).value, c.right.substitute(values).value
        if left is not None and right is not None and not comparison_holds(left, c.comparison, right):
            return False
    return True


def _halves(box: Ranges) -> list[Ranges]:
    """Return the two halves of a box along its longest side, or an empty list for a single instance."""
    name, low, high = max(box, key=lambda r: r[2] - r[1], default=("", 0, 0))
    if low == high:
        return []
    middle = (low + high) // 2
    parts = ((name, low, middle), (name, middle + 1, high))
    return [tuple(part if r[0] == name else r for r in box) for part in parts]


def names_in(expr: Expr) -> frozenset[str]:
    """Return the names that a cost depends on."""
    return frozenset(part.name for part in walk(expr) if isinstance(part, Scalar))


# --- bounds -----------------------------------------------------------------------------------------------


def _bounds(expr: Expr, ranges: Mapping[str, Bounds]) -> Bounds | None:
    """Return a lower and an upper bound of a cost, or None if it may be undefined or no bound is known."""
    match expr:
        case Const(value):
            return float(value), float(value)
        case Scalar(name):
            return ranges[name]
        case Cast(value):
            return _bounds(value, ranges)
        case Call(op, args, _, mode):
            known = [b for arg in args if (b := _bounds(arg, ranges)) is not None]
            found = _of_call(op, known, mode) if len(known) == len(args) else None
            return None if found is None or any(map(isnan, found)) else found
        case _:
            return None


def _of_call(op: str, args: list[Bounds], mode: str | None) -> Bounds | None:
    row, a = OPS[op], args[0]
    if row.interval is not None:
        return row.interval(tuple(b[0] for b in args), tuple(b[1] for b in args))
    if op == "div" and not args[1][0] <= 0 <= args[1][1]:
        return _of_call("mul", [a, (1 / args[1][1], 1 / args[1][0])], None)
    if row.monotone is None or not (row.takes[0] <= a[0] and a[1] <= row.takes[1]):
        return None
    with np.errstate(all="ignore"):
        low, high = (float(row.compute(x, mode) if mode is not None else row.compute(x)) for x in a)
    return (low, high) if row.monotone == "rising" else (high, low)


_NOTHING = Const(0.0, F64)


def read_cost(
    spec: CostSpec,
    row: Row,
    instruction: Instruction | None,
    constants: Sequence[Param],
    clock_ghz: float | None,
) -> Cost:
    """Return the cost of an instruction. Cycles become time by the clock. Raises: SpecProblem.

    Without an instruction, because it was refused, parameters are unknown and only numbers are checked.
    """
    found: list[Diagnostic] = []

    def read(time: TimeSpec | None) -> Expr:
        if time is None or (found and found[-1].code == "clock-missing"):  # it is told once
            return _NOTHING
        try:
            return _time(time, row, instruction, constants, clock_ghz)
        except SpecProblem as error:
            found.extend(error.diagnostics)
            return _NOTHING

    interval, latency = read(spec.interval), read(spec.latency)
    energy = read(spec.energy) if spec.energy is not None else None
    if found:
        raise SpecProblem(*found)
    unit, also = (substitute_text(u.text, row) if u else "" for u in (spec.unit, spec.also))
    return Cost(unit, interval, latency, also, energy)


def _time(
    time: TimeSpec,
    row: Row,
    instruction: Instruction | None,
    constants: Sequence[Param],
    clock_ghz: float | None,
) -> Expr:
    """Return the expression of a time in ns. It is proved to be a number of at least 0 for all parameters."""
    per_ns = clock_ghz if time.in_cycles else 1.0
    if per_ns is None:
        raise SpecProblem.of(
            "clock-missing",
            "a cost in cycles needs the machine's clock",
            time.text.span,
            help="add `clock_ghz: …`, or state the cost in ns",
        )
    written = substitute_text(time.text.text, row)
    if NUMBER.fullmatch(written):
        return Const(_number(written, time) / per_ns, F64)
    if instruction is None:
        return _NOTHING
    ranges = parameter_ranges(instruction, constants)
    names = tuple(name for name, _, _ in ranges)
    try:
        expr = _parse_cost(written, names)
    except IsamapError as error:
        shown = f"; its parameters are {', '.join(names)}" if names else "; the instruction has no parameters"
        said = f"`{written}` is not a cost: {error.diagnostics[0].message}{shown}"
        cut = "put values with a comma in quotes" if written.count("(") > written.count(")") else None
        raise SpecProblem.of("bad-cost", said, time.text.span, help=cut) from None
    if (flaw := find_flaw(expr, ranges, instruction.where)) is not None:
        raise SpecProblem(_report_flaw(time, written, flaw, ranges))
    if isinstance(expr, Const):
        return Const(float(expr.value) / per_ns, F64)
    return expr if per_ns == 1.0 else Call("div", (expr, Const(per_ns, F64)), F64)


def _number(written: str, time: TimeSpec) -> float:
    """Return the value of a constant cost. Raises: SpecProblem if it is negative or too large for a float."""
    value = float(written)
    if value < 0 or not isfinite(value):
        said = f"a cost is a finite number of at least 0, not {written}"
        raise SpecProblem.of("bad-cost", said, time.text.span)
    return value


def _report_flaw(time: TimeSpec, written: str, flaw: Flaw, ranges: Ranges) -> Diagnostic:
    """Return the finding that a cost is negative or undefined, with a parameter assignment at which it is."""
    at = f" at {', '.join(f'{name} = {value}' for name, value in flaw.values.items())}" if flaw.values else ""
    used = [f"{name} of {low} to {high}" for name, low, high in ranges if name in flaw.names]
    rule = "a cost is a finite number of at least 0"
    return Diagnostic(
        "bad-cost",
        f"`{written}` is not a cost: {flaw.said}{at}",
        time.text.span,
        notes=(f"{rule} for every {', '.join(used)}" if used else rule,),
        help=f"{flaw.advice} of the parameter" if used else "write the number itself",
    )


@lru_cache(maxsize=4096)
def _parse_cost(text: str, names: tuple[str, ...]) -> Expr:
    return parse_expression(Source("cost", text), dict.fromkeys(names, F64))
