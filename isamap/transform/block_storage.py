"""Store an operand of a sum in the blocks in which a machine copies it, by splitting axes in all arrays.

    for m in M, n in 32, k in 32 { y[m, n] += a[m, k] * w[k, n]; }

with blocks of 16 results by 16 terms becomes

    for m in M, n in 2, n_ in 16, k in 2, k_ in 16 { y[m, n, n_] += a[m, k, k_] * w[n, k, n_, k_]; }

Only `w` has another order in memory. `y` and `a` are seen with one dimension more. A temporary has the axis last.
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.ir import Axis, Index, Kernel, Operand, Read
from isamap.source.records import dataclass, replace
from isamap.transform.rewrite import accesses, free_name, is_accepted, map_accesses, with_statements
from isamap.transform.statements import Statement, statements

Dimension = tuple[str, int]
"""An array, and the number of one of its dimensions."""


@dataclass(frozen=True, slots=True)
class Storage:
    """The storage of an array: its dimensions are split as in `split`, then ordered as in `order`."""

    split: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.split[n] for n in self.order)


@dataclass(frozen=True, slots=True)
class Side:
    """A side of a block: its number of elements, and whether it is a reduction axis."""

    size: int
    is_summed: bool


def in_stored_blocks(
    kernel: Kernel, constants: Sequence[str], block: Sequence[Side]
) -> tuple[Kernel, dict[str, Storage]] | None:
    """Return a kernel of constant sizes with one constant stored in blocks, and the storage of its operands.

    The result is None if no sum reads a constant along the blocks' axes, or if another access uses these axes.
    """
    given = statements(kernel)
    if any(s.sequence or s.assign.guard is not None for s in given):
        return None
    for number, s in enumerate(given):
        for read in accesses(s)[1:] if s.assign.op == "add" else ():
            axes = _sides_of(s, read, block) if read.buffer in constants else None
            if axes is not None:
                start = {(number, name): side.size for name, side in zip(axes, block, strict=True)}
                return _store_in_blocks(kernel, given, read, axes, start)
    return None


def _sides_of(s: Statement, read: Read, block: Sequence[Side]) -> list[str] | None:
    """Return the longest axis for each side of a block along which a sum reads an array, or None."""
    summed = {axis.name for axis in s.reduction_axes}
    own = [axis for axis in s.axes if Index.of(axis.name) in read.index]
    found = list[str]()
    for side in block:
        fits = [
            a for a in own
            if (a.name in summed) == side.is_summed and int(a.extent.evaluate({})) % side.size == 0
        ]  # fmt: skip
        if not fits:
            return None
        found.append(max(fits, key=lambda axis: int(axis.extent.evaluate({}))).name)
    return found


def _store_in_blocks(
    kernel: Kernel,
    given: Sequence[Statement],
    read: Read,
    sides: Sequence[str],
    start: dict[tuple[int, str], int],
) -> tuple[Kernel, dict[str, Storage]] | None:
    split = _split_dimensions(kernel, given, start)
    if split is None:
        return None
    axes, dimensions = split
    storage = dict[str, Storage]()
    for operand in kernel.operands:
        if any(buffer == operand.name for buffer, _ in dimensions):
            if operand.strides is not None:
                return None
            at = [read.index.index(Index.of(name)) for name in sides] if operand.name == read.buffer else None
            storage[operand.name] = _storage_of(operand, dimensions, at)
    inner = {name: free_name(kernel, f"{name}_") for _, name in axes}

    def change(r: Read) -> Read:
        if r.buffer not in storage:
            return r
        index = list[Index]()
        for dimension, one in enumerate(r.index):
            index += [one, Index.of(inner[str(one)])] if (r.buffer, dimension) in dimensions else [one]
        return replace(r, index=tuple(index[n] for n in storage[r.buffer].order))

    made = list[Statement]()
    for number, s in enumerate(given):
        own = list[Axis]()
        for axis in s.axes:
            size = axes.get((number, axis.name))
            if size is None:
                own.append(axis)
                continue
            count = int(axis.extent.evaluate({})) // size
            own += [replace(axis, extent=Index.of(count)), Axis(inner[axis.name], Index.of(size))]
        made.append(replace(map_accesses(s, change), axes=tuple(own)))
    operands = tuple(
        replace(o, shape=tuple(map(Index.of, storage[o.name].shape))) if o.name in storage else o
        for o in kernel.operands
    )
    after = with_statements(kernel, made, operands)
    return (after, storage) if is_accepted(kernel, after) else None


def _split_dimensions(
    kernel: Kernel, given: Sequence[Statement], start: dict[tuple[int, str], int]
) -> tuple[dict[tuple[int, str], int], dict[Dimension, int]] | None:
    """Return the split axes by statement, and the split dimensions of arrays, or None.

    It is None if an access depends on one of the axes in another way.
    """
    axes, found = dict(start), dict[Dimension, int]()
    shapes = {o.name: o.shape for o in kernel.operands}
    while True:
        before = len(axes), len(found)
        for number, s in enumerate(given):
            extents = {axis.name: axis.extent for axis in s.axes}
            for r in accesses(s):
                for dimension, index in enumerate(r.index):
                    place, name = (r.buffer, dimension), str(index)
                    sizes = {axes[number, x] for x in index.symbols if (number, x) in axes}
                    sizes |= {found[place]} if place in found else set()
                    if not sizes:
                        continue
                    if len(sizes) > 1 or extents.get(name) != shapes[r.buffer][dimension]:
                        return None
                    axes[number, name] = found[place] = sizes.pop()
        if before == (len(axes), len(found)):
            return axes, found


def _storage_of(operand: Operand, split: dict[Dimension, int], sides: Sequence[int] | None) -> Storage:
    """Return the storage of an array whose dimensions are split. `sides` are those of a block, which come last."""
    shape, places = list[int](), list[tuple[int, ...]]()
    for dimension, extent in enumerate(operand.shape):
        size, count = split.get((operand.name, dimension)), int(extent.evaluate({}))
        places.append((len(shape),) if size is None else (len(shape), len(shape) + 1))
        shape += [count] if size is None else [count // size, size]
    last = [n for n in range(len(places)) if len(places[n]) > 1]
    if sides is not None:
        others = [n for places_of in places if len(places_of) == 1 for n in places_of]
        order = [*others, *(places[n][0] for n in sides), *(places[n][1] for n in sides)]
    elif operand.role == "temp":
        kept = [n for n in range(len(places)) if n not in last]
        order = [n for dimension in (*kept, *last) for n in places[dimension]]
    else:
        order = list(range(len(shape)))
    return Storage(tuple(shape), tuple(order))
