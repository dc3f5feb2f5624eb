"""Check lowered programs independently: issues access only elements of tensors and buffers.

    check_touched(program, machine)  ->  ("broadcast2_zmm_bf16 reads A, 2 x 1024 elements, at 2048 where …",)

It shares no code with the search for moves. The meaning of an instruction gives the elements that an issue
accesses, even if their values are not used later. Their addresses are those of the emitted code. Loops run
with numbers, at their ends or in all iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Call, Cast, Env, Expr, Index, Instruction, Operand, Read, evaluate_expr
from isamap.ir.evaluate import box_points, evaluate_index
from isamap.ir.index import ONE
from isamap.lower import program as lir
from isamap.lower.work_slices import slice_code
from isamap.machine import Machine
from isamap.source.records import dataclass
from isamap.transform import reads, statements, symbols

Array = NDArray[Any]

GAP = 1 << 16  # elements between the rows of a tensor: more than one issue spans, so that it meets them
MOST_BYTES = 1 << 60  # of a tensor: places are computed in 64 bits
_COMPARE: dict[str, Any] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<=": np.less_equal,
    "<": np.less,
    ">=": np.greater_equal,
    ">": np.greater,
}
MOST_POINTS = 1 << 15  # of a body; with more, loops are performed in their first and last iteration only


def check_touched(
    program: lir.LoweredProgram,
    machine: Machine,
    sizes: Iterable[Mapping[str, int]] = ({},),
    *,
    every_iteration: bool = False,
) -> tuple[str, ...]:
    """Return a sentence for each access outside a program's tensors and buffers.

    `sizes` are sets of sizes that the caller gives. Rows are once dense and once padded. Without
    `every_iteration`, loops run only their first, last but one and last iteration: linear addresses reach
    their ends there.
    """
    found: dict[str, None] = {}
    given = [{**dict(program.sizes), **some} for some in sizes]
    laid_out = [_choose_sizes(program, some, gap) for some in given for gap in (0, GAP)]
    laid_out = [numbers for numbers in laid_out if max(numbers.values(), default=0) < MOST_BYTES]
    if not laid_out:
        return ()
    env = {n: np.asarray([numbers[n] for numbers in laid_out]) for n in laid_out[0]}
    start = _Points(env, len(laid_out))
    start = start.where([start.holds(condition) for condition in _promised_facts(program)])
    _Walk(program, machine, every_iteration, found).nodes(program.body, start)
    for pack in program.packs:
        found |= dict.fromkeys(check_touched(pack, machine, given, every_iteration=every_iteration))
    return tuple(found)


def _promised_facts(program: lir.LoweredProgram) -> Iterator[tuple[Index, str, Index]]:
    """Yield the facts that callers promise, with `A.s0` for strides that kernels call `stride(A,0)`."""
    yield from program.checks
    named = {f"stride({t.name},{n})": s for t in program.tensors for n, s in enumerate(t.strides)}
    for where in program.kernel.where:
        left, right = where.left.substitute(named), where.right.substitute(named)
        if not any(symbol.startswith("align(") for symbol in left.symbols | right.symbols):
            yield left, where.comparison, right


def _choose_sizes(program: lir.LoweredProgram, sizes: Mapping[str, int], gap: int) -> dict[str, int]:
    """Return numbers for sizes, for strides with a gap after each row, and for `_stride` and `_extent`."""
    env = dict(sizes)
    for item in (*program.tensors, *program.buffers):
        least = 1
        for axis, (extent, stride) in reversed(
            [*enumerate(zip(_shape_of(item), _strides_of(item), strict=True))]
        ):
            env |= dict.fromkeys(stride.symbols - env.keys(), least)
            step, count = stride.evaluate(env), extent.evaluate(env)
            env |= {_stride(item.name, axis): step, _extent(item.name, axis): count}
            least = max(1, step * count) + gap
        env[f"{item.name} bytes"] = least * item.dtype.size_bytes
    return env


def _stride(array: str, axis: int) -> str:
    return f"{array} stride {axis}"


def _extent(array: str, axis: int) -> str:
    return f"{array} extent {axis}"


def _shape_of(item: lir.Tensor | lir.Buffer) -> tuple[Index, ...]:
    """Return the extents of an array in elements. Those of a packed tensor leave out its header."""
    if isinstance(item, lir.Buffer):
        return (item.elements,)
    if item.header is None:
        return item.shape
    return (item.shape[0] - item.header.size_bytes // item.dtype.size_bytes,)


def _strides_of(item: lir.Tensor | lir.Buffer) -> tuple[Index, ...]:
    return (ONE,) if isinstance(item, lir.Buffer) else item.strides


# --- performed on numbers ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Points:
    """Sample points of a run: values of sizes, strides and counters. Shapes: of each, (count,)."""

    env: dict[str, Array]
    count: int

    def at(self, index: Index) -> Array:
        """Return the value of an index at all points."""
        return np.broadcast_to(evaluate_index(index, self.env), self.count)

    def holds(self, condition: tuple[Index, str, Index]) -> Array:
        """Return whether a condition holds, for each point."""
        left, comparison, right = condition
        return np.asarray(_COMPARE[comparison](self.at(left), self.at(right)))

    def where(self, conditions: list[Array]) -> _Points:
        """Return the points at which all conditions hold."""
        if not conditions:
            return self
        met = np.logical_and.reduce(conditions)
        return self.chosen(met.nonzero()[0])

    def chosen(self, numbers: Array) -> _Points:
        """Return the points that have these numbers."""
        return _Points({n: v[numbers] for n, v in self.env.items()}, numbers.size)


@dataclass(frozen=True, slots=True)
class _Walk:
    program: lir.LoweredProgram
    machine: Machine
    every_iteration: bool
    found: dict[str, None]

    def nodes(self, nodes: tuple[lir.Node, ...], points: _Points) -> None:
        """Record the accesses of nodes that run at all points."""
        if not points.count:
            return
        for node in nodes:
            match node:
                case lir.Issue():
                    self.issue(node, points)
                case lir.Fill(buffer, offset, elements):
                    first = points.where([points.at(elements) > 0])
                    ends = np.stack([first.at(offset), first.at(offset + elements - 1)])
                    self.judge(f"zeros are written to {buffer}", buffer, ends, first)
                case lir.For(variable, trips, body):
                    self.nodes(body, self.iterate(points, variable, trips))
                case lir.Parallel(counters, body):
                    inside = points
                    for variable, trips in counters:
                        inside = self.iterate(inside, variable, trips)
                    self.nodes(body, inside)
                case lir.If(conditions, body):
                    self.nodes(body, points.where([points.holds(c) for c in conditions]))
                case lir.Block(_, body):
                    self.nodes(body, points)
                case lir.WorkSlice():
                    self.nodes(slice_code(node), points)
                case (
                    lir.Configure()
                    | lir.Hint()
                    | lir.Barrier()
                    | lir.ProductGroup()
                    | lir.Declare()
                    | lir.Begin()
                ):
                    pass  # a hint may name any place
                case _:
                    assert_never(node)

    def iterate(self, points: _Points, variable: str, trips: Index) -> _Points:
        """Return the points at which a loop's body runs."""
        count = np.maximum(points.at(trips), 0)
        if not self.every_iteration:
            count = np.minimum(count, 2 if points.count > MOST_POINTS else 3)
        numbers = np.repeat(np.arange(count.size), count)
        iterations = np.arange(numbers.size) - (np.cumsum(count) - count)[numbers]
        if not self.every_iteration:  # the first, and the last ones
            iterations = np.where(iterations > 0, (points.at(trips) - count)[numbers] + iterations, 0)
        inside = points.chosen(numbers)
        inside.env[variable] = iterations
        return inside

    def issue(self, node: lir.Issue, points: _Points) -> None:
        """Record the accesses of an issue for every value of its parameters."""
        if not any(isinstance(ref, lir.MemoryRef) for _, ref in node.operands):
            return
        numbers = {n: Index.of(v).value for n, v in node.params if isinstance(v, int | Index)}
        open_ = {n: points.at(v) for n, v in node.params if isinstance(v, Index) and v.value is None}
        values: list[list[int]] = [[]]
        if open_:
            values = np.unique(np.stack([*open_.values()]), axis=1).T.tolist()
        for given in values:
            here = points.where([v == value for v, value in zip(open_.values(), given, strict=True)])
            chosen = numbers | dict(zip(open_, given, strict=True))
            self.operands(node, tuple((n, v) for n, v in chosen.items() if v is not None), here)

    def operands(self, node: lir.Issue, params: tuple[tuple[str, int], ...], points: _Points) -> None:
        """Record the accesses of an issue's operands in memory."""
        instruction = self.machine.instructions[node.instruction].instruction
        touched = dict(touched_elements(instruction, params))
        items = {i.name: i.dtype.size_bytes for i in (*self.program.tensors, *self.program.buffers)}
        for name, ref in node.operands:
            if not isinstance(ref, lir.MemoryRef) or not touched.get(name):
                continue
            operand, size = instruction.operand(name), items[ref.buffer]
            start = points.at(ref.offset) * size
            steps = _steps(operand, ref, params, size, points)
            ends = [
                start + sum((n * s for n, s in zip(at, steps, strict=True)), start=0) for at in touched[name]
            ]
            places = np.stack(ends)
            if operand.dtype.size_bytes != size:  # its elements are views of others
                places = np.concatenate([places, places + operand.dtype.size_bytes - 1])
            verb = "reads" if operand.role == "in" else "writes"
            self.judge(f"{node.instruction} {verb} {ref.buffer}", ref.buffer, places // size, points)

    def judge(self, what: str, array: str, places: Array, points: _Points) -> None:
        """Record the places outside of an array. Shapes: `places` is (places, points)."""
        inside: Array = np.ones(places.shape, np.bool_)
        rest, axis = places, 0
        while (stride := points.env.get(_stride(array, axis))) is not None:
            at = rest // stride
            inside &= (at >= 0) & (at < points.env[_extent(array, axis)])
            rest, axis = rest - at * stride, axis + 1
        if axis == 0:
            inside = places == 0
        if inside.all():
            return
        place, point = (int(n[0]) for n in (~inside).nonzero())
        named = ", ".join(f"{n} = {v[point]}" for n, v in sorted(points.env.items()) if " " not in n)
        size = " x ".join(str(points.env[_extent(array, n)][point]) for n in range(axis))
        self.found[f"{what}, {size} elements, at {places[place, point]} where {named}"] = None


def _steps(
    operand: Operand,
    ref: lir.MemoryRef,
    params: tuple[tuple[str, int], ...],
    item_bytes: int,
    points: _Points,
) -> list[int | Array]:
    """Return the strides of an operand along its axes: its own, or those that the issue gives."""
    numbers = dict(params)
    shape = [s.evaluate(numbers) for s in operand.shape]
    found: list[int | Array] = []
    for axis in range(len(shape)):
        own = operand.strides[axis] if operand.strides is not None else Index.of(prod(shape[axis + 1 :]))
        if own is None:
            found.append(points.at(ref.strides[axis]) * item_bytes)
        else:
            found.append(own.evaluate(numbers) * operand.dtype.size_bytes)
    return found


# --- what an instruction's meaning touches ----------------------------------------------------------------


@lru_cache(maxsize=4096)
def touched_elements(
    instruction: Instruction, params: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]:
    """Return, for each operand of an instruction, the extreme elements accessed. All others are between them.

    `params` are values of the integer parameters. A condition that depends on data counts as true, and both
    branches of a selection count. An output with a declared value outside the assigned part is written as a
    whole.
    """
    numbers = dict(params)
    shapes = {o.name: tuple(s.evaluate(numbers) for s in o.shape) for o in instruction.operands}
    places: dict[str, set[tuple[int, ...]]] = {}
    for statement in statements(instruction):
        axes = (*statement.sequence, *statement.axes)
        grid = box_points(tuple(a.extent.evaluate(numbers) for a in axes))
        env = {
            **{n: np.full(grid.shape[1], v) for n, v in params},
            **dict(zip((a.name for a in axes), grid, strict=True)),
        }
        points = _Points(env, grid.shape[1])
        met = _may_be_met(statement.assign.guard, points)
        for access, happens in ((statement.assign.target, met), *_reads(statement.assign.value, points, met)):
            at = [points.at(i) for i in access.index]
            inside = [happens]
            if access.fill is not None:  # taken instead of what is not there
                ends = zip(at, shapes[access.buffer], strict=True)
                inside += [(place >= 0) & (place < extent) for place, extent in ends]
            chosen = np.stack(at, axis=1) if at else np.zeros((points.count, 0), np.int64)
            chosen = chosen[np.logical_and.reduce(inside)]
            places.setdefault(access.buffer, set()).update(map(tuple, chosen.tolist()))
    for operand in instruction.operands:
        if operand.role != "in" and (operand.outside in ("zero", "undefined") or operand.accumulate):
            places.setdefault(operand.name, set()).update(
                map(tuple, box_points(shapes[operand.name]).T.tolist())
            )
    return tuple((name, _ends(elements)) for name, elements in places.items())


def _reads(value: Expr, points: _Points, met: Array) -> Iterator[tuple[Read, Array]]:
    """Yield the accesses in a value, each with the points at which it may happen."""
    match value:
        case Read():
            yield value, met
        case Call("select", (condition, yes, no)):
            yield from _reads(condition, points, met)
            yield from _reads(yes, points, met & _may_be_met(condition, points))
            yield from _reads(
                no, points, met & _may_be_met(Call("not", (condition,), condition.dtype), points)
            )
        case Call(_, args):
            for argument in args:
                yield from _reads(argument, points, met)
        case Cast(inner):
            yield from _reads(inner, points, met)
        case _:
            return


def _may_be_met(condition: Expr | None, points: _Points) -> Array:
    """Return where a condition may be true: everywhere if it depends on data."""
    if condition is None or reads(condition) or not symbols(condition) <= points.env.keys():
        return np.ones(points.count, np.bool_)
    return np.broadcast_to(evaluate_expr(condition, Env(points.env)), points.count)


def _ends(elements: set[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Return the corners of a box of elements, or all elements if they form no box."""
    if not elements:
        return ()
    spans = [sorted({at[axis] for at in elements}) for axis in range(len(next(iter(elements))))]
    full = len(elements) == prod(len(span) for span in spans)
    return tuple(sorted(set(product(*((s[0], s[-1]) for s in spans))) if full else elements))
