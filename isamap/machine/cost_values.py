"""What a cost is for given parameters: a number of nanoseconds.

`"0.5 * R"` with R = 16 is 8 ns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from isamap.ir import OPS, Call, Cast, Const, Expr, IndexValue, Param, Read, Scalar
from isamap.machine.model import Machine, MachineInstruction


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


def cost_params(item: MachineInstruction, machine: Machine, known: Mapping[str, int]) -> dict[str, int]:
    """All that the costs of an instruction may name, with values.

    A parameter that is not known counts as 1, or as the value nearest to 1 that it may have; a constant of
    the machine as it typically is.
    """
    named = (*(p for p in item.instruction.params if p.dtype is None), *machine.constants)
    return {p.name: known[p.name] if p.name in known else _usual(p) for p in named}


def _usual(p: Param) -> int:
    if p.default is not None:
        return p.default
    low = p.low.value if p.low is not None else None
    high = p.high.value if p.high is not None else None
    return max(1 if low is None else low, 1 if high is None else min(1, high))
