"""Query nodes of torch.fx: the name, the type, and the layout of the result."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from math import prod
from typing import Any

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
"""Types of torch that kernels compute with, and what they are called here."""

RESHAPES = frozenset(
    f"{name}.default"
    for name in ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "alias", "detach")
)
"""Nodes that name the elements of a tensor anew, in the same order."""


def name_of(node: Any) -> str:
    """Return the name of a node's operation without its namespace: "mul.Tensor"; "" for no operation of torch."""
    if node.op != "call_function":
        return ""
    said = str(node.target)
    return re.sub(r"^(aten|prims|isamap)\.", "", said) if "." in said else ""


def is_view(node: Any) -> bool:
    """Return whether a node gives another look at a tensor that is there."""
    if is_result(node):
        return is_view(node.args[0])
    name = name_of(node)
    return name in RESHAPES or (name != "" and bool(getattr(node.target, "is_view", False)))


def is_result(node: Any) -> bool:
    """Return whether a node takes one of several results of another."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem"


def follow_views(node: Any) -> Any:
    """Return the node whose memory a chain of views looks at."""
    while is_view(node):
        node = node.args[0]
    return node


def first_of(node: Any) -> Any:
    """Return what is known of the result of a node, or of the first of several that are there."""
    value: Any = node.meta["val"]
    return next(v for v in value if v is not None) if type(value) in (tuple, list) else value


@dataclass(frozen=True, slots=True)
class Lying:
    """The memory layout of a tensor. Units: elements."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def layout_of(node: Any) -> Lying:
    """Return how the tensor of a node lies. Raises: NotTaken for one that no kernel reads."""
    value: Any = node.meta.get("val") if hasattr(node, "meta") else None
    torch: Any = import_module("torch")
    if not isinstance(value, torch.Tensor):
        raise NotTaken("an argument that is no tensor")
    if value.layout != torch.strided or value.device.type != "cpu":
        raise NotTaken(f"a tensor that is {value.layout} on {value.device}")
    dtype = TYPES.get(str(value.dtype))
    if dtype is None:
        raise NotTaken(f"the type {value.dtype}")
    sizes = tuple(value.shape)
    if not all(isinstance(size, int) for size in sizes):
        raise NotTaken("a size that is not known before it runs")
    if prod(sizes) == 0:
        raise NotTaken("a tensor without elements")
    strides = tuple(value.stride())
    if _overlaps(sizes, strides):
        raise NotTaken("a tensor whose elements overlap")
    return Lying(dtype, sizes, strides)


def _overlaps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return whether elements may lie in one place otherwise than by being repeated along a whole axis."""
    reach = 0
    for stride, size in sorted((t, s) for t, s in zip(strides, sizes, strict=True) if s > 1 and t > 0):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def promoted(terms: list[Any]) -> str:
    """Return the type to which torch takes terms that it compares."""
    torch: Any = import_module("torch")
    values = [term.meta["val"] if hasattr(term, "meta") else term for term in terms]
    if len(values) == 1:
        return TYPES[str(values[0].dtype)]
    return TYPES[str(reduce(torch.result_type, values[:2]))]


@contextmanager
def outside_tracing() -> Generator[None]:
    """Perform operations of torch as a call does: while torch traces, tensors have no content."""
    names = "torch", "torch.utils._python_dispatch", "torch._dispatch.python"
    torch, modes, dispatcher = (import_module(name) for name in names)
    with modes._disable_current_modes(), dispatcher.no_python_dispatcher(), torch.no_grad():
        yield
