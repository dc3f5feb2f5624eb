"""Many issues of one instruction performed at once, by the interpreter of its own meaning.

`c[i] += a[i] * b[i]` for 7 issues is `c[@issue, i] += a[@issue, i] * b[@issue, i]` over an axis of 7 more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Axis, Call, Cast, Expr, Index, Instruction, Loop, Read, bind_all, execute_bound
from isamap.transform import statements

Array = NDArray[Any]
ISSUE = "@issue"


def perform_issues(
    instruction: Instruction,
    params: tuple[tuple[str, int], ...],
    count: int,
    operands: Mapping[str, Array],
    scalars: Mapping[str, float],
    *,
    exact: bool,
) -> Array:
    """The output operand after each issue. Shapes: of all arrays, issues × the operand's own.

    `params` are values of the integer parameters, `scalars` of the typed ones.
    """
    batch = _batched(instruction, params, count)
    (output,) = (o.name for o in batch.operands if o.role in ("out", "inout"))
    with np.errstate(all="ignore"):
        return execute_bound(batch, operands, scalars, exact=exact)[output]


@lru_cache(maxsize=4096)
def _bound(instruction: Instruction, params: tuple[tuple[str, int], ...]) -> Instruction:
    bound = bind_all(instruction, dict(params))
    assert isinstance(bound, Instruction), "binding keeps what is bound"
    return bound


@lru_cache(maxsize=4096)
def _batched(instruction: Instruction, params: tuple[tuple[str, int], ...], count: int) -> Instruction:
    bound = _bound(instruction, params)
    (statement,) = statements(bound)
    size = Index.of(count)
    target = _with_issue(statement.assign.target)
    assert isinstance(target, Read)
    body = replace(statement.assign, target=target, value=_with_issue(statement.assign.value))
    return replace(
        bound,
        operands=tuple(
            replace(o, shape=(size, *o.shape), strides=None, placement=None) for o in bound.operands
        ),
        body=(Loop((Axis(ISSUE, size), *statement.axes), (body,)),),
    )


def _with_issue(expr: Expr) -> Expr:
    match expr:
        case Read(_, index):
            return replace(expr, index=(Index.of(ISSUE), *index))
        case Call(_, args):
            return replace(expr, args=tuple(_with_issue(a) for a in args))
        case Cast(value):
            return replace(expr, value=_with_issue(value))
        case _:
            return expr


def operand_shapes(
    instruction: Instruction, params: tuple[tuple[str, int], ...]
) -> dict[str, tuple[int, ...]]:
    """Extents of every operand in elements."""
    return _shapes(_bound(instruction, params))


@lru_cache(maxsize=4096)
def _shapes(bound: Instruction) -> dict[str, tuple[int, ...]]:
    return {o.name: tuple(int(s.evaluate({})) for s in o.shape) for o in bound.operands}
