"""What of a statement no instruction of a machine does at all: a type, a conversion, an operation of a type.

y[i] += f32(x[i]) * w[i] where x is of f16:   dot-16 has no instruction that reads or writes f16, as x is
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.ir import Call, Cast, Expr
from isamap.machine import Machine
from isamap.match.instructions import patterns_of
from isamap.match.kernel_text import brief
from isamap.transform import Statement, reads

Ability = tuple[str, str, str]
"""An operation, or `cast`, the type it takes, and the type of its result."""


def lacking_abilities(statement: Statement, machine: Machine) -> tuple[str, ...]:
    """In words what no instruction of the machine does, whatever else it does; () where all is done by some.

    Types come first: what has no type has no operation of it either. Innermost operations come first.
    """
    instructions = [item.instruction for item in machine.instructions.values()]
    assign = statement.assign
    types = {o.dtype for instruction in instructions for o in instruction.operands}
    without: dict[str, dict[str, None]] = {}
    for r in (*reads(assign.value), assign.target):
        if r.dtype not in types:
            without.setdefault(str(r.dtype), {})[r.buffer] = None
    if without:
        return tuple(
            f"{machine.name} has no instruction that reads or writes {dtype}, the type of {', '.join(names)}"
            for dtype, names in without.items()
        )
    there = {a for i in instructions for p in patterns_of(i) for _, a in _abilities(p.statement)}
    found = {
        ability: f"{machine.name} has no instruction that {_words(ability)}: `{brief(e)}`"
        for e, ability in reversed(tuple(_abilities(statement)))
        if ability not in there
    }
    return tuple(reversed(found.values()))


def _abilities(statement: Statement) -> Iterator[tuple[Expr, Ability]]:
    """The operations of a statement with where they stand, from the inside out."""
    assign = statement.assign
    yield from _operations(assign.value)
    if assign.op is not None:
        dtype = str(assign.target.dtype)
        yield assign.target, (assign.op, dtype, dtype)


def _operations(e: Expr) -> Iterator[tuple[Expr, Ability]]:
    match e:
        case Call(op, args):
            for a in args:
                yield from _operations(a)
            yield e, (op, str(args[0].dtype), str(e.dtype))
        case Cast(value):
            yield from _operations(value)
            yield e, ("cast", str(value.dtype), str(e.dtype))
        case _:
            return


def _words(ability: Ability) -> str:
    op, taken, result = ability
    return f"converts {taken} to {result}" if op == "cast" else f"computes `{op}` of {taken}"
