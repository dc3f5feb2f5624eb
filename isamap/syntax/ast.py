"""The syntax tree: nodes with spans, without types or resolved names.

`C[m, n] += A[m, k];` is
`AssignSyntax(Access(Ident("C"), (Name(m), Name(n)), None), "+", Access(Ident("A"), …), None)`.
"""

from __future__ import annotations

from typing import Literal

from isamap.source import Span, dataclass


@dataclass(frozen=True, slots=True)
class Ident:
    """A name with its place."""

    text: str
    span: Span


# --- expressions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """A literal. `value` is an int when it was written without point and exponent."""

    value: int | float
    span: Span


@dataclass(frozen=True, slots=True)
class Flag:
    """The literal `true` or `false`."""

    value: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Name:
    """A name used as a value or an index."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Access:
    """An element access: `X[i, j] else 0`."""

    name: Ident
    subscripts: tuple[ExprSyntax, ...]
    fill: ExprSyntax | None
    span: Span


@dataclass(frozen=True, slots=True)
class Apply:
    """An application `name(args)`: a function, a cast, or `stride(A, 0)`."""

    name: Ident
    args: tuple[ExprSyntax, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Unary:
    """A unary operation `-x` or `~x`. `op` is its name in `isamap.ir.ops`."""

    op: str
    operand: ExprSyntax
    span: Span


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary operation such as `x + y`. `op` is its name in `isamap.ir.ops`."""

    op: str
    left: ExprSyntax
    right: ExprSyntax
    span: Span


ExprSyntax = Number | Flag | Name | Access | Apply | Unary | Binary

# --- statements -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AxisSyntax:
    """A loop axis: `m in M`."""

    name: Ident
    extent: ExprSyntax
    span: Span
    start: ExprSyntax | None = None


@dataclass(frozen=True, slots=True)
class LoopSyntax:
    """A loop `for …`, or `seq …` if `ordered`."""

    ordered: bool
    axes: tuple[AxisSyntax, ...]
    guard: ExprSyntax | None
    body: tuple[StmtSyntax, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class AssignSyntax:
    """An assignment. `op` is the operator before `=`, such as `+` or `max`, or ""."""

    target: Access
    op: str
    value: ExprSyntax
    guard: ExprSyntax | None
    span: Span


StmtSyntax = LoopSyntax | AssignSyntax

# --- parts of routines ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParamSyntax:
    """A parameter: kind, name, range or type, default."""

    kind: str | None
    name: Ident
    bounds: tuple[ExprSyntax, ExprSyntax] | None
    dtype: Ident | None
    default: int | None
    span: Span


@dataclass(frozen=True, slots=True)
class PlacementSyntax:
    """A placement: `placed [i, j] at lane: …, register: …`."""

    indices: tuple[Ident, ...]
    coordinates: tuple[tuple[Ident, ExprSyntax], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class StridesSyntax:
    """The strides of an operand. None stands for `any`."""

    values: tuple[ExprSyntax | None, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ClauseSyntax:
    """A clause of an operand: `@ memory`, `accumulate type` or `outside rule`."""

    kind: Literal["in_memory", "accumulate", "outside"]
    name: Ident
    span: Span


@dataclass(frozen=True, slots=True)
class DomainSyntax:
    """A domain, `values 0..K - 1 ascending`: the allowed elements of an integer input."""

    bounds: tuple[ExprSyntax, ExprSyntax]
    ascending: bool
    span: Span


ClausesSyntax = ClauseSyntax | StridesSyntax | PlacementSyntax | DomainSyntax


@dataclass(frozen=True, slots=True)
class OperandSyntax:
    """An operand: `in A: f32[M, K] …;`."""

    role: str
    name: Ident
    dtype: Ident
    shape: tuple[ExprSyntax, ...]
    clauses: tuple[ClausesSyntax, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class LetSyntax:
    """A name for an expression: `let P = …;`."""

    name: Ident
    value: ExprSyntax
    span: Span


@dataclass(frozen=True, slots=True)
class RequireSyntax:
    """A requirement or setting: `requires cfg.rows[c] == R;` or `sets mode.streaming = 1;`."""

    kind: Literal["requires", "sets"]
    state: Ident
    field: Ident
    index: ExprSyntax | None
    value: ExprSyntax
    span: Span


@dataclass(frozen=True, slots=True)
class StateUseSyntax:
    """A use of a state or memory: `sets cfg;`, `releases cfg;` or `clobbers tmm;`."""

    kind: Literal["sets", "releases", "clobbers"]
    name: Ident
    span: Span


@dataclass(frozen=True, slots=True)
class NumericsSyntax:
    """Numerical deviations: `numerics reordered, flush_inputs;`."""

    words: tuple[Ident, ...]
    span: Span


ItemSyntax = (
    OperandSyntax | LetSyntax | RequireSyntax | StateUseSyntax | NumericsSyntax | LoopSyntax | AssignSyntax
)

# --- declarations -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RoutineSyntax:
    """A kernel or an instruction."""

    kind: Literal["kernel", "instruction"]
    strict: bool
    name: Ident
    params: tuple[ParamSyntax, ...]
    where: tuple[ExprSyntax, ...]
    items: tuple[ItemSyntax, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class MemorySyntax:
    """A memory, or a view if `base` is given."""

    name: Ident
    base: Ident | None
    kind: Ident
    attributes: tuple[tuple[Ident, ExprSyntax], ...]
    placement: PlacementSyntax | None
    span: Span


@dataclass(frozen=True, slots=True)
class FieldSyntax:
    """A field of a state."""

    name: Ident
    dtype: Ident
    count: int | None
    span: Span


@dataclass(frozen=True, slots=True)
class StateSyntax:
    """A state: `state cfg { … }`."""

    name: Ident
    per_thread: bool
    fields: tuple[FieldSyntax, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ConstantSyntax:
    """A machine constant: `machine VL: 16..256;`."""

    name: Ident
    bounds: tuple[ExprSyntax, ExprSyntax]
    default: int | None
    span: Span


@dataclass(frozen=True, slots=True)
class FunctionSyntax:
    """A function: `function f(x: f32) within 2 ulp below 8192 { let y = …; return …; }`."""

    name: Ident
    params: tuple[ParamSyntax, ...]
    ulp: float | None
    below: float | None
    lets: tuple[LetSyntax, ...]
    result: ExprSyntax
    span: Span


DeclarationSyntax = RoutineSyntax | FunctionSyntax | MemorySyntax | StateSyntax | ConstantSyntax
