"""A model as a program: kernels and moves in order, and the pieces of memory between them.

    Call("relu_3f2a", {"a0": Passed("x", "f32", (2, 3)), "y0": Passed("t0", "f32", (2, 3))})
    Move("gather", …)

A tensor is a piece of memory by name; steps look at it with a type and sizes of their own, so that reshaping
is no step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from isamap.graph.graph import Array
from isamap.graph.sizes import OpenSize


@dataclass(frozen=True, slots=True)
class Passed:
    """A tensor as a step sees it: row-major, or with such strides from an offset on. Units: elements."""

    tensor: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    offset: int = 0

    @property
    def is_part(self) -> bool:
        """Return whether a step sees the tensor otherwise than as a whole in its order."""
        return self.strides is not None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a kernel: the tensors that it reads and writes, by operand names, open sizes by its parameters.

    Where it `is_searched`, a schedule of it is worth a search.
    """

    kernel: str
    reads: Mapping[str, Passed]
    writes: Mapping[str, Passed]
    is_searched: bool = False
    sizes: Mapping[str, OpenSize] = field(default_factory=dict[str, OpenSize])


@dataclass(frozen=True, slots=True)
class Move:
    """A function of the library of moves, whose indices are data: what it reads and writes, and numbers."""

    function: str
    reads: tuple[Passed, ...]
    writes: tuple[Passed, ...]
    numbers: tuple[int, ...]


Step = Call | Move


@dataclass(frozen=True, slots=True)
class Port:
    """An input or a result of the model: what the model calls it, and the tensor that it is."""

    name: str
    passed: Passed


@dataclass(frozen=True, slots=True)
class Program:
    """Steps over tensors. What is neither an input, a result nor a constant lies in the workspace.

    `sizes` are those that each call gives.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: Mapping[str, Array]
    kernels: Mapping[str, str]
    steps: tuple[Step, ...]
    sizes: tuple[OpenSize, ...] = ()


def reads_of(step: Step) -> Iterator[Passed]:
    """Yield the arrays that a step reads."""
    yield from step.reads.values() if isinstance(step, Call) else step.reads


def writes_of(step: Step) -> Iterator[Passed]:
    """Yield the arrays that a step writes."""
    yield from step.writes.values() if isinstance(step, Call) else step.writes
