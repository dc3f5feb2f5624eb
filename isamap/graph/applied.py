"""A node with resolved inputs, the argument of the functions that lower operators.

def relu(o: Applied) -> Value:
    return o.map("max({0}, 0)", o[0])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isamap.graph.graph import Array, Attribute, Graph, Node
from isamap.graph.making import (
    KernelText,
    Making,
    Value,
    broadcast_index,
    broadcast_shape,
    permute_sizes,
    whole,
)
from isamap.graph.model_program import TensorView
from isamap.graph.pending import Pointwise
from isamap.graph.sizes import as_value, is_open, most_of
from isamap.graph.terms import NotTaken, TextTerm, cast, number, wide_type
from isamap.ir import DTYPES, round_to


class NeedsConstant(NotTaken):
    """An exception: a node's code depends on an input that is only known when the model runs."""

    def __init__(self, name: str) -> None:
        super().__init__(f"its input `{name}` decides sizes or steps, and is not known before the model runs")
        self.name = name


@dataclass(frozen=True, slots=True)
class Applied:
    """A node, the version of its operators, its inputs, and the program that it adds to."""

    node: Node
    opset: int
    making: Making
    inputs: tuple[Value | None, ...]
    lower: Callable[[Node, Sequence[Value | None]], Sequence[Value | None]]
    """Lowers another node, of the newest operators, and returns its results."""

    # --- inputs ---

    def __getitem__(self, number: int) -> Value:
        """Return an input that must exist. Raises: NotTaken."""
        found = self.optional(number)
        if found is None:
            raise NotTaken(f"its input {number} is missing")
        return found

    def optional(self, number: int) -> Value | None:
        """Return an input, or None if it is omitted."""
        return self.inputs[number] if number < len(self.inputs) else None

    @property
    def all(self) -> tuple[Value, ...]:
        """The inputs, none of which may be omitted."""
        return tuple(self[n] for n in range(len(self.inputs)))

    def known(self, number: int) -> Array | None:
        """Return the array of a constant input, or None if it is omitted. Raises: NeedsConstant."""
        found = self.optional(number)
        if found is None:
            return None
        if found.known is None:
            raise NeedsConstant(self.node.inputs[number])
        return found.known

    def integers(self, number: int) -> tuple[int, ...] | None:
        """Return the integers in an input, or None if it is omitted."""
        array = self.known(number)
        return tuple(whole(i) for i in array.reshape(-1)) if array is not None else None

    # --- attributes ---

    def has(self, name: str) -> bool:
        """Return whether an attribute is given."""
        return self.node.attributes.get(name) is not None

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute."""
        found = self.node.attributes.get(name)
        return default if found is None else found

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute. Raises: NotTaken."""
        found = self.attribute(name, default)
        if not isinstance(found, int):
            raise NotTaken(f"its attribute `{name}` is not a whole number")
        return found

    def real(self, name: str, default: float) -> float:
        """Return a numeric attribute. Raises: NotTaken."""
        found = self.attribute(name, default)
        if not isinstance(found, int | float):
            raise NotTaken(f"its attribute `{name}` is not a number")
        return float(found)

    def word(self, name: str, default: str) -> str:
        """Return a text attribute. Raises: NotTaken."""
        found = self.attribute(name, default)
        if not isinstance(found, str):
            raise NotTaken(f"its attribute `{name}` is not a text")
        return found

    def list(self, name: str) -> tuple[int, ...] | None:
        """Return an integer list attribute, or None if it is not given. Raises: NotTaken."""
        found = self.attribute(name)
        if found is None:
            return None
        if not isinstance(found, tuple) or not all(isinstance(one, int) for one in tuple_of(found)):
            raise NotTaken(f"its attribute `{name}` is not a list of whole numbers")
        return tuple_of(found)

    def graph(self, name: str) -> Graph:
        """Return a graph attribute. Raises: NotTaken."""
        found = self.attribute(name)
        if not isinstance(found, Graph):
            raise NotTaken(f"its attribute `{name}` is not a graph")
        return found

    def axis(self, axis: int, rank: int) -> int:
        """Return a nonnegative axis number. Raises: NotTaken."""
        if not -rank <= axis < max(rank, 1):
            raise NotTaken(f"the axis {axis} of a tensor of {rank} dimensions")
        return axis % max(rank, 1)

    @property
    def results(self) -> int:
        """The number of requested results, without trailing omitted ones."""
        return max((n + 1 for n, name in enumerate(self.node.outputs) if name), default=0)

    # --- steps ---

    def call(self, op: str, *values: Value | None, **attributes: Attribute) -> Value:
        """Return the first result of another operator."""
        return self.calls(op, values, 1, **attributes)[0]

    def calls(
        self, op: str, values: Sequence[Value | None], results: int, **attributes: Attribute
    ) -> tuple[Value, ...]:
        """Return the first results of another operator."""
        own = {id(value): name for value, name in zip(self.inputs, self.node.inputs, strict=True) if value}
        names = tuple(own.get(id(v), f"v{n}") if v is not None else "" for n, v in enumerate(values))
        node = Node(op, "", self.node.name, names, tuple(f"r{n}" for n in range(results)), attributes)
        return tuple(value for value in self.lower(node, values) if value is not None)

    @property
    def name(self) -> str:
        """The operator's name in the name of a kernel. For torch, it omits the overload."""
        return self.node.op.partition(".")[0].strip("_").lower()

    def text(self, *, is_searched: bool = False) -> KernelText:
        """Return an empty kernel text for this node. `is_searched` marks kernels that are worth a search."""
        return KernelText(self.making, self.name, is_searched=is_searched)

    def map(
        self, template: str, *values: Value, dtype: str = "", inside: str = "", result: str = ""
    ) -> Value:
        """Return an elementwise kernel for a template of `{0}`, `{1}`, …, whose operands are broadcast.

        The operands are computed in the type `inside` (by default the type of the first one, at least f32).
        The text has the type `result` (by default `inside`) and is cast to `dtype` (by default the type of
        the first operand).
        """
        if not values:
            raise NotTaken("it has no inputs")
        first = values[0]
        dtype = dtype or first.dtype
        inside = inside or wide_type(first.dtype)
        return self.formed(
            lambda given: template.format(*(cast(t, inside).text for t in given)),
            values,
            dtype,
            result or inside,
        )

    def formed(
        self, form: Callable[[Sequence[TextTerm]], str], values: Sequence[Value], dtype: str, inside: str
    ) -> Value:
        """Return the result of a function on terms, element by element. Its text has the type `inside`.

        The result lies as most values do that have all its sizes.
        """
        shape = broadcast_shape([v.shape for v in values])
        order = common_order([v for v in values if v.shape == shape], self.making.is_result)
        terms: list[TextTerm] = []
        inputs: list[TensorView] = []
        for value in values:
            literal = scalar_of(value)
            if literal is None:
                inputs.append(self._pass_value(value, len(shape), order))
                literal = TextTerm(f"«{len(inputs) - 1}»", value.dtype)
            terms.append(literal)
        expression = cast(TextTerm(form(terms), inside), dtype).text
        key = tuple(inputs), dtype, shape, order, expression
        if key not in self.making.moved:  # equal operations are one
            result = self.making.fresh(dtype, shape).ordered(order)
            if not result.count:
                return result
            output = self._pass_value(result, len(shape), order)
            self.making.steps.append(Pointwise(self.name, tuple(inputs), output, expression))
            self.making.moved[key] = result, len(self.making.steps) - 1
        return self.making.moved[key][0]

    def _pass_value(self, value: Value, rank: int, order: tuple[int, ...]) -> TensorView:
        """Return a value as a step reads it, with its axes in the given order (default: its own)."""
        more = rank - value.rank if order else 0
        last = last_of((1,) * more + value.shape, order) - more
        is_near = value.tensor and last_of(value.shape, value.order) == last
        if value.is_part or (self.making.views and is_near and value.order != order):
            shape, strides = (1,) * more + value.shape, (0,) * more + value.walk
            return replace(
                self.making.look(value),
                shape=permute_sizes(shape, order),
                strides=permute_sizes(strides, order),
            )
        if not order:
            return self.making.passed(self.making.plain(value))
        whole = value if value.rank == rank else self.making.plain(value)
        whole = self.making.laid(whole.shaped((1,) * (rank - whole.rank) + whole.shape), order)
        return replace(self.making.passed(whole), shape=permute_sizes(whole.shape, order))


def last_of(shape: Sequence[int], order: Sequence[int]) -> int:
    """Return the axis along which neighbours are adjacent in memory, or -1 for a single element."""
    return next((n for n in reversed(order or range(len(shape))) if shape[n] != 1), -1)


def common_order(values: Sequence[Value], is_result: Callable[[Value], bool]) -> tuple[int, ...]:
    """Return the order of axes in memory that most of the values with all axes have.

    An array that is known can lie in any order. A part of a tensor counts as one in the order of its sizes
    if its neighbours lie along its last axis.
    """
    orders: list[tuple[int, ...]] = []
    chosen: set[tuple[int, ...]] = set()
    for value in values:
        if not value.is_part:
            orders += [value.order] if value.tensor else []
            chosen |= {value.order} if value.order and is_result(value) else set()
            continue
        real = [n for n, size in enumerate(value.shape) if size != 1]
        walk = value.walk
        if real and all(walk[n] for n in real):
            order = tuple(sorted(range(value.rank), key=lambda n: -most_of(walk[n])))
            is_plain = last_of(value.shape, order) == real[-1]
            orders.append(() if is_plain else replace(value, strides=None).ordered(order).order)
    return max(orders, key=lambda order: (orders.count(order), order in chosen), default=())


def tuple_of(value: Any) -> tuple[Any, ...]:
    """Return a value as a tuple, whatever its type."""
    return tuple(value)


def element(text: KernelText, value: Value, axes: Sequence[str]) -> TextTerm:
    """Return an element of a broadcast value, or a literal if the value is one known number."""
    literal = scalar_of(value)
    if literal is not None:
        return literal
    operand = text.read(value)
    return operand.term(broadcast_index(value.shape, axes))


def scalar_of(value: Value) -> TextTerm | None:
    """Return a known value of one element as text, or None for others.

    One that was learnt is none, but an array: kernels that differ in it alone are one.
    """
    if value.known is None or value.count != 1 or not value.dtype:
        return None
    known = DTYPES[value.dtype]
    found = value.known.reshape(-1)[0]
    if is_open(found):
        return TextTerm(as_value(found, value.dtype), value.dtype)
    if value.dtype == "bool":
        return cast(number(bool(found)), "bool")
    if known.is_integer:
        return cast(number(int(found)), value.dtype)
    with np.errstate(over="ignore"):
        short = float(round_to(np.asarray(float(f"{float(found):.4g}")), known))
    return cast(number(float(found)), value.dtype) if short == float(found) else None  # nor is NaN


def known_value(array: Array | Sequence[int] | Sequence[float], dtype: str) -> Value:
    """Return a known value of a given type."""
    return Value(dtype, np.shape(array), known=np.asarray(array, DTYPES[dtype].numpy()))
