"""The lowered program: the loops, buffers and instruction issues that code generation receives.

A program is for one kernel, one machine and one schedule. `C[m, n] += …` on a machine with a vector unit
becomes

    For("n1", trips=4) {
      v0 = load_zmm_f32(a = C[256*m1 + 16*n1])          Issue
      For("k1", trips=K) { v1 = …; v0 += fma(v1, v2) }  Issue, Issue
      store_zmm_f32(z = v0, a = C[256*m1 + 16*n1])      Issue
    }

Index expressions are over loop variables (trip counters from 0), symbolic sizes, and the element strides of
the kernel's tensors that are not constant. Each name of a variable, value or buffer is unique in a program.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from isamap.ir import Const, DType, Expr, Index, Kernel, Operand
from isamap.ir.nodes import Domain
from isamap.match import tensor_strides
from isamap.source.records import dataclass, field


@dataclass(frozen=True, slots=True)
class PackedHeader:
    """The header of a packed tensor: the layout of the data after it. `source` is an input of the kernel.

    `layout` are the digits of a digest, `sizes` the run-time sizes that were packed, as 64-bit numbers. The
    header is whole cache lines, so that the elements have the alignment of the tensor itself.
    """

    source: str
    layout: str
    sizes: tuple[str, ...] = ()

    DIGITS: ClassVar[int] = 32

    @property
    def size_bytes(self) -> int:
        return -(-(self.DIGITS + 8 * len(self.sizes)) // 64) * 64


@dataclass(frozen=True, slots=True)
class Tensor:
    """A kernel operand as the caller passes it.

    Shapes: `shape` in elements. Units: `strides` in elements. Each is a number or the symbol `NAME.s0`, the
    caller's byte stride in elements (the last axis is always dense). A packed tensor has a `header`, whose
    elements `shape` includes. Offsets count from the end of the header. `given` is the shape of the caller's
    array, if neighbouring dimensions of it are merged here. `domain` has the values that its elements may
    have. `memory` is its main memory, if the kernel assigns it to one.
    """

    name: str
    role: Literal["in", "out", "inout"]
    dtype: DType
    shape: tuple[Index, ...]
    strides: tuple[Index, ...]
    header: PackedHeader | None = None
    given: tuple[Index, ...] | None = None
    domain: Domain | None = None
    memory: str | None = None


def tensor_of(operand: Operand) -> Tensor:
    """Return a kernel operand in the form in which the caller passes it."""
    assert operand.role != "temp"
    made = operand.name, operand.role, operand.dtype, operand.shape, tensor_strides(operand)
    return Tensor(*made, given=operand.given, domain=operand.domain, memory=operand.memory)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of the workspace: `elements` of `dtype`, 64-byte aligned, with undefined initial contents.

    `offset` is its start; None if it is undecided or known only at run time, in which case the buffer is
    after all others. `memory` is its scratchpad, "" for the workspace. `life` is the first and the last leaf
    of the program that needs it. Units: bytes.
    """

    name: str
    dtype: DType
    elements: Index
    why: str = ""
    offset: int | None = None
    life: tuple[int, int] | None = None
    memory: str = ""


@dataclass(frozen=True, slots=True)
class Value:
    """A register-resident array: `shape` elements of `dtype` in `registers` consecutive registers of `memory`.

    `register` is the number of the first where we name registers, else None (the C compiler's choice).
    """

    name: str
    memory: str
    dtype: DType
    shape: tuple[int, ...]
    registers: int = 1
    register: int | None = None


@dataclass(frozen=True, slots=True)
class RegisterRef:
    """A value as an operand of an issue."""

    value: str


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """Elements of a tensor or workspace buffer as an operand: start and strides.

    Units: `offset` and `strides` (one per operand axis) in elements.
    """

    buffer: str
    offset: Index
    strides: tuple[Index, ...] = ()


OperandRef = RegisterRef | MemoryRef
Argument = int | Index | Const | Expr


@dataclass(frozen=True, slots=True)
class Issue:
    """One execution of one instruction.

    `params` gives every parameter of the instruction: a number for `choose`/`imm`, an index expression for an
    integer `scalar`, a constant for a typed `scalar`. `note` ties it to the schedule for readers of the code.
    """

    instruction: str
    operands: tuple[tuple[str, OperandRef], ...]
    params: tuple[tuple[str, Argument], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Configure:
    """Load configuration state: the instruction that sets it, and the value of every field it needs.

    `fields` are (field, index or None, value); those not named are zero. `release` marks the instruction that
    gives the state back.
    """

    instruction: str
    state: str
    fields: tuple[tuple[str, int | None, int], ...] = ()
    release: bool = False


@dataclass(frozen=True, slots=True)
class Fill:
    """Set a whole workspace buffer to zero bytes, or `elements` of it from `offset` on."""

    buffer: str
    offset: Index
    elements: Index


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint of the machine about the line of memory at `place`: no value depends on it."""

    instruction: str
    operand: str
    place: MemoryRef


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier: all lanes of one instance of a level wait for each other and see each other's writes.

    Asynchronous copies between two barriers are a group, and those of the last `in_flight` groups may be on
    their way still: lanes see what the others have written.
    """

    level: str
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class ProductGroup:
    """The end of a group of asynchronous products, or a wait for groups.

    If `in_flight` is None, the products issued since the last end become a group. A number is a wait until all
    groups but the last `in_flight` have arrived: their sums are in registers, and they read memory no more.
    """

    in_flight: int | None = None


@dataclass(frozen=True, slots=True)
class Declare:
    """Declared values that live until the end of the enclosing block."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class For:
    """A loop in which `variable` counts 0 … trips-1."""

    variable: str
    trips: Index
    body: tuple[Node, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Parallel:
    """A parallel loop: the body runs for every combination of counters, in any order, by several threads.

    Nothing in it uses values of registers from outside, and no two combinations write one element. If a `level`
    is named, the combinations are the instances of that level in one part of the parallel loop around: they run
    together, wait at its barriers, and perform as one what depends on none of the counters and uses no registers.
    """

    counters: tuple[tuple[str, Index], ...]
    body: tuple[Node, ...]
    note: str = ""
    level: str = ""


Condition = tuple[Index, Literal["<", "<=", "=="], Index]


@dataclass(frozen=True, slots=True)
class If:
    """A body that is executed if all conditions hold."""

    conditions: tuple[Condition, ...]
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A scope with a comment above it. `is_copy` says that it only copies one operand."""

    note: str
    body: tuple[Node, ...]
    is_copy: bool = False


@dataclass(frozen=True, slots=True)
class Begin:
    """The start of work that is performed in slices: the number of pieces for all `WorkSlice`s of its name.

    At most `depth` loops count the pieces of one part, and there are `parts` parts.
    """

    work: str
    pieces: Index
    trips: Index
    depth: int
    parts: int


@dataclass(frozen=True, slots=True)
class WorkSlice:
    """The slice of some work that iteration `now` of `trips` performs. Slices differ by at most one piece.

    Each part of the body is a loop nest, of which the `depths` outermost loops count its pieces. Iterations
    run in order, and each slice begins at the end of the previous one: counters continue, so that no division
    is needed. `nth` counts the pieces of a slice that is lowered separately (`isamap.lower.work_slices`).
    """

    work: str
    now: Index
    trips: Index
    nth: str
    depths: tuple[int, ...]
    body: tuple[Node, ...]


Node = (
    Issue | Configure | Fill | Hint | Barrier | ProductGroup | Declare | For | Parallel | If | Block | Begin
    | WorkSlice
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lengths:
    """A machine constant that a program reads from the hardware at run time, with its possible values.

    `name` is the program's name of the `constant`. `tables` are numbers by name with their values, one for
    each of `values`.
    """

    constant: str
    name: str
    values: tuple[int, ...]
    tables: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def at(self, number: int) -> dict[str, Index | int]:
        """Return the values of the constant and of the tables at one of the lengths, given by its position."""
        return {self.name: self.values[number], **{name: row[number] for name, row in self.tables}}


@dataclass(frozen=True, slots=True)
class LoweredProgram:
    """A program that performs a kernel on a machine.

    `sizes` are the parameters bound to numbers; `symbols` (name, low, high) those that the caller gives at
    run time. `checks` must hold for the sizes and strides that the caller passes, else the call is refused.
    `packs` are the programs that pack those tensors that it takes packed. `lengths` where it serves several.
    """

    name: str
    kernel: Kernel
    machine: str
    sizes: tuple[tuple[str, int], ...]
    symbols: tuple[tuple[str, int, int], ...]
    tensors: tuple[Tensor, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Node, ...]
    checks: tuple[Condition, ...] = ()
    packs: tuple[LoweredProgram, ...] = ()
    lengths: Lengths | None = None

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of numbers that the hardware determines."""
        return () if self.lengths is None else tuple(self.lengths.at(0))


@dataclass(frozen=True, slots=True)
class Pack:
    """The copy of one operand before a program runs: from `source`, an input of its kernel, to `target`.

    `buffers` are its temporary buffers. `symbols` are the run-time sizes that it may depend on.
    """

    source: str
    target: Tensor
    nodes: tuple[Node, ...]
    buffers: tuple[Buffer, ...]
    symbols: frozenset[str]


@dataclass
class Names:
    """A generator of unique names. `buffers` collects workspace buffers, and `packs` the copies made before."""

    taken: set[str]
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    packs: list[Pack] = field(default_factory=list[Pack])

    def fresh(self, stem: str) -> str:
        """Return a unique name derived from `stem`."""
        stem = re.sub(r"\W", "", stem) or "x"
        while True:
            number = self.counts.get(stem, 0)
            self.counts[stem] = number + 1
            name = f"{stem}{number}"
            if name not in self.taken:
                self.taken.add(name)
                return name

    def reserve_name(self, name: str) -> str:
        """Return this name, or a unique one derived from it if it is in use."""
        if name in self.taken:
            return self.fresh(name)
        self.taken.add(name)
        return name
