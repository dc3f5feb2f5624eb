"""A model as read from a file: graphs of nodes, with names for the values on their edges.

    Graph("mlp", (Node("Gemm", "", "fc1", ("x", "w", "b"), ("h",), {"transB": 1}), …), …)

Nothing here knows the format of files. Nothing here is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from isamap.graph.sizes import may_be

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """An input or a result: its name, its type, and its sizes, with a name for each open one.

    The type is "" if no kernel computes with it, and `said` is its name in the file. If the rank is unknown,
    the sizes are None. Without strides, it is dense. Units: elements.
    """

    name: str
    dtype: str
    sizes: tuple[int | str, ...] | None
    said: str = ""
    strides: tuple[int, ...] = ()

    def contradicts(self, dtype: str, shape: tuple[int, ...] | None = None) -> str:
        """Return text that says how a type and sizes contradict the signature, or "" if they agree."""
        if self.said not in ("", "no type") and (self.dtype or self.said) != dtype and dtype:
            return f"it is said to be {self.dtype or self.said}, and is {dtype}"
        if shape is None or self.sizes is None:
            return ""
        if len(self.sizes) != len(shape) or any(
            isinstance(said, int) and not may_be(size, said)
            for said, size in zip(self.sizes, shape, strict=True)
        ):
            return f"it is said to have the sizes {list(self.sizes)}, and has {list(shape)}"
        return ""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operation: inputs and results by name, "" for omitted ones."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]

    @property
    def called(self) -> str:
        """The name under which users find the node."""
        return self.name or next((f"the node that gives {name}" for name in self.outputs if name), "a node")


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in topological order. Constants by name.

    `inside` has the file's declarations of values that are neither inputs nor results.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[Signature, ...]
    outputs: tuple[Signature, ...]
    constants: Mapping[str, Array]
    inside: tuple[Signature, ...] = ()


@dataclass(frozen=True, slots=True)
class AttributeReference:
    """In a function: a reference to an attribute of the calling node."""

    name: str


Attribute = (
    int
    | float
    | str
    | Array
    | Graph
    | AttributeReference
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple[str, ...]
    | None
)
"""The value of an attribute; None for one of a kind that no operator here takes."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphFunction:
    """An operation that the model defines by a graph of others. `opsets` are the versions it uses."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    opsets: Mapping[str, int]
    defaults: Mapping[str, Attribute]


class Typed(Protocol):
    """A value with its type and sizes. The type is "" if kernels cannot compute with it."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


class Definitions(Protocol):
    """A standard that defines operators: it checks nodes, expands them into others, and evaluates them."""

    def check_node(self, node: Node, inputs: Sequence[Typed | None], opset: int) -> None:
        """Check a node against the definition of its operator. Raises: NotTaken."""
        ...

    def function_of(self, node: Node, inputs: Sequence[Typed | None], opset: int) -> GraphFunction | None:
        """Return the function that defines a node's operator, or None."""
        ...

    def fold(
        self, node: Node, inputs: Sequence[Array | None], opset: int, room: FoldingBudget
    ) -> list[Array] | None:
        """Return the results of a node for known inputs, or None if a step must compute them."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A graph, the versions of its operator sets, and the model's own functions.

    `definitions` is the operators' standard, if it is installed; with `is_foreign`, each node is compared
    with it. With `has_views`, operators that only rename elements are read in place.
    """

    graph: Graph
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], GraphFunction]
    definitions: Definitions | None = None
    is_foreign: bool = False
    has_views: bool = False


LEAST_BYTES = 1 << 26
LEAST_WORK = 1 << 20
WORK_OF_NODE = 50


@dataclass(slots=True)
class FoldingBudget:
    """The amount of constant folding that is still allowed. It is proportional to the model's size."""

    size_bytes: int
    work: int

    @staticmethod
    def of(model: Model) -> FoldingBudget:
        """Return the budget of a model, with room for some converted and transposed copies of its weights."""
        size = sum(array.nbytes for array in model.graph.constants.values())
        nodes = sum(1 for _ in _nodes(model.graph))
        return FoldingBudget(LEAST_BYTES + 16 * size, LEAST_WORK + WORK_OF_NODE * nodes + size // 16)


def _nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from _nodes(value)


def names_read(graph: Graph) -> Iterator[str]:
    """Yield the names that a graph and its nested graphs read and return."""
    yield from (port.name for port in graph.outputs)
    for node in graph.nodes:
        yield from node.inputs
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from names_read(value)
