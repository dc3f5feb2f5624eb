"""Build the statements of a kernel from anchors, and the expressions for elements of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from isamap.graph.terms import wide
from isamap.torch.node_types import TYPES, first_of

Axes = Sequence[str]
"""A name for each dimension of a result, "0" where it has one element; or an expression of such names."""


class Writer(Protocol):
    """The kernel under construction, to which anchors write."""

    def read(self, node: Any, index: Sequence[str], *, padded: str = "") -> str:
        """Return an element of a tensor in the type that torch computes in, with what it is outside of it."""
        ...

    def temporary(self, dtype: str, sizes: Sequence[int]) -> str:
        """Return the name of a new buffer."""
        ...

    def array(self, node: Any, axis: int, parts: int) -> str:
        """Return the name of an array that has a tensor's elements in the type that torch computes in.

        One of its axes is cut into so many parts; several are an axis of their own in front of it.
        """
        ...

    def further(self, result: int, element: str) -> None:
        """Says where a result of several is, in its own axes."""
        ...

    def loop(self, axes: Mapping[str, int], *statements: str) -> None:
        """Append a loop nest with its statements."""
        ...


Filled = Callable[[Any, Writer, Axes, str], None]
"""Statements that fill an element: of a node, to a writer, at its axes, named so."""
Several = Callable[[Any, Writer], None]
"""Statements that compute several results of other shapes: of a node, to a writer."""


def shape_of(node: Any) -> tuple[int, ...]:
    """Return the shape of a result, or of the first of several."""
    return tuple(first_of(node).shape)


def own_axes(node: Any) -> dict[str, int]:
    """Return the loops over a result."""
    return {f"d{n}": size for n, size in enumerate(shape_of(node)) if size != 1}


def wide_of(node: Any) -> str:
    """Return the type in which a node is computed."""
    return wide(TYPES[str(first_of(node).dtype)])
