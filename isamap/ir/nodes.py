"""The whole intermediate representation: immutable nodes of kernels and machine instructions.

A kernel and an instruction are the same thing, a `Routine`: parameters, operands, and a nest of loops over
statements. `C[m, n] += A[m, k] * B[k, n]` is

    Assign(Read("C", (m, n)), "add", Call("mul", (Read("A", (m, k)), Read("B", (k, n)))))

Two leaves are in other modules: `index.py` has `Index`, a subscript or an extent as a polynomial, and its atoms:
names, `FloorDiv`, `Mod`, `MinMax`, and `Element` of an array. `dtypes.py` has the number types.
"""

from __future__ import annotations

import dataclasses
from math import copysign
from typing import Literal

from isamap.ir.dtypes import CastMode, DType
from isamap.ir.index import Index
from isamap.source import Span, dataclass, field

# --- expressions: every node knows its dtype --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Const:
    """A literal of a known type."""

    value: int | float | bool
    dtype: DType
    span: Span | None = field(default=None, compare=False, repr=False)
    is_negative: bool = field(init=False, repr=False)
    """Of a float: -0.0 and 0.0 differ in it, although they are equal."""

    def __post_init__(self) -> None:
        is_negative = isinstance(self.value, float) and copysign(1, self.value) < 0
        object.__setattr__(self, "is_negative", is_negative)


@dataclass(frozen=True, slots=True)
class IndexValue:
    """An integer expression of axes and sizes used as a value, as `K` in `f32(K)`."""

    index: Index
    dtype: DType
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A run-time parameter used as a value, as `alpha` of type f32."""

    name: str
    dtype: DType
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Read:
    """An element of an operand, or `fill`, if given, outside the operand's shape."""

    buffer: str
    index: tuple[Index, ...]
    dtype: DType
    fill: Const | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """An operation of `isamap.ir.ops` on operands. `mode` is its rounding mode, if it has one."""

    op: str
    args: tuple[Expr, ...]
    dtype: DType
    mode: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion. Floats round to nearest even. Integers wrap, saturate, or are proved to be in range.

    The mode `bits` takes the bits of a float as an integer of the same width, or the other way round.
    """

    value: Expr
    dtype: DType
    mode: CastMode = "exact"
    span: Span | None = field(default=None, compare=False, repr=False)


Expr = Const | IndexValue | Scalar | Read | Call | Cast

# --- statements -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assign:
    """`target = value` (op None) or `target op= value`, executed only where `guard` holds."""

    target: Read
    op: str | None
    value: Expr
    guard: Expr | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop variable running over 0 … extent-1."""

    name: str
    extent: Index
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Loop:
    """Statements repeated over all points of `axes`: unordered (`for`) or in order (`seq`)."""

    axes: tuple[Axis, ...]
    body: tuple[Stmt, ...]
    ordered: bool = False
    guard: Expr | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


Stmt = Assign | Loop

# --- declarations -----------------------------------------------------------------------------------------

ParamKind = Literal["size", "choose", "machine", "imm", "scalar"]
Role = Literal["in", "out", "inout", "temp"]
Outside = Literal["zero", "keep", "undefined"]


@dataclass(frozen=True, slots=True)
class Param:
    """A size of a kernel, or a parameter of an instruction, with the time at which it is fixed.

    Units: `low` and `high` bound it, both included. `default` is taken when nothing is given. `dtype` is the
    type of a `scalar` used as a value, None for one that is an integer used in indices.
    """

    name: str
    kind: ParamKind = "size"
    low: Index | None = None
    high: Index | None = None
    default: int | None = None
    dtype: DType | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Let:
    """A name for an integer expression of the parameters, such as an output extent."""

    name: str
    value: Index
    span: Span | None = field(default=None, compare=False, repr=False)


Comparison = Literal["==", "!=", "<=", "<", ">=", ">"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A relation of sizes, strides (`stride(A,0)`, in elements) and alignments (`align(A)`, in bytes)."""

    left: Index
    comparison: Comparison
    right: Index
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Placement:
    """The memory location of each element: index names, and each coordinate as an expression of them."""

    indices: tuple[str, ...]
    coordinates: tuple[tuple[str, Index], ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Domain:
    """The values of an integer input: from `low` to `high`, both included, and sorted if they are `ascending`."""

    low: Index
    high: Index
    ascending: bool = False


@dataclass(frozen=True, slots=True)
class Operand:
    """A typed array of a routine.

    Shapes: `shape` in elements, outermost first. Units: `strides` in elements, one per axis, None for an axis
    whose stride any value may have; None altogether means dense row-major. `outside` is the content of an
    output where the statements do not write. If neighbouring dimensions were fused to one, `given` is the shape
    before that, which callers still give. Such an array is dense. Indices may
    be made of an input that has a `domain`.
    """

    name: str
    role: Role
    dtype: DType
    shape: tuple[Index, ...]
    memory: str | None = None
    accumulate: DType | None = None
    strides: tuple[Index | None, ...] | None = None
    placement: Placement | None = None
    outside: Outside | None = None
    given: tuple[Index, ...] | None = field(default=None, compare=False)
    domain: Domain | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StateField:
    """A field of configuration state. `count` is None for a scalar field."""

    name: str
    dtype: DType
    count: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StateRef:
    """A reference to a field of a state, indexed by a number or by the register number of an operand."""

    state: str
    field: str
    index: str | int | None = None


@dataclass(frozen=True, slots=True)
class Require:
    """A condition that a field has a certain value when the instruction is issued."""

    field: StateRef
    value: Index
    span: Span | None = dataclasses.field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Setting:
    """An assignment of a value to a field when the instruction is issued."""

    field: StateRef
    value: Index
    span: Span | None = dataclasses.field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Routine:
    """The common base of kernels and instructions."""

    name: str
    params: tuple[Param, ...]
    operands: tuple[Operand, ...]
    body: tuple[Stmt, ...]
    lets: tuple[Let, ...] = ()
    where: tuple[Constraint, ...] = ()
    strict: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    def operand(self, name: str) -> Operand:
        """Return the operand with an existing name."""
        return next(o for o in self.operands if o.name == name)

    def param(self, name: str) -> Param:
        """Return the parameter with an existing name."""
        return next(p for p in self.params if p.name == name)


@dataclass(frozen=True, slots=True)
class Kernel(Routine):
    """A computation that a user wants performed."""


@dataclass(frozen=True, slots=True)
class Instruction(Routine):
    """A computation that a machine performs as one instruction.

    `sets_state` names the states that it loads as a whole, `settings` single fields with their new values,
    `clobbers` the memories whose contents it destroys. `numerics` are words of `isamap.ir.dtypes`: how its
    floating-point results differ from those of the plain loops.
    """

    requires: tuple[Require, ...] = ()
    sets_state: tuple[str, ...] = ()
    releases_state: tuple[str, ...] = ()
    clobbers: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    numerics: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)  # what caches look up thousands of times; there are few of one name


MemoryKind = Literal["addressable", "cache", "scratchpad", "registers"]


@dataclass(frozen=True, slots=True)
class MemoryDecl:
    """A memory: kind and attributes (`count`, `bytes`, `rows`, `named`, …), or a view of another.

    A view's `coordinates` map its own coordinates to those of `base`. Two views overlap where they meet.
    """

    name: str
    kind: MemoryKind
    attributes: tuple[tuple[str, Index | str], ...] = ()
    base: str | None = None
    placement: Placement | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StateDecl:
    """Configuration state of a machine. If `per_thread`, each thread has its own."""

    name: str
    fields: tuple[StateField, ...]
    per_thread: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ConstantDecl:
    """A constant that all declarations of a machine share, such as a vector length."""

    param: Param
    span: Span | None = field(default=None, compare=False, repr=False)


Declaration = Kernel | Instruction | MemoryDecl | StateDecl | ConstantDecl


@dataclass(frozen=True, slots=True)
class Module:
    """The declarations of one text, in textual order."""

    declarations: tuple[Declaration, ...]
