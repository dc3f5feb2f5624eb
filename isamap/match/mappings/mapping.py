"""What the matcher finds: a mapping, and its canonical name.

    tdpbf16ps { m: m, n: n, k: k, p: k } (a = A[m, k], b = B[k, n])

says that instruction axes k and p together run over kernel axis k, cut; operand a stands for A[m, k].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from isamap.ir import Cast, Const, Expr, IndexValue, Read, Scalar, print_expr, print_stmt
from isamap.match.patterns.unify import Bindings, places
from isamap.transform import Statement

Kind = Literal["whole", "split", "degenerate"]
CountMode = Literal["complete", "fixed", "amos"]
"""What is counted: all pairings of operands, the first as written, or what AMOS's released code finds."""


@dataclass(frozen=True, slots=True)
class AxisGroup:
    """Instruction axes (outermost first) that together run over kernel axes (fused, outermost first)."""

    instruction_axes: tuple[str, ...]
    kernel_axes: tuple[str, ...]

    @property
    def name(self) -> str:
        return ".".join(self.kernel_axes)


@dataclass(frozen=True, slots=True)
class Mapping:
    """One way in which an instruction performs a statement.

    `statement` counts the kernel's statements from 0. `empty` are instruction axes of length one. `composed`
    says that some operand stands for more than an element or its cast: other instructions compute it first.
    """

    instruction: str
    statement: int
    bindings: Bindings
    groups: tuple[AxisGroup, ...]
    empty: tuple[str, ...]
    kind: Kind

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """Kernel axes on each instruction axis; axes of a split class all list the same set."""
        found = {i: g.kernel_axes for g in self.groups for i in g.instruction_axes}
        return found | dict.fromkeys(self.empty, ())

    @property
    def composed(self) -> bool:
        return not all(is_simple(b.subject) for b in self.bindings)

    @property
    def ident(self) -> str:
        """Canonical name, unique within a kernel's statement."""
        axes = ", ".join(f"{i}: {'.'.join(ks) or '1'}" for i, ks in self.axes.items())
        operands = _operands(self.bindings)
        return f"{self.instruction} {{ {axes} }} ({operands})" if axes else f"{self.instruction} ({operands})"


@lru_cache(maxsize=4096)
def _operands(bindings: Bindings) -> str:
    """What the operands of an instruction stand for: the same for all mappings of a pairing."""
    return ", ".join(f"{name} = {print_expr(b.subject)}" for name, b in places(bindings))


def is_simple(expr: Expr) -> bool:
    """Whether an expression is an element, a literal, or a cast of one."""
    match expr:
        case Read() | Const() | Scalar() | IndexValue():
            return True
        case Cast(value):
            return is_simple(value)
        case _:
            return False


def statement_text(statement: Statement) -> str:
    """The statement as one line: its target, operation and value."""
    return print_stmt(statement.assign).strip()
