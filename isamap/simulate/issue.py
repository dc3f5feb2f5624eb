"""Perform a statement by a mapping on arrays, issue by issue: the reference for checks of mappings.

    perform(gemm, mma, mapping, {"A": a, "B": b, "C": c}, Cut(), {"M": 20, "N": 16, "K": 5})  ==  c + a @ b

For every issue the operands are gathered exactly as the mapping says, lanes beyond the end hold a neutral
value, the instruction's own meaning is interpreted, and the elements of real iterations are written back. An
invalid mapping gives wrong results: nothing is repaired here.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Axis, DType, Expr, Index, Instruction, Loop, Read, convert
from isamap.ir.evaluate import Env, box_points, evaluate_expr, evaluate_index, make_value
from isamap.ir.interpret import bind_all, execute_bound
from isamap.ir.walk import map_reads
from isamap.match import AxisGroup, Mapping, Pattern
from isamap.match.patterns.padding import Fills, Shown, neutral_fills
from isamap.match.patterns.unify import Binding
from isamap.source.records import dataclass, field, replace
from isamap.transform import Statement, reads, statements

# --- lanes ----------------------------------------------------------------------------------------------

# Find the kernel iteration that each lane of an issue performs. Some lanes perform none.
#
# With `k` on an instruction axis of 4 lanes and extent 6 there are two issues: lanes 0 … 3 perform k = 0 … 3,
# then lanes 0 and 1 perform k = 4 and 5, and lanes 2 and 3 nothing. Several kernel axes on one instruction
# axis are fused: lane a performs the a-th of their points, counted from the first point of the issue.


Array = NDArray[Any]
Sizes = MappingType[str, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """A variant of a mapping: the division of its iterations into issues.

    `groups` are the mapping's, with kernel axes in the order of their fusion and instruction axes in the
    order of the digits of the fused number, outermost first. Empty means as the mapping writes them.
    `params` are values of the instruction's integer parameters. `tiles` gives the number of lanes used of
    an instruction axis. The default is all. On axes that share their kernel axes, fewer lanes also change
    the iterations of the others. With `masked`, an axis whose length is a parameter is made shorter at the
    end. Otherwise, lanes beyond the end are padded.
    """

    params: Sizes = field(default_factory=dict[str, int])
    groups: tuple[AxisGroup, ...] = ()
    tiles: Sizes = field(default_factory=dict[str, int])
    masked: bool = False


@dataclass(frozen=True, slots=True)
class IssueSpan:
    """The issues along one group of fused axes. `starts` has the number of the first point of each issue.

    Points number the iterations of the fused axes, the last axis fastest."""

    group: AxisGroup
    extents: tuple[int, ...]
    tiles: tuple[int, ...]
    starts: Array

    @property
    def points(self) -> int:
        return prod(self.extents)

    @property
    def step(self) -> int:
        """The number of points that one issue covers."""
        return prod(self.tiles)

    def at(self, starts: Array, lanes: MappingType[str, Array]) -> tuple[dict[str, Array], Array]:
        """Return the kernel axes of given lanes (0 for an axis without lanes), and a mask of valid lanes."""
        fused: Any = 0
        valid: Any = True
        for axis, tile in zip(self.group.instruction_axes, self.tiles, strict=True):
            lane = lanes.get(axis, np.zeros((), np.int64))
            fused = fused * tile + lane
            valid = valid & (lane < tile)
        fused = starts + fused
        valid = valid & (fused < self.points)
        found: dict[str, Array] = {}
        rest = fused
        for axis, extent in reversed(list(zip(self.group.kernel_axes, self.extents, strict=True))):
            found[axis] = rest % extent
            rest = rest // extent
        return found, np.asarray(valid)


@dataclass(frozen=True, slots=True)
class Grid:
    """All issues of one shape: the instruction's axes with their lengths, and the loops around it.

    `spans` are the groups; `loops` extents of kernel axes on no instruction axis; `empty` unused instruction
    axes, of which only lane 0 performs iterations.
    """

    params: tuple[tuple[str, int], ...]
    lengths: Sizes
    spans: tuple[IssueSpan, ...]
    loops: Sizes
    empty: tuple[str, ...]

    def lanes(self, axes: tuple[str, ...]) -> dict[str, Array]:
        """Return the lanes of some instruction axes, each along its own dimension after that of the issues."""
        rank = len(axes)
        return {
            axis: np.arange(self.lengths[axis]).reshape([-1 if d == n else 1 for d in range(-1, rank)])
            for n, axis in enumerate(axes)
        }


def make_grids(
    statement: Statement, pattern: Pattern, mapping: Mapping, cut: Cut, values: Sizes
) -> tuple[Grid, ...]:
    """Return all issues of a mapping: one grid for each combination of whole blocks and masked remainders."""
    groups = cut.groups or mapping.groups
    inside = {k for g in groups for k in g.kernel_axes}
    extents = {a.name: number(a.extent, values) for a in statement.axes}
    loops = {a: n for a, n in extents.items() if a not in inside}
    if not all(n > 0 for n in extents.values()):
        return ()
    params = dict(cut.params)
    spans = tuple(_span(g, extents, pattern, params, cut) for g in groups)
    whole = Grid(tuple(sorted(params.items())), lengths_of(pattern, params), spans, loops, mapping.empty)
    return tuple(_with_rests(whole, pattern)) if cut.masked else (whole,)


def lengths_of(pattern: Pattern, params: Sizes) -> Sizes:
    """Return the extents of the instruction's axes for given parameters."""
    return {a.name: number(a.extent, params) for a in pattern.axes}


def number(index: Index, values: Sizes) -> int:
    """Return the value of an index expression, given values for all symbols."""
    return int(index.evaluate(values))


def _span(group: AxisGroup, extents: Sizes, pattern: Pattern, params: Sizes, cut: Cut) -> IssueSpan:
    lengths = lengths_of(pattern, params)
    tiles = tuple(min(cut.tiles.get(i, lengths[i]), lengths[i]) for i in group.instruction_axes)
    own = tuple(extents[k] for k in group.kernel_axes)
    return IssueSpan(group, own, tiles, np.arange(0, prod(own), prod(tiles), dtype=np.int64))


# --- rests as issues of their own -------------------------------------------------------------------------


def _with_rests(grid: Grid, pattern: Pattern) -> list[Grid]:
    """Return the grid, and grids of the last issue along axes that may be shortened there."""
    choices: list[list[tuple[IssueSpan, dict[str, int]]]] = []
    for span in grid.spans:
        rest = span.points % span.step
        param = _length_param(span, pattern)
        if rest and param is not None:
            full = replace(span, starts=span.starts[:-1])
            choices.append(
                [(full, {}), (replace(span, tiles=(rest,), starts=span.starts[-1:]), {param: rest})]
            )
        else:
            choices.append([(span, {})])
    found: list[Grid] = []
    for chosen in product(*choices):
        params = dict(grid.params)
        for _, changed in chosen:
            params |= changed
        spans = tuple(s for s, _ in chosen)
        if all(s.starts.size for s in spans):
            found.append(
                replace(
                    grid,
                    params=tuple(sorted(params.items())),
                    lengths=lengths_of(pattern, params),
                    spans=spans,
                )
            )
    return found


def _length_param(span: IssueSpan, pattern: Pattern) -> str | None:
    """Return the parameter that alone gives the length of a group's single axis, or None."""
    if len(span.group.instruction_axes) != 1:
        return None
    (name,) = span.group.instruction_axes
    extent = next(a.extent for a in pattern.axes if a.name == name)
    param = next((p for p in pattern.instruction.params if Index.of(p.name) == extent), None)
    others = [a for a in pattern.axes if a.name != name and param and param.name in a.extent.symbols]
    if param is None or others or (param.low is not None and (param.low.value or 0) > 1):
        return None
    return param.name


MOST_LANES = 1 << 20


class CannotPad(ValueError):
    """An error: padded lanes of a reduction have no neutral value, so the mapping needs whole tiles or masks."""


@dataclass(frozen=True, slots=True)
class _Job:
    """The shared inputs of all issues.

    `arrays` are read. `held` is the target, in the type of its sum, and is written.
    """

    statement: Statement
    pattern: Pattern
    mapping: Mapping
    values: Sizes
    scalars: MappingType[str, Array]
    arrays: MappingType[str, Array]
    held: Array
    exact: bool


def perform(
    statement: Statement,
    pattern: Pattern,
    mapping: Mapping,
    arrays: MappingType[str, Array],
    cut: Cut,
    values: Sizes,
    scalars: MappingType[str, float] | None = None,
    *,
    exact: bool = False,
) -> Array:
    """Return the target's new array after the mapping's instruction has performed the statement.

    Shapes: `arrays` holds every array that the statement names, with the target's old values. Nothing is
    changed. `values` are those of all sizes (with defaults and `let`s) and of ordered loops around the statement.
    `scalars` are the kernel's typed parameters. `exact` rounds no float, as in `interpret`. Raises: CannotPad
    if lanes beyond the end have no neutral value.
    """
    target, is_sum = statement.assign.target, statement.assign.op is not None
    assert statement.assign.guard is None, "a guarded statement is matched after its guard was made explicit"
    wide = statement.accumulator if is_sum else target.dtype
    old = _as_type(arrays[target.buffer], target.dtype, exact)
    held = convert(old, target.dtype, wide, "exact") if not (exact and wide.is_float) else old
    found = dict(scalars or {})
    typed = {n: np.asarray(v) for n, v in found.items()}
    read = {n: a if n != target.buffer else old for n, a in arrays.items()}
    job = _Job(statement, pattern, mapping, values, typed, read, np.array(held), exact)
    for grid in make_grids(statement, pattern, mapping, cut, values):
        _perform_grid(job, grid)
    if exact and wide.is_float:
        return job.held
    return convert(job.held, wide, target.dtype, "wrap" if target.dtype.is_integer else "exact")


def _as_type(array: Array, dtype: DType, exact: bool) -> Array:
    return array.astype(np.float64) if exact and dtype.is_float else array.astype(dtype.numpy())


# --- all issues of a grid ---------------------------------------------------------------------------------


def _perform_grid(job: _Job, grid: Grid) -> None:
    """Perform the issues of a grid: different output elements together, and blocks of a sum in sequence."""
    written = {s for i in job.statement.assign.target.index for s in i.symbols}
    fills = _fills(job, grid)
    counts = [s.starts.size for s in grid.spans] + list(grid.loops.values())
    outer = [bool(written & set(s.group.kernel_axes)) for s in grid.spans]
    outer += [axis in written for axis in grid.loops]
    together = box_points([n if o else 1 for n, o in zip(counts, outer, strict=True)])
    in_turn = box_points([1 if o else n for n, o in zip(counts, outer, strict=True)])
    most = max(1, MOST_LANES // max(1, prod(grid.lengths.values())))
    for step in range(in_turn.shape[1]):
        for first in range(0, together.shape[1], most):
            chosen = together[:, first : first + most] + in_turn[:, step : step + 1]
            _perform_batch(job, grid, chosen, fills)


def _perform_batch(job: _Job, grid: Grid, chosen: Array, fills: Fills) -> None:
    """Perform issues together. Each column of `chosen` has the block of each span and the value of each loop."""
    pattern, statement = job.pattern, job.statement
    count = chosen.shape[1]
    issue, own, cell = _cells(job, grid, chosen, pattern.target.index, statement.assign.target)
    scalars = _scalars(job, grid, chosen)
    meet = np.unique(cell).size != cell.size or any(v.size > 1 for v in scalars.values())
    if count > 1 and meet:  # issues that write one element, or take different scalars, go one after the other
        for column in range(count):
            _perform_batch(job, grid, chosen[:, column : column + 1], fills)
        return
    operands = _operands(job, grid, chosen, fills)
    shapes = operand_shapes(pattern.instruction, grid.params)
    output = pattern.target.buffer
    flat = job.held.reshape(-1)
    if pattern.output.role == "inout":
        start = np.zeros((count, prod(shapes[output])), flat.dtype)
        start[issue, own] = flat[cell]
        operands[output] = start.reshape((count, *shapes[output]))
    given = {name: found[0].item() for name, found in scalars.items()}
    done = perform_issues(pattern.instruction, grid.params, count, operands, given, exact=job.exact)
    flat[cell] = done.reshape(count, -1)[issue, own]


def _scalars(job: _Job, grid: Grid, chosen: Array) -> dict[str, Array]:
    """Return the values of the instruction's typed parameters in these issues."""
    return {
        b.name: np.unique(_at_lanes(job, grid, chosen, (), b.subject)[2])
        for b in job.mapping.bindings
        if _is_param(job.pattern, b)
    }


def _is_param(pattern: Pattern, binding: Binding) -> bool:
    return any(p.name == binding.name for p in pattern.instruction.params)


# --- gathering --------------------------------------------------------------------------------------------


def _operands(job: _Job, grid: Grid, chosen: Array, fills: Fills) -> dict[str, Array]:
    """Return every input operand of every issue. Unused lanes hold their fill."""
    shapes = operand_shapes(job.pattern.instruction, grid.params)
    found: dict[str, Array] = {}
    for binding in job.mapping.bindings:
        if _is_param(job.pattern, binding):
            continue
        name, dtype = binding.name, job.pattern.instruction.operand(binding.name).dtype
        issue, own, values = _elements(job, grid, chosen, binding, shapes[name])
        if name not in found:  # else it is read at another subscript too, and holds what that stands for
            kind = np.float64 if job.exact and dtype.is_float else dtype.numpy()
            fill = make_value(fills[name].value if name in fills else 0, dtype)
            found[name] = np.full((chosen.shape[1], prod(shapes[name])), fill.astype(kind), kind)
        found[name][issue, own] = values
    return {name: array.reshape((chosen.shape[1], *shapes[name])) for name, array in found.items()}


def _elements(
    job: _Job, grid: Grid, chosen: Array, binding: Binding, shape: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """Return issue, element and value for all elements in an operand."""
    axes = _axes_of(grid, binding.pattern)
    issue, lanes, values = _at_lanes(job, grid, chosen, axes, binding.subject)
    own = _flat(binding.pattern, shape, dict(grid.params) | lanes)
    return issue, np.broadcast_to(own, issue.shape), np.broadcast_to(values, issue.shape)


def _cells(
    job: _Job, grid: Grid, chosen: Array, own: tuple[Index, ...], target: Read
) -> tuple[Array, Array, Array]:
    """Return issue, output element and target element for all written elements."""
    shapes = operand_shapes(job.pattern.instruction, grid.params)
    issue, lanes, symbols = _iterations(grid, chosen, _axes_of(grid, own))
    mine = _flat(own, shapes[job.pattern.target.buffer], dict(grid.params) | lanes)
    theirs = _flat(target.index, job.held.shape, dict(job.values) | symbols)
    return issue, np.broadcast_to(mine, issue.shape), np.broadcast_to(theirs, issue.shape)


def _at_lanes(
    job: _Job, grid: Grid, chosen: Array, axes: tuple[str, ...], subject: Expr
) -> tuple[Array, dict[str, Array], Array]:
    """Return the issues and lanes of iterations, and the values of a kernel's expression in them."""
    issue, lanes, symbols = _iterations(grid, chosen, axes)
    known = dict(job.values) | symbols
    env = Env(known, job.scalars, lambda read: _load(job, read, known), job.exact)
    values = evaluate_expr(subject, env)
    return issue, lanes, values


def _iterations(
    grid: Grid, chosen: Array, axes: tuple[str, ...]
) -> tuple[Array, dict[str, Array], dict[str, Array]]:
    """Return the points that lanes of `axes` perform in each issue, with their kernel axes."""
    lanes = grid.lanes(axes)
    column = (-1, *(1 for _ in axes))
    symbols: dict[str, Array] = {}
    valid: Array = np.ones((chosen.shape[1], *(grid.lengths[a] for a in axes)), np.bool_)
    for number, span in enumerate(grid.spans):
        found, inside = span.at(span.starts[chosen[number]].reshape(column), lanes)
        symbols |= found
        valid = valid & inside
    for number, axis in enumerate(grid.loops, len(grid.spans)):
        symbols[axis] = chosen[number].reshape(column)
    for axis in grid.empty:
        if axis in lanes:
            valid = valid & (lanes[axis] == 0)
    where = valid.nonzero()
    points = {n: np.broadcast_to(v, valid.shape)[where] for n, v in symbols.items()}
    return where[0], {a: where[n] for n, a in enumerate(axes, 1)}, points


def _axes_of(grid: Grid, subscripts: tuple[Index, ...]) -> tuple[str, ...]:
    used = {s for i in subscripts for s in i.symbols}
    return tuple(a for a in grid.lengths if a in used)


def _flat(subscripts: tuple[Index, ...], shape: tuple[int, ...], symbols: MappingType[str, Any]) -> Array:
    """Return row-major positions of elements. Raises: IndexError if one is outside the array."""
    total: Any = np.zeros((), np.int64)
    for subscript, extent in zip(subscripts, shape, strict=True):
        position = evaluate_index(subscript, symbols)
        if ((position < 0) | (position >= extent)).any():
            raise IndexError(f"`{subscript}` leaves an axis of {extent}")
        total = total * extent + position
    return np.asarray(total)


def _load(job: _Job, read: Read, symbols: MappingType[str, Any]) -> Array:
    """Return elements of a kernel's array, with the fill outside. Raises: IndexError if there is no fill."""
    array = job.arrays[read.buffer]
    if read.fill is None:
        return np.asarray(array.reshape(-1)[_flat(read.index, array.shape, symbols)])
    inside: Any = np.ones((), np.bool_)
    places: list[Array] = []
    for subscript, extent in zip(read.index, array.shape, strict=True):
        position = evaluate_index(subscript, symbols)
        inside = inside & (position >= 0) & (position < extent)
        places.append(np.clip(position, 0, extent - 1))
    return np.where(inside, array[tuple(places)], make_value(read.fill.value, read.dtype))


# --- padding ----------------------------------------------------------------------------------------------


def _fills(job: _Job, grid: Grid) -> Fills:
    shown = shown_in_padded_lanes(job.pattern, grid)
    if shown is None:
        raise CannotPad("a lane that stands for nothing writes an element that stands for something")
    if not shown:
        return {}
    fills = neutral_fills(job.pattern, shown, finite=True)
    if fills is None:
        names = " and ".join(sorted({n for s in shown for n in s})) or "no operand"
        raise CannotPad(
            f"{names} in use by other lanes: nothing that the others hold makes them count for nothing"
        )
    return fills


# --- many issues of one instruction at once: `c[i] += a[i]` for 7 of them is `c[@issue, i] += a[@issue, i]`

ISSUE = "@issue"


def perform_issues(
    instruction: Instruction,
    params: tuple[tuple[str, int], ...],
    count: int,
    operands: MappingType[str, Array],
    scalars: MappingType[str, float],
    *,
    exact: bool,
) -> Array:
    """Return the output operand after each issue. Shapes: of all arrays, issues × the operand's own.

    `params` are values of the integer parameters, `scalars` of the typed ones.
    """
    batch = _batch_issues(instruction, params, count)
    (output,) = (o.name for o in batch.operands if o.role in ("out", "inout"))
    with np.errstate(all="ignore"):
        return execute_bound(batch, operands, scalars, exact=exact)[output]


@lru_cache(maxsize=4096)
def _bind_parameters(instruction: Instruction, params: tuple[tuple[str, int], ...]) -> Instruction:
    bound = bind_all(instruction, dict(params))
    assert isinstance(bound, Instruction), "binding keeps what is bound"
    return bound


@lru_cache(maxsize=4096)
def _batch_issues(instruction: Instruction, params: tuple[tuple[str, int], ...], count: int) -> Instruction:
    bound = _bind_parameters(instruction, params)
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
    """Return the extents of every operand in elements."""
    return _shapes(_bind_parameters(instruction, params))


@lru_cache(maxsize=4096)
def _shapes(bound: Instruction) -> dict[str, tuple[int, ...]]:
    return {o.name: tuple(int(s.evaluate({})) for s in o.shape) for o in bound.operands}


def shown_in_padded_lanes(pattern: Pattern, grid: Grid) -> frozenset[Shown] | None:
    """Return the sets of operands with valid elements in padded lanes whose output is used.

    Empty when there are none. None if such a lane would overwrite the element: the statement only assigns.
    """
    axes = tuple(grid.lengths)
    lanes = {a: lane.reshape(lane.shape[1:]) for a, lane in grid.lanes(axes).items()}
    shape = tuple(grid.lengths.values())
    found: set[Shown] = set()
    # Issues with different valid lanes start at both ends of each span.
    for starts in product(*(sorted({int(s.starts[0]), int(s.starts[-1])}) for s in grid.spans)):
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
        found |= _show_lanes(pattern, grid, lanes, valid, leaking)
    return frozenset(found)


def _show_lanes(
    pattern: Pattern, grid: Grid, lanes: dict[str, Array], valid: Array, leaking: Array
) -> set[Shown]:
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
    """Return for each lane whether a valid lane accesses the same element of the operand."""
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
