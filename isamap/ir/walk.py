"""Expressions as trees: their parts, their descendants, and copies with changed parts.

All code that visits whole expressions uses this module. Code that treats operations differently matches on
the node classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from isamap.ir.index import Index
from isamap.ir.nodes import Assign, Call, Cast, Expr, IndexValue, Instruction, Loop, Read, Stmt
from isamap.source.records import replace


def parts_of(e: Expr) -> tuple[Expr, ...]:
    """Return the operands of the outermost operation, from left to right."""
    match e:
        case Call(_, args):
            return args
        case Cast(value):
            return (value,)
        case _:
            return ()


def with_parts(e: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return the outermost operation with changed operands. A node without operands is unchanged."""
    match e:
        case Call(_, args):
            return replace(e, args=tuple(map(change, args)))
        case Cast(value):
            return replace(e, value=change(value))
        case _:
            return e


def walk(e: Expr) -> Iterator[Expr]:
    """Yield the expression and all its descendants, operations before their operands, from left to right."""
    waiting = [e]
    while waiting:
        e = waiting.pop()
        yield e
        waiting += reversed(parts_of(e))


def reads(e: Expr) -> tuple[Read, ...]:
    """Return all reads in an expression, in order."""
    return tuple(part for part in walk(e) if isinstance(part, Read))


def distinct_reads(e: Expr) -> tuple[Read, ...]:
    """Return the elements that an expression reads, in order of first occurrence."""
    return tuple(dict.fromkeys(reads(e)))


def indices(e: Expr) -> Iterator[Index]:
    """Yield all index expressions that an expression depends on: subscripts, and indices used as values."""
    for part in walk(e):
        if isinstance(part, Read):
            yield from part.index
        elif isinstance(part, IndexValue):
            yield part.index


def symbols(e: Expr) -> frozenset[str]:
    """Return the names of axes and sizes that an expression depends on, subscripts included."""
    return frozenset(s for i in indices(e) for s in i.symbols)


def symbols_of_values(e: Expr) -> frozenset[str]:
    """Return the names of axes and sizes in values and comparisons. Names in subscripts are left out."""
    return frozenset(s for part in walk(e) if isinstance(part, IndexValue) for s in part.index.symbols)


def map_reads(e: Expr, change: Callable[[Read], Expr]) -> Expr:
    """Return the expression with every read changed."""
    return change(e) if isinstance(e, Read) else with_parts(e, lambda part: map_reads(part, change))


def conjuncts(guard: Expr | None) -> tuple[Expr, ...]:
    """Return the conditions whose conjunction is the guard."""
    match guard:
        case None:
            return ()
        case Call("and", args):
            return tuple(c for a in args for c in conjuncts(a))
        case _:
            return (guard,)


@lru_cache(maxsize=4096)
def is_copy(instruction: Instruction) -> bool:
    """Return whether an instruction only copies elements."""
    body: tuple[Stmt, ...] = instruction.body
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].guard is None:
        body = body[0].body
    if len(body) != 1 or not isinstance(body[0], Assign):
        return False
    stmt = body[0]
    plain = stmt.op is None and stmt.guard is None and isinstance(stmt.value, Read)
    return plain and isinstance(stmt.value, Read) and stmt.value.index == stmt.target.index
