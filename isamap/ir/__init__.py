"""The intermediate representation: nodes, dtypes, index expressions, printer, verifier, interpreter."""

from isamap.ir.bind import Range, bind, typical_size
from isamap.ir.dtypes import (
    BF16,
    BOOL,
    DTYPES,
    F32,
    F64,
    I64,
    NUMERICS,
    DType,
    converts_exactly,
    first_cast,
    strict_forbids,
)
from isamap.ir.elements import evaluate_samples
from isamap.ir.error_bounds import Measure
from isamap.ir.evaluate import Env, evaluate_expr
from isamap.ir.index import (
    ZERO,
    Atom,
    Element,
    FloorDiv,
    Index,
    MinMax,
    Mod,
    index_max,
    index_min,
    product,
    typical_value,
)
from isamap.ir.interpret import execute_bound, interpret, interpret_magnitude
from isamap.ir.nodes import (
    Assign,
    Axis,
    Call,
    Cast,
    Comparison,
    Const,
    ConstantDecl,
    Constraint,
    Declaration,
    Expr,
    IndexValue,
    Instruction,
    Kernel,
    Let,
    Loop,
    MemoryDecl,
    MemoryKind,
    Module,
    Operand,
    Param,
    Placement,
    Read,
    Routine,
    Scalar,
    StateDecl,
    Stmt,
)
from isamap.ir.ops import OPS, REDUCTIONS, Op
from isamap.ir.printer import print_expr, print_routine, print_stmt
from isamap.ir.prove import Facts, is_nonnegative
from isamap.ir.recurrences import iterations_apart
from isamap.ir.rounding import convert, round_to
from isamap.ir.substitute import substitute_expr, substitute_read, substitute_stmt
from isamap.ir.text_layout import layout
from isamap.ir.verify import verify

__all__ = [
    "BF16", "BOOL", "DTYPES", "F32", "F64", "I64", "NUMERICS", "OPS", "REDUCTIONS", "ZERO", "Assign",
    "Atom", "Axis", "Call", "Cast", "Comparison", "Const", "ConstantDecl", "Constraint", "DType",
    "Declaration", "Element", "Env", "Expr", "Facts", "FloorDiv", "Index", "IndexValue", "Instruction",
    "Kernel", "Let", "Loop", "Measure", "MemoryDecl", "MemoryKind", "MinMax", "Mod", "Module", "Op",
    "Operand", "Param", "Placement", "Range", "Read", "Routine", "Scalar", "StateDecl", "Stmt", "bind",
    "convert", "converts_exactly", "evaluate_expr", "evaluate_samples", "execute_bound", "first_cast", "index_max",
    "index_min", "interpret", "interpret_magnitude", "is_nonnegative", "iterations_apart", "layout",
    "print_expr", "print_routine", "print_stmt", "product", "round_to",
    "strict_forbids", "substitute_expr", "substitute_read", "substitute_stmt", "typical_size",
    "typical_value", "verify",
]  # fmt: skip
