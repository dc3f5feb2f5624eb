"""Calls of torch operations with named arguments, and the graph operators that compute them.

c("Add", c.x, c.number(1))      the name of the sum of the first argument and 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from isamap.graph.terms import NotTaken, wide_type
from isamap.graph.types import NUMBERS
from isamap.ir import DTYPES
from isamap.torch.fx_nodes import TYPES, OpenTensor, first_of, is_result, traced_value

OWN = "isamap"
"""The domain of operators that ONNX does not have."""


def type_of(value: Any) -> str:
    """Return the type of a tensor's elements. Raises: NotTaken for an unsupported type."""
    torch: Any = import_module("torch")
    value = value.meta.get("val") if hasattr(value, "meta") else value
    if not isinstance(value, torch.Tensor | OpenTensor) or value.layout != torch.strided:
        raise NotTaken("an argument that is not a dense tensor")
    if str(value.dtype) not in TYPES:
        raise NotTaken(f"the type {value.dtype}")
    return TYPES[str(value.dtype)]


class AtenCall:
    """A call under translation: its arguments by name, and the operators that compute its results.

    `dtype` and `shape` are those of the first result. A row that computes in another type sets `dtype` to it.
    """

    def __init__(self, to: Any, node: Any) -> None:
        self.to, self.node = to, node
        arguments = node.target._schema.arguments
        given = {**dict(zip((a.name for a in arguments), node.args, strict=False)), **node.kwargs}
        self.given = {a.name: given.get(a.name, a.default_value) for a in arguments}
        self.terms = [given[a.name] for a in arguments if a.name in given]
        self.dtype, self.shape = type_of(first_of(node)), tuple(first_of(node).shape)

    def __getitem__(self, name: str) -> Any:
        """Return an argument, or its default."""
        return self.given[name]

    def __call__(self, op: str, *inputs: str, results: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Add an operator. Return the name of its result, or a tuple of names."""
        names = tuple(f"{self.node.name}:{len(self.to.nodes)}.{n}" for n in range(results))
        self.to.put(self.node, op, *inputs, of=self.node.name, results=names, domain=domain, **attributes)
        return names if results > 1 else names[0]

    # --- arguments ---

    @property
    def x(self) -> str:
        """The first argument, converted to the type in which the call is computed."""
        return self.term(self.terms[0])

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the first argument."""
        return tuple(self.terms[0].meta["val"].shape)

    def term(self, value: Any, dtype: str = "") -> str:
        """Return a tensor or a number in a type, by default that of the call. Raises: NotTaken."""
        dtype = dtype or self.dtype
        if not hasattr(value, "meta"):
            return self.number(value, dtype)
        return self.cast(self.to.name(value), type_of(value), dtype)

    def number(self, value: Any, dtype: str = "") -> str:
        """Return a number in a type. Floats are rounded, and integers must be exact. Raises: NotTaken."""
        known = DTYPES[dtype or self.dtype]
        if not isinstance(value, bool | int | float):
            raise NotTaken(f"the argument {value}, which is not a number")
        if known.is_integer and not (math.isfinite(value) and known.low <= int(value) <= known.high):
            raise NotTaken(f"the number {value} in {known.name}")
        with np.errstate(over="ignore"):
            return self.to.constant(np.asarray(value).astype(known.numpy()))

    def rounded(self, value: Any, dtype: str) -> str:
        """Return a number rounded to the type of the call, then converted to another type."""
        return self.cast(self.number(value), self.dtype, dtype)

    def numbers(self, values: Any, dtype: str = "i64") -> str:
        """Return the name of a constant that holds these numbers in a given type."""
        return self.to.constant(np.asarray(values).astype(DTYPES[dtype].numpy()))

    def parameter(self, value: Any, dtype: str) -> str:
        """Return a number or tensor in a type, as a constant if it is known. Raises: NotTaken."""
        if not hasattr(value, "meta"):
            return self.number(value, dtype)
        array, is_one = self.to.array(value), traced_value(value).numel() == 1
        if array is not None:
            return self.numbers(array.reshape(()) if is_one else array, dtype)
        return self.shaped(self.term(value, dtype)) if is_one else self.term(value, dtype)

    def cast(self, name: str, before: str, dtype: str) -> str:
        """Return a value converted to another type."""
        return name if before == dtype else self("Cast", name, to=NUMBERS[dtype])

    def axis(self, name: str = "dim", rank: int | None = None) -> int:
        """Return a nonnegative axis number."""
        return int(self[name]) % max(len(self.sizes) if rank is None else rank, 1)

    def axes(self, name: str = "dim") -> list[int]:
        """Return nonnegative axis numbers in order, all axes if none is given."""
        value, rank = self[name], len(self.sizes)
        if value is None or value == []:
            return list(range(rank))
        return (
            sorted(axis % max(rank, 1) for axis in ([value] if isinstance(value, int) else value))
            if rank
            else []
        )

    def wants(self, number: int) -> bool:
        """Return whether a later node reads this result of the call."""
        return any(is_result(user) and user.args[1] == number for user in self.node.users)

    # --- operators ---

    def inlined(self, module: Any, given: Sequence[Any]) -> Any:
        """Return the result names of a graph that is inlined with these nodes as inputs. Raises: NotTaken."""
        return self.to.inlined(module, given, self.node)

    def shaped(self, name: str, *sizes: int) -> str:
        """Return a value with the same elements in another shape."""
        return self("Reshape", name, self.to.integers(*sizes), allowzero=1)

    def expanded(self, name: str, *sizes: int) -> str:
        """Return a value broadcast to larger sizes."""
        return self("Expand", name, self.to.integers(*sizes))

    def part(self, name: str, axis: int, first: int, end: int, step: int = 1) -> str:
        """Return a slice of a value along an axis."""
        return self("Slice", name, *(self.to.integers(n) for n in (first, end, axis, step)))

    def where(self, chosen: str, one: str, other: str) -> str:
        return self("Where", chosen, one, other)

    def scaled(self, name: str, factor: Any) -> str:
        """Return a value times a number."""
        return name if factor == 1 else self("Mul", name, self.number(factor))

    def reduced(self, op: str, name: str, axes: Sequence[int], *, keeps: bool = False) -> str:
        """Return a value reduced over axes. Without axes, it is the elementwise operator."""
        return self(op, name, self.to.integers(*axes), keepdims=int(keeps), noop_with_empty_axes=1)


Row = Callable[[AtenCall], "str | tuple[str, ...]"]
"""Adds the operators of a call; returns the names of its results, "" for one that none gives. Raises: NotTaken."""


def decompose_call(c: AtenCall) -> str | tuple[str, ...]:
    """Return the results computed by torch's decomposition of a call. Raises: NotTaken."""
    expanded = import_module("torch._decomp").decomposition_table.get(c.node.target)
    if expanded is None:
        raise NotTaken("torch has no decomposition of these arguments")
    return decompose_by(c, expanded)


def decompose_by(c: AtenCall, expanded: Callable[..., Any]) -> str | tuple[str, ...]:
    """Return the results computed by a function on tensors with the arguments of a call. Raises: NotTaken."""
    torch: Any = import_module("torch")
    fx: Any = import_module("torch.fx.experimental.proxy_tensor")
    nodes, values = c.node.all_input_nodes, [node.meta["val"] for node in c.node.all_input_nodes]

    def call(*tensors: Any) -> Any:
        given = dict(zip(nodes, tensors, strict=True))
        args, kwargs = torch.fx.node.map_arg((c.node.args, dict(c.node.kwargs)), given.__getitem__)
        results: Any = expanded(
            *(list(a) if type(a).__name__ == "immutable_list" else a for a in args), **kwargs
        )
        if results is NotImplemented:
            raise NotTaken("torch's decomposition does not take these arguments")
        return (*results,) if isinstance(results, tuple) else results  # a named tuple would be a call

    if isinstance(first_of(c.node), OpenTensor):
        raise NotTaken("a decomposition for open sizes")
    mode: Any = first_of(c.node).fake_mode
    with mode, torch.no_grad():
        module = fx.make_fx(call)(*values)
    return c.inlined(module, nodes)


def in_wide(row: Callable[[AtenCall], str], dtype: str = "") -> Row:
    """Return a row that computes in f32, or in `dtype`, if the result has a narrower float type."""

    def widen(c: AtenCall) -> str:
        result = c.dtype
        c.dtype = dtype or wide_type(result)
        return c.cast(row(c), c.dtype, result)

    return widen


def name_rows(*rows: tuple[Row, str]) -> dict[str, Row]:
    """Return rows by the names of operations. The default overload is "default"."""
    return {name if "." in name else f"{name}.default": row for row, names in rows for name in names.split()}
