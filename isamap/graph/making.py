"""A program under construction: values with types and sizes, constants among them, and kernel texts.

y = KernelText(making, "relu")                  kernel relu_… {
a, b = y.read(x), y.write("f32", (3, 4))    in a0: f32[3, 4];
y.loop(…)                                   out y0: f32[3, 4]; …
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from isamap.graph.graph import Array
from isamap.graph.model_program import Control, Move, TensorView, is_sound
from isamap.graph.patterns import reshape_strides
from isamap.graph.pending import Border, Pointwise, WrittenKernel, band_of, dense, laid_out
from isamap.graph.sizes import OpenSize, OpenSizes, Size, is_open
from isamap.graph.terms import NotTaken, TextTerm
from isamap.graph.types import make_dense, stored_type, type_of
from isamap.source import release

Shape = tuple[int, ...]
MOST_ELEMENTS = 1 << 31
MOST_NUMBERS = 1 << 25
"""Numbers that operators compute of sizes alone, which a small file may say to be large."""
WORK_OF_PLACE = 32
"""The cost of a place computed in Python, as a count of numbers."""


class OutOfOrder(Exception):
    """An exception: a value's axes are permuted, so that other sizes need a step that moves elements."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """The value on an edge of the graph: a tensor of the program, or an array known at compile time.

    The type is "" for one that no kernel computes with. `tensor` is "" if only the array exists. `order`
    are the axes as they lie in memory, the outermost first; () if that is the order of the sizes. A part of
    a tensor, or one whose elements are repeated, has strides instead, and an offset. Units: elements.
    """

    dtype: str
    shape: Shape
    tensor: str = ""
    known: Array | None = None
    order: Shape = ()
    strides: Shape | None = None
    offset: int = 0

    @staticmethod
    def of(array: Array) -> Value:
        """Return a known value."""
        dtype = "i64" if array.dtype == object else type_of(array)
        return Value(dtype, array.shape, known=array)

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def lying(self) -> Shape:
        """The sizes in the order of memory."""
        return permute_sizes(self.shape, self.order)

    @property
    def is_part(self) -> bool:
        """Return whether the value has strides of its own."""
        return self.strides is not None

    @property
    def walk(self) -> Shape:
        """The distance between neighbours along each axis, in elements."""
        if self.strides is not None:
            return self.strides
        apart = dict(zip(self.order or range(self.rank), dense(self.lying), strict=True))
        return tuple(apart[n] for n in range(self.rank))

    def seen(self, shape: Sequence[int], strides: Sequence[int], more: int = 0) -> Value:
        """Return a view of the same tensor that starts `more` elements later."""
        return replace(self, shape=tuple(shape), strides=tuple(strides), offset=self.offset + more, order=())

    def ordered(self, order: Shape) -> Value:
        """Return a view of the same memory with its axes in this order."""
        return replace(self, order=() if is_in_place(self.shape, order) else order)

    @property
    def flat(self) -> Value:
        """The same memory with sizes in memory order."""
        known = self.known.transpose(self.order) if self.known is not None and self.order else self.known
        return replace(self, shape=self.lying, known=known, order=())

    def shaped(self, shape: Sequence[int]) -> Value:
        """Return the same elements, in the same order, with other sizes. Raises: OutOfOrder."""
        found = tuple(whole(size) for size in shape)
        assert prod(found) == self.count, f"{self.shape} is not reshaped to {found}"
        if self.strides is not None:
            strides = reshape_strides(self.shape, self.strides, found)
            if strides is None:
                raise OutOfOrder
            return replace(self, shape=found, strides=strides)
        if self.order and found != self.shape:
            is_free = self.tensor and not any(map(is_open, (*self.shape, *found)))
            strides = reshape_strides(self.shape, self.walk, found) if is_free else None
            if strides is None:
                raise OutOfOrder
            order = sorted(range(len(found)), key=lambda n, reach=strides: (-reach[n], n))
            return replace(self, shape=found, order=()).ordered(tuple(order))
        known = self.known.reshape(found) if self.known is not None else None
        return replace(self, shape=found, known=known)


def whole(size: int) -> int:
    """Return a number as a Python int. An open size is unchanged."""
    return size if isinstance(size, Size) else int(size)


def permute_sizes(sizes: Sequence[int], order: Shape) -> Shape:
    """Return the sizes in the given order of the axes."""
    return tuple(sizes[n] for n in order) if order else tuple(sizes)


def _real(shape: Shape, order: Shape) -> list[int]:
    """Return the axes with several elements, in memory order."""
    return [n for n in order or range(len(shape)) if shape[n] != 1]


def is_in_place(shape: Shape, order: Shape) -> bool:
    """Return whether a permutation keeps the memory layout. Axes of one element may be anywhere."""
    return _real(shape, order) == _real(shape, ())


@dataclass(slots=True)
class Making:
    """The steps so far, with open kernels, and the constants by name.

    `moved` are permuted values and results of elementwise operations, with the step that made them. With
    `views`, operators that only rename elements are no steps: their readers access the tensor with other
    strides.
    """

    steps: list[Move | Control | WrittenKernel | Pointwise] = field(
        default_factory=list["Move | Control | WrittenKernel | Pointwise"]
    )
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    tensors: int = 0
    numbers: int = 0
    moved: dict[tuple[object, ...], tuple[Value, int]] = field(
        default_factory=dict["tuple[object, ...]", "tuple[Value, int]"]
    )
    views: bool = False
    opened: OpenSizes = field(default_factory=lambda: OpenSizes(()))
    sizes: tuple[OpenSize, ...] = ()
    """The sizes that a call of the program gives."""
    counts: list[OpenSize] = field(default_factory=list[OpenSize])
    """The sizes that steps of the program find."""

    def mark(self) -> int:
        """Return the current position in the program, for `drop_after`."""
        return len(self.steps)

    def drop_after(self, mark: int) -> None:
        """Remove the steps after a mark. Constants that become unused stay."""
        del self.steps[mark:]
        self.moved = {key: found for key, found in self.moved.items() if found[1] < mark}

    def plain(self, value: Value) -> Value:
        """Return the value with its elements in memory in the order of its sizes."""
        return self.laid(value, ())

    def laid(self, value: Value, order: Shape) -> Value:
        """Return the value with its axes in memory in this order. A step moves elements if necessary."""
        if value.known is not None and not value.tensor:
            return value.ordered(order)
        if not value.is_part and _real(value.shape, value.order) == _real(value.shape, order):
            return value.ordered(order)
        key = value.shape, order, self.look(value)
        if key not in self.moved:
            text = KernelText(self, "transpose")
            y = text.write(value.dtype, value.shape, order)
            at, _ = axes_of(value.shape)
            text.loop(y.loops(at), f"{y.at(at)} = {text.read(value).at(at)};")
            found = text.done()
            self.moved[key] = found, len(self.steps) - 1
        return self.moved[key][0]

    def reserve(self, *sizes: int) -> None:
        """Count the numbers of a table that is computed at import. Raises: NotTaken beyond the limit."""
        self.numbers += prod(sizes)
        if self.numbers > MOST_NUMBERS:
            said = f"a table of {prod(sizes)} numbers: the tables of a model have {MOST_NUMBERS} at most"
            raise NotTaken(said)

    def fresh(self, dtype: str, shape: Shape) -> Value:
        """Return a value for a step to write. Raises: NotTaken if it is too large."""
        _check_size(shape)
        self.tensors += 1
        return Value(dtype, shape, f"t{self.tensors - 1}")

    @staticmethod
    def is_result(value: Value) -> bool:
        """Return whether a step writes a value. Inputs and constants are written by no step."""
        return value.tensor.startswith("t")

    def counted(self, most: int) -> tuple[int, Value]:
        """Return a data-determined size, and its value for a step to write."""
        self.counts.append(self.opened.of_data(most))
        return self.opened.size(self.counts[-1].name), Value("i64", (), self.counts[-1].tensor)

    def passed(self, value: Value) -> TensorView:
        """Return a value as a step reads it. A known value becomes a constant of the program."""
        if not value.dtype:
            raise NotTaken("no kernel computes with a tensor of this type")
        if value.is_part:
            return laid_out(self.look(value))[1]
        flat = value.flat
        if flat.tensor:
            return TensorView(flat.tensor, stored_type(flat.dtype), flat.shape)
        assert flat.known is not None, "a value is in memory, or known"
        if (
            flat.known.dtype == object and flat.dtype == "i64"
        ):  # sizes that each call gives, or that data decides
            sizes = self.fresh("i64", flat.shape)
            self.move("sizes", (), (sizes,), flat.count, *(whole(n) for n in flat.known.reshape(-1)))
            return self.passed(sizes)
        array = make_dense(flat.known, flat.dtype)
        state = hashlib.sha256(array.reshape(-1).view(np.uint8).data)
        state.update(array.dtype.str.encode())
        name = f"c{state.hexdigest()[:12]}"
        band = band_of(array)
        release(array)
        self.constants.setdefault(name, array.reshape(-1))
        return TensorView(name, stored_type(flat.dtype), flat.shape, band=band)

    def look(self, value: Value) -> TensorView:
        """Return a value in memory whose axes have the order of its sizes."""
        is_plain = not value.is_part and not value.order
        return TensorView(
            value.tensor,
            stored_type(value.dtype),
            value.shape,
            None if is_plain else value.walk,
            value.offset,
        )

    def move(self, function: str, reads: Sequence[Value], writes: Sequence[Value], *numbers: int) -> None:
        """Append a step that moves elements from or to data-determined positions."""
        if any(value.count for value in writes):
            passed = [tuple(self.passed(self.plain(v)) for v in values) for values in (reads, writes)]
            made = Move(function, passed[0], passed[1], tuple(numbers))
            if not is_sound(made):
                raise NotTaken("sizes that do not go together")
            self.steps.append(made)


def _check_size(shape: Sequence[int]) -> None:
    if prod(shape) > MOST_ELEMENTS:
        raise NotTaken(f"a result of {prod(shape)} elements is too large")


@dataclass(frozen=True, slots=True)
class Operand:
    """An array of a kernel under construction, by name. An array without axes has one element.

    Sizes and indices are by axis. `order` are the axes as they lie in memory. A part of a tensor has some of
    them only, `axes`, and perhaps one of one element behind the last, as neighbours lie apart.
    """

    name: str
    dtype: str
    shape: Shape
    order: Shape = ()
    axes: Shape | None = None
    is_apart: bool = False

    def at(self, index: Sequence[str]) -> str:
        """Return the element at these indices, which are 0 along axes of one element."""
        there = [i if size != 1 else "0" for i, size in zip(index, self.shape, strict=True)]
        return f"{self.name}[{', '.join(self._lying(there) or ['0'])}]"

    def _lying(self, index: Sequence[str]) -> list[str]:
        if self.axes is not None:
            return [*(index[n] for n in self.axes), *(["0"] if self.is_apart else [])]
        return [index[n] for n in self.order] if self.order else list(index)

    def loops(self, names: Sequence[str]) -> dict[str, int]:
        """Return the loops over the named axes in memory order, without axes named "0"."""
        sizes = zip(self._lying(names), permute_sizes(self.shape, self.order), strict=True)
        return {name: size for name, size in sizes if name != "0"}

    def term(self, index: Sequence[str]) -> TextTerm:
        """Return the element as a term with its type."""
        return TextTerm(self.at(index), self.dtype)

    def filled(self, index: Sequence[str], fill: str) -> str:
        """Return the element, or `fill` outside of the array. Raises: OutOfOrder for a broadcast tensor."""
        if self.axes is not None and len(self.axes) < len(self.shape):
            raise OutOfOrder
        return f"({self.name}[{', '.join(self._lying(index)) or '0'}] else {fill})"


class KernelText:
    """The text of a kernel under construction, with its operands."""

    def __init__(self, making: Making, name: str, *, is_searched: bool = False) -> None:
        self.making = making
        self.name = name
        self.is_searched = is_searched
        self._declared: list[str] = []
        self._statements: list[str] = []
        self._reads: dict[tuple[TensorView, Shape, Shape | None], tuple[Operand, TensorView]] = {}
        self._writes: list[tuple[Operand, Value]] = []
        self._temporaries = 0
        self._definitions = ""
        self._borders: dict[str, Border] = {}

    def define(self, function: str) -> None:
        """Add the text of a function that statements call."""
        self._definitions += function

    def read(self, value: Value, more: str = "") -> Operand:
        """Return an input array. `more` is appended to its declaration."""
        passed = self.making.passed(value)
        key = passed, value.order, value.strides
        if key not in self._reads:
            made = self._declare(
                "in", f"a{len(self._reads)}", value.dtype, value.shape, value.order, passed, more
            )
            if value.is_part:
                axes, _ = laid_out(self.making.look(value))
                made = replace(made, axes=axes, is_apart=len(passed.shape) > len(axes))
            self._reads[key] = made, passed
        return self._reads[key][0]

    def write(self, dtype: str, shape: Sequence[int], order: Shape = ()) -> Operand:
        """Return a result array. Results are ordered by their requests."""
        value = self.making.fresh(dtype, tuple(whole(size) for size in shape)).ordered(order)
        made = self._declare("out", f"y{len(self._writes)}", dtype, value.shape, value.order)
        self._writes.append((made, value))
        return made

    def temp(self, dtype: str, shape: Sequence[int], order: Shape = ()) -> Operand:
        """Return a temporary array. Raises: NotTaken if it is too large."""
        _check_size(shape)
        self._temporaries += 1
        return self._declare("temp", f"s{self._temporaries - 1}", dtype, tuple(shape), order)

    def _declare(
        self,
        role: str,
        name: str,
        dtype: str,
        shape: Shape,
        order: Shape = (),
        passed: TensorView | None = None,
        more: str = "",
    ) -> Operand:
        lying = permute_sizes(shape, order) if passed is None else passed.shape
        self._declared.append(f"{role} {name}: {dtype}[{', '.join(map(str, lying)) or '1'}]{more};")
        return Operand(name, dtype, shape, order)

    def border(self, operand: Operand, widths: Sequence[tuple[int, int]], fill: str) -> None:
        """Record how far an operand is read beyond its edges along each axis, and the fill there."""
        if operand.axes is not None:
            return
        axes = operand.order or range(len(operand.shape))
        self._borders[operand.name] = Border(tuple(widths[n] for n in axes), fill)

    def loop(self, axes: Mapping[str, int], *statements: str, guard: str = "") -> None:
        """Append a loop nest around statements. Axes of one element get no loop."""
        self._statements.append(nest(axes, *statements, guard=guard))

    def state(self, statement: str) -> None:
        """Append a statement unchanged."""
        self._statements.append(statement)

    def done(self) -> Value:
        """Add the kernel to the program's steps, and return its only result."""
        (value,) = self.all_done()
        return value

    def all_done(self) -> tuple[Value, ...]:
        """Add the kernel to the program's steps, and return all results."""
        values = tuple(value for _, value in self._writes)
        if any(value.count for value in values):
            self._add()
        return values

    def _add(self) -> None:
        reads = {made.name: passed for made, passed in self._reads.values()}
        writes = {made.name: self.making.passed(value) for made, value in self._writes}
        self.making.steps.append(
            WrittenKernel(
                self.name,
                self._definitions,
                tuple(self._declared),
                tuple(self._statements),
                reads,
                writes,
                self._borders,
                self.is_searched,
            )
        )


def nest(axes: Mapping[str, int], *statements: str, guard: str = "", word: str = "for") -> str:
    """Return statements in loops. Axes of one element, which no statement uses, get no loop."""
    there = {name: size for name, size in axes.items() if size != 1}
    body = " ".join(statements)
    if not there:
        return body
    head = ", ".join(f"{name} in {size}" for name, size in there.items())
    return f"{word} {head}{f' if {guard}' if guard else ''} {{ {body} }}"


def axes_of(shape: Sequence[int], letter: str = "d") -> tuple[list[str], dict[str, int]]:
    """Return names for the axes of a shape ("0" for those of one element), and the loops over them."""
    names = [f"{letter}{n}" if size != 1 else "0" for n, size in enumerate(shape)]
    return names, {name: size for name, size in zip(names, shape, strict=True) if name != "0"}


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """Return the common broadcast shape. Raises: NotTaken."""
    rank = max(map(len, shapes), default=0)
    found: list[int] = []
    for axis in range(rank):
        sizes = [shape[axis - rank] for shape in shapes if axis >= rank - len(shape)]
        several = [size for size in sizes if size != 1]
        if any(size != several[0] for size in several):
            listed = " and ".join(str(list(shape)) for shape in shapes)
            raise NotTaken(f"sizes that do not go together: {listed}")
        found.append(whole(several[0]) if several else 1)
    return tuple(found)


def broadcast_index(shape: Shape, axes: Sequence[str]) -> list[str]:
    """Return the index into an array of this shape that is broadcast over these axes."""
    return list(axes[len(axes) - len(shape) :])


# --- the scope of a node --------------------------------------------------------------------------------

Names = dict[str, Value | None]
"""Values by name; None for those whose node was refused."""


@dataclass(frozen=True, slots=True)
class KernelScope:
    """The names that are visible to a node.

    `names` grows with each node. `opsets` has a version for each domain. The depth counts the functions and
    graphs around the node.
    """

    names: Names
    opsets: Mapping[str, int]
    depth: int = 0

    def inside(self, names: Names, opsets: Mapping[str, int] | None = None) -> KernelScope:
        """Return the scope of a function or graph that is lowered in place, with its own names."""
        return KernelScope(names, self.opsets if opsets is None else opsets, self.depth + 1)
