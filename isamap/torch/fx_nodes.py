"""Query nodes of torch.fx: the name, the type, and the layout of the result."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from math import prod
from typing import Any

from isamap.graph.terms import NotTaken
from isamap.torch.anchors import ANCHORS, SEVERAL
from isamap.torch.node_types import TYPES
from isamap.torch.pointwise import is_pointwise, terms_of

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


def is_anchor(node: Any) -> bool:
    """Return whether a node comes first in a kernel."""
    return name_of(node) in ANCHORS or name_of(node) in SEVERAL


def seen_through(node: Any) -> Any:
    """Return the node whose memory a chain of views looks at."""
    while is_view(node):
        node = node.args[0]
    return node


def base_of(node: Any) -> Any:
    """Return the node whose elements, in the same order, a chain of reshapes names."""
    while name_of(node) in RESHAPES:
        node = node.args[0]
    return node


@dataclass(frozen=True, slots=True)
class Lying:
    """The memory layout of a tensor. Units: elements."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def lying(node: Any) -> Lying:
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


def refusal(node: Any) -> str | None:
    """Why no kernel performs a node; None where one may."""
    name = name_of(node)
    try:
        if is_pointwise(name):
            terms = terms_of(node, name)
            if not any(hasattr(term, "meta") for term in terms):
                raise NotTaken("a number where a tensor is expected")
            for term in terms:
                if hasattr(term, "meta"):
                    lying(term)
                elif not isinstance(term, int | float):
                    raise NotTaken(f"the argument {term}")
            lying(node)
        elif is_anchor(node):
            for term in node.all_input_nodes:
                lying(term)
            for result in _results(node):
                lying(result)
        else:
            return "it has no kernel here"
    except NotTaken as reason:
        return str(reason)
    return None


def _results(node: Any) -> list[Any]:
    """Return the node, or what takes its results."""
    return (
        [node] if not isinstance(node.meta["val"], tuple | list) else [u for u in node.users if is_result(u)]
    )


def promoted(terms: list[Any]) -> str:
    """Return the type to which torch takes terms that it compares."""
    torch: Any = import_module("torch")
    values = [term.meta["val"] if hasattr(term, "meta") else term for term in terms]
    if len(values) == 1:
        return TYPES[str(values[0].dtype)]
    return TYPES[str(reduce(torch.result_type, values[:2]))]
