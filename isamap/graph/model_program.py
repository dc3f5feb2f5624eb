"""A model as a program: kernels and moves in order, and the tensors between them.

    KernelCall("relu_3f2a", {"a0": TensorView("x", "f32", (2, 3)), "y0": TensorView("t0", "f32", (2, 3))})
    Move("gather", …)
    Control("if", "mlp_if0", (then, else_), …)

A tensor is a named piece of memory. Each step accesses it with its own type and sizes, so reshaping needs no
step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from isamap.graph.graph import Array
from isamap.graph.sizes import OpenSize


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor as a step views it: row-major, or with strides from an offset on. Units: elements.

    `band` says of a constant mask of so many rows and columns that it is true where `low <= column - row <= high`.
    """

    tensor: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    offset: int = 0
    band: tuple[int, int, int, int] | None = None

    @property
    def is_part(self) -> bool:
        """Return whether a step views the tensor other than as a whole in row-major order."""
        return self.strides is not None


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call of a kernel: the tensors that it reads and writes, by operand, and the open sizes by parameter.

    Where it `is_searched`, a schedule of it is worth a search.
    """

    kernel: str
    reads: Mapping[str, TensorView]
    writes: Mapping[str, TensorView]
    is_searched: bool = False
    sizes: Mapping[str, OpenSize] = field(default_factory=dict[str, OpenSize])


@dataclass(frozen=True, slots=True)
class Move:
    """A call of the library of moves, for data-dependent indices: its operands and numbers."""

    function: str
    reads: tuple[TensorView, ...]
    writes: tuple[TensorView, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BodyInput:
    """The source of a body's input: a tensor that the step reads, or a value that each iteration changes.

    A "row" is a slice of a tensor, from the first one on, or from the last one if it `is_backward`.
    """

    kind: Literal["read", "trip", "state", "row"]
    number: int = 0
    is_backward: bool = False


@dataclass(frozen=True, slots=True)
class Control:
    """A step that calls programs (bodies), depending on data at run time.

    "if" reads a condition first, and calls the first body if it is true, else the second. "loop" calls its
    body `trips` times, or as often as the tensor at `trips_at` says, while the condition at `goes_at` and the
    first result of a body that `has_condition` are true. The other results are the states, which start as the
    tensors at `starts`, and rows of the step's other results, from the last one on if `backward`.

    `counted` are writes, by number, that are sizes of other results: by body, the size in the called body,
    or, for a loop, the number of iterations.
    """

    function: Literal["if", "loop"]
    name: str
    bodies: tuple[ModelProgram, ...]
    given: tuple[tuple[BodyInput, ...], ...]
    reads: tuple[TensorView, ...]
    writes: tuple[TensorView, ...]
    trips: int = 0
    trips_at: int | None = None
    goes_at: int | None = None
    has_condition: bool = True
    starts: tuple[int, ...] = ()
    backward: tuple[bool, ...] = ()
    counted: tuple[tuple[int, tuple[int, ...]], ...] = ()


Direct = Move | Control
"""Steps that are no kernels."""
Step = KernelCall | Move | Control


def called_by(step: Step) -> str:
    """Return the name of the kernel or bodies on which workspace and cost of a step depend."""
    return step.kernel if isinstance(step, KernelCall) else step.name if isinstance(step, Control) else ""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or a result of the model: its name in the model, and its tensor."""

    name: str
    passed: TensorView


@dataclass(frozen=True, slots=True)
class ModelProgram:
    """Steps over tensors. Tensors other than inputs, results and constants lie in the workspace.

    `sizes` are those that each call gives, `counts` those that its own steps determine.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: Mapping[str, Array]
    kernels: Mapping[str, str]
    steps: tuple[Step, ...]
    sizes: tuple[OpenSize, ...] = ()
    counts: tuple[OpenSize, ...] = ()


def reads_of(step: Step) -> Iterator[TensorView]:
    """Yield the arrays that a step reads."""
    yield from step.reads.values() if isinstance(step, KernelCall) else step.reads


def writes_of(step: Step) -> Iterator[TensorView]:
    """Yield the arrays that a step writes."""
    yield from step.writes.values() if isinstance(step, KernelCall) else step.writes


# --- text -----------------------------------------------------------------------------------------------


def print_model(program: ModelProgram) -> str:
    """Return a program as text: its tensors, one line for each step, and the kernels that the steps call."""
    return "\n\n".join(["\n".join(_lines(program, "")), *(text.strip() for text in program.kernels.values())])


def _lines(program: ModelProgram, indent: str) -> Iterator[str]:
    yield f"{indent}model {program.name}"
    for word, ports in (("in", program.inputs), ("out", program.outputs)):
        yield from (f"{indent}  {word} {port.name} = {_view(port.passed)}" for port in ports)
    for name, array in program.constants.items():
        yield f"{indent}  constant {name}: {array.nbytes} bytes"
    for step in program.steps:
        if isinstance(step, KernelCall):
            reads, writes = (
                ", ".join(f"{name} = {_view(v)}" for name, v in passed.items())
                for passed in (step.reads, step.writes)
            )
            yield f"{indent}  {step.kernel}({reads}) -> {writes}"
            continue
        reads, writes = (", ".join(map(_view, passed)) for passed in (step.reads, step.writes))
        yield f"{indent}  {step.function}({reads}) -> {writes}"
        for body in step.bodies if isinstance(step, Control) else ():
            yield from _lines(body, f"{indent}    ")
            yield from (
                f"{indent}      {line}" for text in body.kernels.values() for line in text.splitlines()
            )


def _view(passed: TensorView) -> str:
    shape = f"{passed.tensor}: {passed.dtype}[{', '.join(map(str, passed.shape))}]"
    return f"{shape} from {passed.offset} by {passed.strides}" if passed.is_part else shape
