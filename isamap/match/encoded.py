"""Parameters that are part of an instruction's encoding (`imm`), where the instruction computes with them.

instruction srai(imm S: 0..31) { … z[i] = a[i] >> i32(S); } performs Y[n] = X[n] >> 3, S being 3
"""

from __future__ import annotations

from collections.abc import Iterable

from isamap.ir import Call, Cast, Const, Expr, IndexValue, Instruction, Param, Scalar
from isamap.match.unify import Binding


def encoded_params(instruction: Instruction) -> frozenset[str]:
    """Parameters whose number is part of the instruction's encoding."""
    return frozenset(p.name for p in instruction.params if p.kind == "imm")


def with_encoded(expr: Expr, encoded: frozenset[str]) -> Expr:
    """An instruction's expression in which encoded parameters may stand for something."""
    match expr:
        # However it is cast: the statement has a number of that type, so that the parameter is that number.
        case Cast(IndexValue(index), dtype) if str(index) in encoded:
            return Scalar(str(index), dtype)
        case IndexValue(index, dtype) if str(index) in encoded:
            return Scalar(str(index), dtype)
        case Call(op, args, dtype, mode):
            return Call(op, tuple(with_encoded(a, encoded) for a in args), dtype, mode, expr.span)
        case Cast(value, dtype, mode):
            return Cast(with_encoded(value, encoded), dtype, mode, expr.span)
        case _:
            return expr


def encoded_values(instruction: Instruction, bindings: Iterable[Binding]) -> dict[str, int] | None:
    """The numbers that encoded parameters stand for; None where one is no number, or cannot be encoded."""
    names = encoded_params(instruction)
    found: dict[str, int] = {}
    for binding in bindings:
        if binding.name in names and not binding.pattern:
            match binding.subject:
                case Const(int(value)) if _is_in_range(instruction.param(binding.name), value):
                    found[binding.name] = value
                case _:
                    return None
    return found


def _is_in_range(param: Param, value: int) -> bool:
    low = param.low.value if param.low is not None else 1
    high = param.high.value if param.high is not None else None
    return (low is None or value >= low) and (high is None or value <= high)
