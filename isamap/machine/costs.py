"""Costs: numbers or expressions of an instruction's parameters, in nanoseconds.

`"0.5 * R"` with R = 16 costs 8 ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import isfinite

from isamap.ir import F64, Call, Const, Expr, Instruction, Param
from isamap.machine.cost_bounds import Flaw, Ranges, find_flaw, parameter_ranges
from isamap.machine.families import Row
from isamap.machine.fields import NUMBER
from isamap.machine.model import Cost
from isamap.machine.spec import CostSpec, TimeSpec
from isamap.source import Diagnostic, IsamapError, Source, SpecProblem
from isamap.syntax import parse_expression, substitute_text

_NOTHING = Const(0.0, F64)


def read_cost(
    spec: CostSpec,
    row: Row,
    instruction: Instruction | None,
    constants: Sequence[Param],
    clock_ghz: float | None,
) -> Cost:
    """The cost of an instruction; cycles become time by the clock. Raises: SpecProblem.

    Of an instruction that was refused, whose parameters are not known, only numbers are checked.
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
    if found:
        raise SpecProblem(*found)
    return Cost(substitute_text(spec.unit.text, row) if spec.unit else "", interval, latency)


def _time(
    time: TimeSpec,
    row: Row,
    instruction: Instruction | None,
    constants: Sequence[Param],
    clock_ghz: float | None,
) -> Expr:
    """The expression of a time, in ns, which is a number of at least 0 at every instance."""
    per_ns = clock_ghz if time.in_cycles else 1.0
    if per_ns is None:
        raise SpecProblem(
            Diagnostic(
                "clock-missing",
                "a cost in cycles needs the machine's clock",
                time.text.span,
                help="add `clock_ghz: …`, or state the cost in ns",
            )
        )
    written = substitute_text(time.text.text, row)
    if NUMBER.fullmatch(written):
        return Const(_number(written, time) / per_ns, F64)
    if instruction is None:
        return _NOTHING
    ranges = parameter_ranges(instruction, constants)
    names = tuple(name for name, _, _ in ranges)
    try:
        expr = _parsed(written, names)
    except IsamapError as error:
        shown = f"; its parameters are {', '.join(names)}" if names else "; the instruction has no parameters"
        said = f"`{written}` is no cost: {error.diagnostics[0].message}{shown}"
        raise SpecProblem(Diagnostic("bad-cost", said, time.text.span)) from None
    if (flaw := find_flaw(expr, ranges, instruction.where)) is not None:
        raise SpecProblem(_flawed(time, written, flaw, ranges))
    if isinstance(expr, Const):
        return Const(float(expr.value) / per_ns, F64)
    return expr if per_ns == 1.0 else Call("div", (expr, Const(per_ns, F64)), F64)


def _number(written: str, time: TimeSpec) -> float:
    """The number that a cost is. Raises: SpecProblem where it is below 0, or too large for one."""
    value = float(written)
    if value < 0 or not isfinite(value):
        said = f"a cost is a finite number of at least 0, not {written}"
        raise SpecProblem(Diagnostic("bad-cost", said, time.text.span))
    return value


def _flawed(time: TimeSpec, written: str, flaw: Flaw, ranges: Ranges) -> Diagnostic:
    """The finding that a cost is no number of at least 0, with the instance at which it is not."""
    at = f" at {', '.join(f'{name} = {value}' for name, value in flaw.values.items())}" if flaw.values else ""
    used = [f"{name} of {low} to {high}" for name, low, high in ranges if name in flaw.names]
    rule = "a cost is a finite number of at least 0"
    return Diagnostic(
        "bad-cost",
        f"`{written}` is no cost: {flaw.said}{at}",
        time.text.span,
        notes=(f"{rule} for every {', '.join(used)}" if used else rule,),
        help=f"{flaw.advice} of the parameter" if used else "write the number itself",
    )


@lru_cache(maxsize=4096)
def _parsed(text: str, names: tuple[str, ...]) -> Expr:
    return parse_expression(Source("cost", text), dict.fromkeys(names, F64))
