"""Query torch.fx nodes: the name, the type, and the layout of the result."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from math import prod
from typing import Any, cast

from isamap.graph.sizes import OpenSizes, index_of, is_open, most_of, opened_sizes
from isamap.graph.terms import NotTaken

TYPES = {
    "torch.float32": "f32",
    "torch.float64": "f64",
    "torch.bfloat16": "bf16",
    "torch.float16": "f16",
    "torch.int64": "i64",
    "torch.int32": "i32",
    "torch.int16": "i16",
    "torch.int8": "i8",
    "torch.uint8": "u8",
    "torch.bool": "bool",
}
"""Types of torch with which kernels compute, and their names here."""

RESHAPES = frozenset(
    f"{name}.default"
    for name in ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "alias", "detach")
)
"""Nodes that name the elements of a tensor anew, in the same order."""


def name_of(node: Any) -> str:
    """Return a node's operation without its namespace: "mul.Tensor", or "" if it is no torch operation."""
    if node.op != "call_function":
        return ""
    said = str(node.target)
    return re.sub(r"^(aten|prims|isamap)\.", "", said) if "." in said else ""


def is_dequantised(node: Any) -> bool:
    """Return whether a node dequantises integers that a product can read directly."""
    return name_of(node).startswith("quantized_decomposed.dequantize")


def is_view(node: Any) -> bool:
    """Return whether a node returns a view of an existing tensor."""
    if is_result(node):
        return is_view(node.args[0])
    name = name_of(node)
    return name in RESHAPES or (name != "" and bool(getattr(node.target, "is_view", False)))


def is_result(node: Any) -> bool:
    """Return whether a node selects one of several results of another."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem"


def follow_views(node: Any) -> Any:
    """Return the node whose memory a chain of views shares."""
    while is_view(node):
        node = node.args[0]
    return node


def first_of(node: Any) -> Any:
    """Return the traced result of a node, or the first one of several."""
    value: Any = node.meta["val"]
    return next(v for v in value if v is not None) if type(value) in (tuple, list) else value


@dataclass(frozen=True, slots=True)
class FxLayout:
    """The memory layout of a tensor. Units: elements."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpenTensor:
    """A tensor of a traced graph whose sizes and strides are expressions of open sizes. Units: elements."""

    traced: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "layout", "device", "ndim", "dim", "is_contiguous"):
            return getattr(self.traced, name)
        raise AttributeError(name)

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def numel(self) -> int:
        return prod(self.shape)


LEAST_SIZE = 2
"""Torch traces graphs for the sizes 0 and 1 by themselves."""
LEAST_RANGE = 64
"""A range of sizes reaches to four times the size that asked for it, and at least to this one."""


def open_graph(graph: Any, given: Sequence[Any]) -> OpenSizes:
    """Set the nodes' sizes as expressions of a call's sizes. Raises: NotTaken."""
    torch: Any = import_module("torch")
    sympy: Any = import_module("sympy")
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    found = {
        node.meta["val"].node.expr: value
        for node, value in zip(inputs, given, strict=True)
        if isinstance(node.meta["val"], torch.SymInt)
    }
    if not all(symbol.is_Symbol for symbol in found):
        raise NotTaken("a size that the inputs do not give by itself")
    if not found or min(found.values()) < LEAST_SIZE:
        raise NotTaken(f"a size below {LEAST_SIZE}")
    ranges = {
        str(symbol): (LEAST_SIZE, max(LEAST_RANGE, 1 << (4 * value - 1).bit_length()))
        for symbol, value in found.items()
    }
    opened = OpenSizes(opened_sizes(ranges))
    sizes = [opened.size(str(symbol)) for symbol in found]
    floordiv, mod = (getattr(import_module("operator"), name) for name in ("floordiv", "mod"))
    spelled: list[dict[str, Any]] = [
        {"FloorDiv": floordiv, "CleanDiv": floordiv, "Mod": mod, "PythonMod": mod}
    ]

    def number(value: Any) -> int:
        if isinstance(value, int):
            return value
        expression = value.node.expr
        names = {
            type(call).__name__ for call in expression.atoms(import_module("sympy.core.function").Application)
        }
        is_whole = all(n.is_Integer for n in expression.atoms(sympy.Number)) and all(
            power.exp.is_Integer and power.exp > 0 for power in expression.atoms(sympy.Pow)
        )
        if not is_whole or not names <= spelled[0].keys() or not expression.free_symbols <= found.keys():
            raise NotTaken(f"the size {expression}")
        return sympy.lambdify([*found], expression, modules=spelled)(*sizes)

    def opened_value(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return [opened_value(v) for v in cast("Sequence[Any]", value)]
        if not isinstance(value, torch.Tensor):
            return value
        return OpenTensor(value, tuple(map(number, value.shape)), tuple(map(number, value.stride())))

    for node in graph.nodes:
        if "val" in node.meta:
            if isinstance(node.meta["val"], torch.SymInt):
                node.meta["size"] = number(node.meta["val"])
            else:
                node.meta["val"] = opened_value(node.meta["val"])
    return opened


def layout_of(node: Any) -> FxLayout:
    """Return the layout of a node's tensor. Raises: NotTaken for one that no kernel reads."""
    value: Any = node.meta.get("val") if hasattr(node, "meta") else None
    torch: Any = import_module("torch")
    if not isinstance(value, torch.Tensor | OpenTensor):
        raise NotTaken("an argument that is not a tensor")
    if value.layout != torch.strided:
        raise NotTaken(f"a tensor that is {value.layout}")
    dtype = TYPES.get(str(value.dtype))
    if dtype is None:
        raise NotTaken(f"the type {value.dtype}")
    sizes = tuple(value.shape)
    if not all(isinstance(size, int) or is_open(size) for size in sizes):
        raise NotTaken("a size that is not known before it runs")
    if prod(sizes) == 0:
        raise NotTaken("a tensor without elements")
    strides = tuple(value.stride())
    if _overlaps(sizes, strides):
        raise NotTaken("a tensor whose elements overlap")
    return FxLayout(dtype, sizes, strides)


def _overlaps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return whether elements may share a place other than along axes with stride 0."""
    reach = 0
    if any(map(is_open, (*sizes, *strides))):
        return not _is_dense(sizes, strides)
    for stride, size in sorted((t, s) for t, s in zip(strides, sizes, strict=True) if s > 1 and t > 0):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def _is_dense(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return whether a tensor with open sizes is dense up to a permutation and broadcast axes."""
    reach = index_of(1)
    real = [(t, s) for t, s in zip(strides, sizes, strict=True) if is_open(s) or s != 1]
    for stride, size in sorted(real, key=lambda axis: (most_of(axis[0]), most_of(axis[1]))):
        if is_open(stride) or stride != 0:
            if index_of(stride) != reach:
                return False
            reach = reach * index_of(size)
    return True


def traced_value(term: Any) -> Any:
    """Return a node's tensor in the trace, or a number."""
    value = term.meta["val"] if hasattr(term, "meta") else term
    return value.traced if isinstance(value, OpenTensor) else value


def promoted_type(terms: list[Any]) -> str:
    """Return the type to which torch promotes terms of a comparison."""
    torch: Any = import_module("torch")
    values = [traced_value(term) for term in terms]
    if len(values) == 1:
        return TYPES[str(values[0].dtype)]
    return TYPES[str(reduce(torch.result_type, values[:2]))]


@contextmanager
def outside_tracing() -> Generator[None]:
    """Perform torch operations as in a normal call. During tracing, tensors have no content."""
    names = "torch", "torch.utils._python_dispatch", "torch._dispatch.python"
    torch, modes, dispatcher = (import_module(name) for name in names)
    with modes._disable_current_modes(), dispatcher.no_python_dispatcher(), torch.no_grad():
        yield
