"""Costs: numbers or expressions of an instruction's parameters, in nanoseconds.

`"0.5 * R"` with R = 16 costs 8 ns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import assert_never

from isamap.ir import F64, OPS, Call, Cast, Const, Expr, IndexValue, Instruction, Read, Scalar
from isamap.machine.families import Row
from isamap.machine.fields import NUMBER
from isamap.machine.model import Cost
from isamap.machine.spec import CostSpec
from isamap.machine.tree import Scalar as Text
from isamap.source import Diagnostic, IsamapError, Source, SpecProblem
from isamap.syntax import parse_expression, substitute_text


def read_cost(
    spec: CostSpec, row: Row, instruction: Instruction, constants: Iterable[str], clock_ghz: float | None
) -> Cost:
    """The cost of an instruction; cycles become time by the clock. Raises: SpecProblem."""
    names = (*(p.name for p in instruction.params if p.dtype is None), *constants)
    return Cost(
        substitute_text(spec.unit.text, row),
        _time(spec.interval, row, names, clock_ghz if spec.interval_in_cycles else 1.0),
        _time(spec.latency, row, names, clock_ghz if spec.latency_in_cycles else 1.0),
    )


def cost_value(expr: Expr, params: Mapping[str, int]) -> float:
    """The number that a cost is, for these values of the parameters. Units: ns."""
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
        case Read() | IndexValue():
            raise AssertionError("a cost knows parameters only")
        case _ as unreachable:
            assert_never(unreachable)


def _time(text: Text, row: Row, names: tuple[str, ...], per_ns: float | None) -> Expr:
    """The expression of a time; `per_ns` is how many of its units one ns has."""
    if per_ns is None:
        raise SpecProblem(
            Diagnostic(
                "clock-missing",
                "a cost in cycles needs the machine's clock",
                text.span,
                help="add `clock_ghz: …`, or state the cost in ns",
            )
        )
    written = substitute_text(text.text, row)
    try:
        expr = _parsed(written, names)
    except IsamapError as error:
        shown = f"; its parameters are {', '.join(names)}" if names else "; the instruction has no parameters"
        raise SpecProblem(
            Diagnostic(
                "bad-cost", f"`{written}` is no cost: {error.diagnostics[0].message}{shown}", text.span
            )
        ) from None
    if isinstance(expr, Const):
        return _checked(Const(float(expr.value) / per_ns, F64), text)
    return expr if per_ns == 1.0 else Call("div", (expr, Const(per_ns, F64)), F64)


def _checked(constant: Const, text: Text) -> Const:
    if constant.value < 0:
        raise SpecProblem(Diagnostic("bad-cost", "a cost is not below 0", text.span))
    return constant


@lru_cache(maxsize=4096)
def _parsed(text: str, names: tuple[str, ...]) -> Expr:
    if NUMBER.fullmatch(text):
        return Const(float(text), F64)
    return parse_expression(Source("cost", text), dict.fromkeys(names, F64))
