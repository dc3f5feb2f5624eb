"""The arrays of a routine's operands: checked, filled, sliced and gathered.

An operand `out C: f32[M, N] outside undefined` starts as NaN everywhere, so that a read of an unwritten
element shows in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from isamap.ir.dtypes import DType
from isamap.ir.evaluate import evaluate_index, make_value
from isamap.ir.index import Index
from isamap.ir.nodes import Operand, Read, Routine
from isamap.ir.rounding import Array, convert, round_to, wrap
from isamap.source import UsageProblem, dataclass

_POISON = 0xA5A5A5A5A5A5A5A5


@dataclass(frozen=True, slots=True)
class Box:
    """A part of an iteration space: the name, first value and count of each axis. Axis i is dimension i."""

    names: tuple[str, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]

    def values(self, position: int) -> Array:
        """Return the axis as an array of the box's rank, of length 1 in all other dimensions."""
        shape = [1] * len(self.names)
        shape[position] = self.counts[position]
        start = self.starts[position]
        return np.arange(start, start + self.counts[position], dtype=np.int64).reshape(shape)

    def symbols(self) -> dict[str, int | Array]:
        """Return all axes by name."""
        return {name: self.values(i) for i, name in enumerate(self.names)}


# --- taking arrays in -------------------------------------------------------------------------------------


def take_arrays(
    routine: Routine, arrays: Mapping[str, Array], exact: bool, rng: np.random.Generator | None
) -> dict[str, Array]:
    """Return a new array for each operand: a converted copy of a given array, or fill values.

    The old value of an `out` operand matters only if it is to be kept. Floats are rounded to the operand's
    type, then widened to float64 if `exact`. Raises: UsageProblem if an array is missing, unknown or of
    another shape, or an integer does not fit.
    """
    known = {o.name for o in routine.operands if o.role != "temp"}
    for name in arrays:
        if name not in known:
            raise _refuse(
                "unknown-operand", f"`{routine.name}` has no operand `{name}`",
                f"its operands are {', '.join(sorted(known))}",
            )  # fmt: skip
    return {o.name: _take(routine, o, arrays, exact, rng) for o in routine.operands}


def take_scalars(routine: Routine, scalars: Mapping[str, float]) -> dict[str, Array]:
    """Return each typed scalar parameter in its type. Raises: UsageProblem if one is missing or unknown."""
    expected = dict(_typed_scalars(routine))
    for name in scalars:
        if name not in expected:
            raise _refuse("unknown-scalar", f"`{routine.name}` has no scalar `{name}`")
    missing = [name for name in expected if name not in scalars]
    if missing:
        raise _refuse("scalar-missing", f"`{routine.name}` needs a value for its scalar `{missing[0]}`")
    return {name: make_value(scalars[name], dtype) for name, dtype in expected.items()}


def _typed_scalars(routine: Routine) -> Iterator[tuple[str, DType]]:
    for param in routine.params:
        if param.dtype is not None:
            yield param.name, param.dtype


def shape_of(operand: Operand) -> tuple[int, ...]:
    """Return an operand's extents as numbers. Its routine is bound."""
    return tuple(int(evaluate_index(e, {})) for e in operand.shape)


def _take(
    routine: Routine, o: Operand, arrays: Mapping[str, Array], exact: bool, rng: np.random.Generator | None
) -> Array:
    shape = shape_of(o)
    if o.name in arrays:
        given = np.asarray(arrays[o.name])
        if given.shape != shape:
            found = f"but the array is {list(given.shape)}"
            raise _refuse("wrong-shape", f"`{o.name}` of `{routine.name}` is {list(shape)}, {found}")
        if o.role != "out" or o.outside == "keep":
            return storage(_admit(given, o), o.dtype, exact)
    elif o.role in ("in", "inout"):
        raise _refuse("array-missing", f"`{routine.name}` needs an array for `{o.name}`")
    if o.outside == "zero":
        return storage(np.zeros(shape, o.dtype.numpy()), o.dtype, exact)
    return storage(poison(shape, o.dtype, rng), o.dtype, exact)


def storage(values: Array, dtype: DType, exact: bool) -> Array:
    """Return a copy that the interpreter may change, with floats as float64 if they are `exact`."""
    # An array in every case: what numpy computes of an array without axes is a number that cannot be changed.
    return np.array(values, np.float64 if exact and dtype.is_float else dtype.numpy())


def _admit(given: Array, o: Operand) -> Array:
    """Return the array converted to the operand's type. Raises: UsageProblem if its shape or a value does not fit."""
    if o.dtype.is_float:
        source = given.astype(np.float64) if given.dtype.kind in "iub" else given
        return round_to(source, o.dtype)
    stored = convert(given, o.dtype, o.dtype, "wrap") if given.dtype.kind in "iub" else None
    if stored is None or not np.array_equal(stored, given):
        raise _refuse("wrong-values", f"the array for `{o.name}` has values that {o.dtype} does not have")
    return stored


def poison(shape: tuple[int, ...], dtype: DType, rng: np.random.Generator | None) -> Array:
    """Return contents of unwritten memory: NaN or a bit pattern, or random values when `rng` is given."""
    if rng is not None:
        if dtype.is_float:
            return round_to(rng.normal(size=shape) * 64, dtype)
        bits = rng.integers(0, 1 << 63, size=shape, dtype=np.int64)
        return bits % 2 == 1 if dtype.kind == "bool" else wrap(bits, dtype)
    if dtype.is_float:
        return np.full(shape, np.nan).astype(dtype.numpy())
    if dtype.kind == "bool":
        return np.ones(shape, np.bool_)
    return wrap(np.full(shape, _POISON, np.uint64), dtype)


def _refuse(code: str, message: str, *notes: str) -> UsageProblem:
    return UsageProblem.of(code, message, notes=notes)


# --- elements ---------------------------------------------------------------------------------------------


def load(buffer: Array, read: Read, box: Box, symbols: Mapping[str, int | Array]) -> Array:
    """Return the values of an access at all points of a box. Points outside the buffer have the fill.

    An access that leaves the buffer without a fill is behind a guard: there it reads any element, and the
    guard drops it. Shapes: the box's rank, with length 1 if an axis does not matter.
    """
    view = slices(buffer, read.index, box, symbols)
    if view is not None:
        return view
    positions, inside = locate(buffer.shape, read.index, symbols)
    return gather(buffer, positions, inside, read)


def gather(buffer: Array, positions: list[Array], inside: Array | None, read: Read) -> Array:
    """Return the elements at the positions inside the buffer, and the fill value of the access at the others."""
    found = np.asarray(buffer[tuple(positions)])
    if inside is None or read.fill is None:
        return found
    return np.where(inside, found, make_value(read.fill.value, read.dtype).astype(buffer.dtype))


def locate(
    shape: tuple[int, ...], index: tuple[Index, ...], symbols: Mapping[str, int | Array]
) -> tuple[list[Array], Array | None]:
    """Return each point's position, clamped to the buffer, and a mask of the points inside (None: all are)."""
    inside: Array | None = None
    positions: list[Array] = []
    for subscript, extent in zip(index, shape, strict=True):
        at = evaluate_index(subscript, symbols)
        if at.size and (at.min() < 0 or at.max() >= extent):
            fine = (at >= 0) & (at < extent)
            inside = fine if inside is None else inside & fine
            at = np.clip(at, 0, extent - 1)
        positions.append(at)
    return positions, inside


def slices(
    buffer: Array, index: tuple[Index, ...], box: Box, symbols: Mapping[str, int | Array]
) -> Array | None:
    """Return a view of the buffer in the box's layout, if each subscript is at most one axis, else None.

    The view shares memory, so that assigning to it writes the buffer.
    """
    cuts: list[int | slice] = []
    axes: list[int] = []
    fixed = {s: v for s, v in symbols.items() if isinstance(v, int)}
    for subscript, extent in zip(index, buffer.shape, strict=True):
        found = _progression(subscript.substitute(fixed), box)
        if found is None or found[1] in axes:
            return None
        start, axis, step = found
        if axis is None:
            if not 0 <= start < extent:
                return None
            cuts.append(start)
            continue
        last = start + step * (box.counts[axis] - 1)
        if start < 0 or last >= extent:
            return None
        cuts.append(slice(start, last + 1, step))
        axes.append(axis)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    view = buffer[tuple(cuts)] if cuts else buffer
    if not axes:
        return np.asarray(buffer[(*cuts, ...)]).reshape((1,) * len(box.names))
    spread = tuple(slice(None) if i in axes else None for i in range(len(box.names)))
    return view.transpose(order)[spread]


def _progression(subscript: Index, box: Box) -> tuple[int, int | None, int] | None:
    """Return first value, axis and step of a subscript `c*axis + b` with c > 0. A constant has the axis None."""
    start, axis, step = 0, None, 0
    for monomial, coefficient in subscript.terms:
        match monomial:
            case ():
                start += coefficient
            case (str() as name,) if name in box.names and axis is None and coefficient > 0:
                axis, step = box.names.index(name), coefficient
                start += coefficient * box.starts[axis]
            case _:
                return None
    return start, axis, step
