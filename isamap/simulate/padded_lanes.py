"""Find padded lanes that access elements in use: their operands cannot be chosen freely.

In `c[i] += a[i, k] * b[k]` a padded k touches elements of a and b that no lane in use touches, so both can be
filled; in `c[p] += a[p + r] * b[r]` a padded r touches elements of a that other lanes use: only b can be.

Many issues of one instruction performed at once, by the interpreter of its own meaning.

`c[i] += a[i] * b[i]` for 7 issues is `c[@issue, i] += a[@issue, i] * b[@issue, i]` over an axis of 7 more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Axis, Expr, Index, Instruction, Loop, Read, bind_all, execute_bound
from isamap.ir.walk import map_reads
from isamap.match import Pattern
from isamap.match.patterns.padding import Shown
from isamap.simulate.lanes import Grid
from isamap.transform import reads, statements

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
    """Return the output operand after each issue. Shapes: of all arrays, issues × the operand's own.

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
    return map_reads(expr, lambda read: replace(read, index=(Index.of(ISSUE), *read.index)))


def operand_shapes(
    instruction: Instruction, params: tuple[tuple[str, int], ...]
) -> dict[str, tuple[int, ...]]:
    """Extents of every operand in elements."""
    return _shapes(_bound(instruction, params))


@lru_cache(maxsize=4096)
def _shapes(bound: Instruction) -> dict[str, tuple[int, ...]]:
    return {o.name: tuple(int(s.evaluate({})) for s in o.shape) for o in bound.operands}


def shown_in_padded_lanes(pattern: Pattern, grid: Grid) -> frozenset[Shown] | None:
    """For padded lanes whose output element is in use: the sets of operands whose elements are in use.

    Empty when there are none. None when such a lane would overwrite the element: the statement only assigns.
    """
    axes = tuple(grid.lengths)
    lanes = {a: lane.reshape(lane.shape[1:]) for a, lane in grid.lanes(axes).items()}
    shape = tuple(grid.lengths.values())
    found: set[Shown] = set()
    for starts in _kinds_of_issues(grid):
        valid: Array = np.ones(shape, np.bool_)
        for span, start in zip(grid.spans, starts, strict=True):
            valid = valid & span.at(np.asarray(start), lanes)[1]
        for axis in grid.empty:
            valid = valid & (lanes[axis] == 0)
        if valid.all():
            continue
        leaking = ~valid & _in_use(pattern, grid, pattern.target.buffer, [pattern.target.index], lanes, valid)
        if not leaking.any():
            continue
        if pattern.statement.assign.op is None:
            return None
        found |= _shown(pattern, grid, lanes, valid, leaking)
    return frozenset(found)


def _kinds_of_issues(grid: Grid) -> list[tuple[int, ...]]:
    """Return where issues begin that differ in their valid lanes: along each span the first and the last."""
    return list(product(*(sorted({int(s.starts[0]), int(s.starts[-1])}) for s in grid.spans)))


def _shown(pattern: Pattern, grid: Grid, lanes: dict[str, Array], valid: Array, leaking: Array) -> set[Shown]:
    subscripts: dict[str, list[tuple[Index, ...]]] = {}
    for read in reads(pattern.value):
        subscripts.setdefault(read.buffer, []).append(read.index)
    names = tuple(subscripts)
    used = [_in_use(pattern, grid, n, subscripts[n], lanes, valid)[leaking] for n in names]
    if not used:
        return {frozenset()}
    rows = np.unique(np.stack(used, axis=1), axis=0)
    return {frozenset(n for n, u in zip(names, row, strict=True) if u) for row in rows}


def _in_use(
    pattern: Pattern,
    grid: Grid,
    operand: str,
    places: list[tuple[Index, ...]],
    lanes: dict[str, Array],
    valid: Array,
) -> Array:
    """For every lane, whether a valid lane touches an element of the operand that it touches."""
    extents = operand_shapes(pattern.instruction, grid.params)[operand]
    touched = np.zeros(max(1, prod(extents)), np.bool_)
    elements: list[Array] = []
    for subscripts in places:
        element: Any = np.zeros((), np.int64)
        for subscript, extent in zip(subscripts, extents, strict=True):
            element = element * extent + subscript.evaluate(dict(grid.params) | lanes)
        elements.append(np.broadcast_to(element, valid.shape))
        touched[elements[-1][valid]] = True
    return np.any([touched[e] for e in elements], axis=0)
