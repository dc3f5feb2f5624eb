"""Random instructions that have a chance of performing a given statement, and some that have none.

    Y[i, k] += A[i, j] * B[j, k]     may become     c[q, p] += b[r] * a[p, 2*r + q]

The tree is the statement's, commuting operands swapped at random, a leaf or a whole subexpression as an
operand; axes are drawn after the signatures of the kernel's axes, and subscripts are steps, digits and sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from isamap.ir import (
    OPS,
    Assign,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Instruction,
    Loop,
    Operand,
    Param,
    Read,
    Scalar,
)
from isamap.match import Pattern, pattern_of
from isamap.transform import Statement, reads, symbols

LENGTHS = (1, 2, 2, 2, 3, 3, 4, 5, 8)


@dataclass
class _Draft:
    """An instruction being made: operands with what they stand for, axes with operands that they index."""

    random: Random
    subjects: dict[str, Expr] = field(default_factory=dict[str, Expr])
    indexed: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    after: dict[str, str] = field(default_factory=dict[str, str])
    lengths: dict[str, Index] = field(default_factory=dict[str, Index])
    params: list[Param] = field(default_factory=list[Param])


def random_instruction(statement: Statement, random: Random, name: str = "made") -> Pattern | None:
    """Return an instruction after the statement; None when its tree has nothing to be an operand."""
    draft = _Draft(random)
    value = _tree(statement.assign.value, draft)
    if not draft.subjects or len(draft.subjects) > 4:
        return None
    _draw_axes(statement, draft)
    target = statement.assign.target
    is_sum = statement.assign.op is not None
    output = replace(target, buffer="c", dtype=statement.accumulator if is_sum else target.dtype, fill=None)
    operands: list[Operand] = []
    places: dict[str, tuple[Index, ...]] = {}
    for operand, subject in (("c", output), *draft.subjects.items()):
        places[operand], shape = _subscripts(operand, statement, draft)
        role = "in" if operand != "c" else "inout" if is_sum else "out"
        operands.append(Operand(operand, role, subject.dtype, shape, memory="reg"))
    assign = Assign(replace(output, index=places["c"]), statement.assign.op, _placed(value, places))
    axes = tuple(Axis(a, e) for a, e in draft.lengths.items())
    body = (Loop(axes, (assign,)),) if axes else (assign,)
    return pattern_of(Instruction(name, tuple(draft.params), tuple(operands), body))


# --- the tree ---------------------------------------------------------------------------------------------


def _tree(expr: Expr, draft: _Draft) -> Expr:
    """Return the expression with operands, not placed yet, for its reads and for some of its subexpressions."""
    match expr:
        case Read():
            return _operand(expr, draft)
        case Call(op, args) if draft.random.random() < 0.95 and not expr.mode:
            parts = [_tree(a, draft) for a in args]
            if OPS[op].commutative and draft.random.random() < 0.5:
                parts.reverse()
            return replace(expr, args=tuple(parts))
        case Cast(value) if draft.random.random() < 0.9:
            return replace(expr, value=_tree(value, draft))
        case Call() | Cast():
            return _operand(expr, draft)
        case IndexValue() | Const() if isinstance(expr, IndexValue) or draft.random.random() < 0.3:
            name = f"s{len(draft.params)}"
            draft.params.append(Param(name, "scalar", dtype=expr.dtype))
            return Scalar(name, expr.dtype)
        case _:
            return expr


def _operand(subject: Expr, draft: _Draft) -> Read:
    name = "abdefghij"[len(draft.subjects)]
    draft.subjects[name] = subject
    return Read(name, (), subject.dtype)


def _placed(expr: Expr, places: dict[str, tuple[Index, ...]]) -> Expr:
    match expr:
        case Read(buffer):
            return replace(expr, index=places[buffer])
        case Call(_, args):
            return replace(expr, args=tuple(_placed(a, places) for a in args))
        case Cast(value):
            return replace(expr, value=_placed(value, places))
        case _:
            return expr


# --- axes -------------------------------------------------------------------------------------------------


def _draw_axes(statement: Statement, draft: _Draft) -> None:
    """Axes after kernel axes: each indexes what its model indexes, and sometimes more."""
    random = draft.random
    written = {s for i in statement.assign.target.index for s in i.symbols}
    models = [a.name for a in statement.axes]
    for n in range(min(4, random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))) if models else 0):
        axis, model = f"i{n}", random.choice(models)
        indexed = {o for o, e in draft.subjects.items() if model in symbols(e)}
        indexed |= {o for o in draft.subjects if random.random() < 0.15}
        if model in written:
            indexed.add("c")
        if not indexed:
            continue
        draft.indexed[axis], draft.after[axis] = indexed, model
        length = random.choice(LENGTHS)
        if random.random() < 0.2:
            kind = random.choice(("choose", "choose", "scalar"))
            low = Index.of(1 if kind == "choose" or random.random() < 0.5 else 0)
            draft.params.append(Param(f"L{n}", kind, low, Index.of(length)))
            draft.lengths[axis] = Index.of(f"L{n}")
        else:
            draft.lengths[axis] = Index.of(length)


def _subscripts(
    operand: str, statement: Statement, draft: _Draft
) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
    """Subscripts of an operand over the axes that index it, and its shape."""
    random = draft.random
    left = [a for a, indexed in draft.indexed.items() if operand in indexed]
    random.shuffle(left)
    subscripts: list[Index] = []
    shape: list[Index] = []
    while left:
        first = left.pop()
        index, extent = Index.of(first), draft.lengths[first]
        kind = random.random()
        if left and kind < 0.2:  # digits: first*length + second
            second = left.pop()
            index, extent = index * draft.lengths[second] + Index.of(second), extent * draft.lengths[second]
        elif left and kind < 0.35:  # a sum, with the steps that the kernel takes, or others
            second = left.pop()
            one, other = _steps(operand, (first, second), statement, draft)
            index = index * one + Index.of(second) * other
            extent = (extent - 1) * one + (draft.lengths[second] - 1) * other + 1
        elif kind < 0.45:
            step = random.randint(2, 3)
            index, extent = index * step, extent * step
        subscripts.append(index)
        shape.append(extent)
    return tuple(subscripts), tuple(shape)


def _steps(operand: str, axes: tuple[str, str], statement: Statement, draft: _Draft) -> tuple[int, int]:
    """Steps of two axes in a common subscript: those of the kernel where its axes meet, else small ones."""
    if operand == "c":
        subscripts = statement.assign.target.index
    else:
        subscripts = tuple(i for r in reads(draft.subjects[operand]) for i in r.index)
    for index in subscripts:
        found = [index.coefficient(draft.after[a]) for a in axes]
        steps = [c.value for c in found if c is not None and c.value]
        if len(steps) == 2 and draft.random.random() < 0.8:
            return abs(steps[0]), abs(steps[1])
    return draft.random.randint(1, 2), draft.random.randint(1, 2)
