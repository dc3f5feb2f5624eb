"""A model as a program: kernels and moves in order, and the tensors between them.

    KernelCall("relu_3f2a", {"a0": TensorView("x", "f32", (2, 3)), "y0": TensorView("t0", "f32", (2, 3))})
    Move("gather", …)
    Control("if", "mlp_if0", (then, else_), …)

A tensor is a named piece of memory. Each step accesses it with its own type and sizes, so reshaping needs no
step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from isamap.graph.graph import Array
from isamap.graph.sizes import OpenSize, most_of
from isamap.graph.types import size_bytes


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

    Each call gives the `sizes`. Its own steps determine the `counts`.
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


# --- moves ----------------------------------------------------------------------------------------------

# Check the numbers of a move against its tensors before `isamap_moves.c` receives them.
#
# The C code checks every index that is data, but relies on its other numbers. Therefore these are checked
# here, for models and for graph files.


Numbers = Sequence[int]
MOST_AXES = 64
"""Of a tensor; numpy has no more either."""
_TYPE_BYTES = {1: 4, 2: 8, 3: 1, 4: 2, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8}
"""Bytes of types by the numbers that moves know them by."""


def is_sound(move: Move) -> bool:
    """Return whether a move only accesses its tensors, for any data."""
    rule = _RULES.get(move.function)
    if rule is None or any(number < 0 for number in move.numbers):
        return False
    try:
        reads, writes = ([_bytes(p) for p in of] for of in (move.reads, move.writes))
        return rule(move.numbers, reads, writes)
    except (IndexError, ValueError):
        return False


def _bytes(passed: TensorView) -> int:
    return size_bytes(passed.dtype, passed.shape)


def _product(sizes: Numbers) -> int:
    if len(sizes) > MOST_AXES:
        raise ValueError("a tensor of too many axes")
    return prod(sizes)


def _copy(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    return [n[0]] == list(reads) == list(writes)


def _join(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    rows, parts = n[0], n[2:]
    each = [rows * part for part in parts]
    return n[1] == len(parts) and each == list(reads) and [sum(each)] == list(writes)


def _gather(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    outer, length, inner, count, index = n
    given = [outer * length * inner, count * index]
    return index in (4, 8) and given == list(reads) and [outer * count * inner] == list(writes)


def _leading_sizes(n: Numbers) -> tuple[int, int, int] | None:
    """Return the elements of x and of its indices, and the bytes of an element, or None if numbers are invalid."""
    rank, axis, size, index = n[:4]
    sizes, own = n[4 : 4 + rank], n[4 + rank :]
    fits = all(d == axis or few <= many for d, (many, few) in enumerate(zip(sizes, own, strict=True)))
    if not fits or axis >= rank or index not in (4, 8) or not size:
        return None
    return _product(sizes), _product(own), size


def _gather_elements(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    led = _leading_sizes(n)
    if led is None:
        return False
    many, few, size = led
    return [many * size, few * n[3]] == list(reads) and [few * size] == list(writes)


def _scatter_elements(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    led = _leading_sizes(n[2:])
    if led is None:
        return False
    many, few, size = led
    whole = [many * size, few * n[5], few * size]
    return _is_combined(n[0], n[1], size) and whole == list(reads) and whole[:1] == list(writes)


def _is_combined(how: int, kind: int, size: int) -> bool:
    return how == 0 or (how <= 4 and _TYPE_BYTES.get(kind) == size)


def _gather_nd(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    batch, count, depth, inner, *sizes = n
    given = [batch * _product(sizes) * inner, batch * count * depth * 8]
    return len(sizes) == depth and given == list(reads) and [batch * count * inner] == list(writes)


def _scatter_nd(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    how, kind, count, depth, inner, size, *sizes = n
    given = [_product(sizes) * inner * size, count * depth * 8, count * inner * size]
    fits = len(sizes) == depth and _is_combined(how, kind, size)
    return fits and given == list(reads) and given[:1] == list(writes)


def _non_zero(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    rank, *sizes = n
    fits = len(sizes) == rank and list(reads) == [_product(sizes)]
    return fits and most_of(writes[0]) >= 8 * rank * most_of(_product(sizes)) and writes[1:] == [8]


def _sizes(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    return n[0] == len(n) - 1 and not reads and list(writes) == [8 * n[0]]


def _suppress(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    batches, classes, count, _ = n
    given = [batches * count * 16, batches * classes * count * 4, 8, 4, 4]
    return given == list(reads) and writes[1:] == [8, 8 * count]


def _unique(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    rows, inner, kind, _ = n
    fits = list(reads) == [rows * inner * _TYPE_BYTES.get(kind, 0)]
    return (
        fits and most_of(writes[0]) >= 8 * rows and writes[2] == writes[0] and writes[1::2] == [8 * rows, 8]
    )


def _top(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    outer, length, inner, k, _, kind, size = n
    lines = outer * inner
    fits = k <= length and _TYPE_BYTES.get(kind) == size and [lines * length * size] == list(reads)
    return fits and [lines * k * size, lines * k * 8] == list(writes)


_RULES: Mapping[str, Callable[[Numbers, Numbers, Numbers], bool]] = {
    "copy": _copy,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "join": _join,
    "non_zero": _non_zero,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "sizes": _sizes,
    "suppress": _suppress,
    "top": _top,
    "unique": _unique,
}
