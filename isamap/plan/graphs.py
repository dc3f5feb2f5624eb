"""A graph of operations, and the plan that partitions it into kernels: data only.

    GraphNode("add", "pointwise", ("x", "y"), ("t",), inlined=frozenset({"x"}))
    KernelGroup(root=3, inner=(1, 2), reads=("w",), cost_ns=410.0)      one kernel: nodes 1, 2 and 3
    GraphPlan(groups, near=("t",), …)                             kernels in their order

Only the results of a group's root are written to memory. A node inside of several groups is computed in each,
so no choice of groups has a cycle: each group reads only results of earlier nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from isamap.source import Diagnostic, dataclass

Kind = Literal["pointwise", "kernel", "move"]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An operation with the tensors that it reads and writes.

    Tensors in `inlined` may be computed inside it, if an elementwise operation produces them. It may be fused
    after the kernels that produce the tensors in `behind`.
    """

    name: str
    kind: Kind
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    inlined: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """Nodes that one kernel computes, of which the root's results are written.

    Units: nanoseconds, if all its inputs are in the nearest cache with room for them. `workspace_bytes` is
    the kernel's workspace while it runs, `passing_bytes` the size of its weights and inputs of the model.
    """

    root: int
    inner: tuple[int, ...]
    reads: tuple[str, ...]
    cost_ns: float
    workspace_bytes: int = 0
    passing_bytes: int = 0


@dataclass(frozen=True, slots=True)
class GraphCache:
    """The cache whose contents a plan chooses. Units: bytes, nanoseconds per byte from beyond it."""

    capacity_bytes: int
    far_ns_per_byte: float


@dataclass(frozen=True)
class GraphProblem:
    """Nodes in topological order, groups to choose from, and tensor sizes.

    `results` have places outside of the workspace. Units: bytes.
    """

    nodes: tuple[GraphNode, ...]
    sizes: Mapping[str, int]
    groups: tuple[KernelGroup, ...]
    results: frozenset[str]
    near: GraphCache

    @cached_property
    def makers(self) -> dict[str, int]:
        """The node that writes each tensor."""
        return {tensor: n for n, node in enumerate(self.nodes) for tensor in node.writes}

    @cached_property
    def by_root(self) -> dict[int, tuple[int, ...]]:
        """The numbers of the groups of each root."""
        found: dict[int, list[int]] = {}
        for number, group in enumerate(self.groups):
            found.setdefault(group.root, []).append(number)
        return {root: tuple(numbers) for root, numbers in found.items()}

    def room_bytes(self, tensor: str) -> int:
        """Return the workspace bytes that a tensor needs."""
        return 0 if tensor in self.results else self.sizes[tensor]


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """The order of groups, and the tensors that stay in the near cache from their writer to their last reader.

    Units: nanoseconds and bytes of the model; no plan costs less than `bound_ns`. `warnings` report failures
    of the solver, after which the best known plan is returned.
    """

    order: tuple[int, ...]
    near: frozenset[str]
    cost_ns: float
    peak_bytes: int
    bound_ns: float = 0.0
    method: str = ""
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def gap(self) -> float:
        """The fraction of the cost above the proven lower bound: 0 to 1."""
        return max(0.0, 1 - self.bound_ns / self.cost_ns) if self.cost_ns else 0.0
