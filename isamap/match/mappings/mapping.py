"""Mappings of statements onto instructions, their canonical names, and symmetries of instructions.

    tdpbf16ps { m: m, n: n, k: k, p: k } (a = A[m, k], b = B[k, n])

says that instruction axes k and p together run over kernel axis k, which is split, and that operand a
stands for A[m, k].

A symmetry renames an instruction's axes and operands and leaves its meaning unchanged. The two inputs of
`c[i] += a[i] * b[i]` may be swapped; those of a matrix product may not, for the result would be transposed.
Mappings that differ only by a symmetry count as one.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from typing import Literal

from isamap.ir.index import Index
from isamap.ir.nodes import Call, Cast, Const, Expr, IndexValue, Instruction, Read, Scalar
from isamap.ir.ops import OPS
from isamap.ir.printer import print_expr, print_stmt
from isamap.match.patterns.pattern import Pattern, pattern_of, patterns_of
from isamap.match.patterns.unify import Bindings, places
from isamap.source.records import dataclass, replace
from isamap.transform import Statement

Kind = Literal["whole", "split", "degenerate"]
CountMode = Literal["complete", "fixed", "amos"]
"""The set that is counted: all pairings of operands, the first as written, or those of AMOS's released
code."""


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
        """Kernel axes on each instruction axis. Axes of a split class all list the same set."""
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
    """Return the text of the operands and their expressions. It is equal for all mappings of a pairing."""
    return ", ".join(f"{name} = {print_expr(b.subject)}" for name, b in places(bindings))


def is_simple(expr: Expr) -> bool:
    """Return whether an expression is an element, a literal, or a cast of one."""
    match expr:
        case Read() | Const() | Scalar() | IndexValue():
            return True
        case Cast(value):
            return is_simple(value)
        case _:
            return False


def statement_text(statement: Statement) -> str:
    """Return the statement as one line: its target, operation and value."""
    return print_stmt(statement.assign).strip()


Renaming = tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
Key = tuple[tuple[tuple[str, str, str], ...], tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]]


class KnownMappings:
    """The mappings of one pattern that were found so far, with which new ones are compared."""

    def __init__(self, pattern: Pattern) -> None:
        # One statement among several has no symmetries of its own: what leaves it as it stands may change
        # the others.
        alone = pattern_of(pattern.instruction) is not None
        self._symmetries = symmetries(pattern.instruction) if alone else ()
        self._keys: set[Key] = set()

    def is_new(self, mapping: Mapping) -> bool:
        """Return whether a mapping differs from all earlier ones and from their images under symmetries."""
        if len(self._symmetries) <= 1:
            return True  # the search makes nothing twice
        keys = [image(mapping, axes, operands) for axes, operands in self._symmetries]
        if not self._keys.isdisjoint(keys):
            return False
        self._keys.add(keys[0])  # the identity comes first
        return True


def image(mapping: Mapping, axes: tuple[tuple[str, str], ...], operands: tuple[tuple[str, str], ...]) -> Key:
    """Return the key of a mapping after the instruction's axes and operands are renamed."""
    axis, operand = dict(axes), dict(operands)
    pairing = sorted(
        (operand.get(b.name, b.name), _subscripts(b.pattern, axes), _text(b.subject))
        for b in mapping.bindings
    )
    groups = sorted(
        (tuple(sorted(axis.get(i, i) for i in g.instruction_axes)), tuple(sorted(g.kernel_axes)))
        for g in mapping.groups
    )
    return (tuple(pairing), tuple(groups))


@lru_cache(maxsize=4096)
def _subscripts(pattern: tuple[Index, ...], axes: tuple[tuple[str, str], ...]) -> str:
    renamed: dict[str, Index | int] = {a: Index.of(b) for a, b in axes}
    return ", ".join(str(i.substitute(renamed)) for i in pattern)


@lru_cache(maxsize=4096)
def _text(subject: Expr) -> str:
    return print_expr(subject)


@lru_cache(maxsize=4096)
def symmetries(instruction: Instruction, required: tuple[int, ...] | None = None) -> tuple[Renaming, ...]:
    """Return all symmetries, the identity first. With `required`, only those of these statements."""
    patterns = [p for n, p in enumerate(patterns_of(instruction)) if required is None or n in required]
    axes = list(dict.fromkeys(a.name for p in patterns for a in p.axes))
    inputs = [o.name for o in instruction.operands if o.role == "in"]
    plain = [_shape(p, {}, {}) for p in patterns]
    found: list[Renaming] = []
    for axis_order in permutations(axes):
        for operand_order in permutations(inputs):
            axis = dict(zip(axes, axis_order, strict=True))
            operand = dict(zip(inputs, operand_order, strict=True))
            if _alike(instruction, operand) and [_shape(p, axis, operand) for p in patterns] == plain:
                found.append((tuple(axis.items()), tuple(operand.items())))
    return tuple(found)


def _alike(instruction: Instruction, operand: dict[str, str]) -> bool:
    """Return whether operands that exchange places have equal declarations."""
    return all(
        replace(instruction.operand(a), name=b) == instruction.operand(b)
        for a, b in operand.items()
        if a != b
    )


def _shape(pattern: Pattern, axis: dict[str, str], operand: dict[str, str]) -> str:
    """Return the instruction's meaning as text, with renamed axes and operands and sorted commutative operands."""
    indices: dict[str, Index | int] = {k: Index.of(v) for k, v in axis.items()}

    def text(e: Expr) -> str:
        match e:
            case Read(buffer, index):
                name = operand.get(buffer, buffer)
                o = pattern.instruction.operand(name)
                where = ",".join(str(i.substitute(indices)) for i in index)
                return f"{name}:{o.dtype}:{o.memory}[{where}]"
            case Call(op, args):
                parts = [text(a) for a in args]
                return f"{op}:{e.mode}({','.join(sorted(parts) if OPS[op].commutative else parts)})"
            case Cast(value):
                return f"{e.dtype}:{e.mode}({text(value)})"
            case _:
                return str(e)

    extents = sorted((axis.get(a.name, a.name), str(a.extent)) for a in pattern.axes)
    shapes = sorted(
        (operand.get(o.name, o.name), str(o.dtype), [str(s) for s in o.shape])
        for o in pattern.instruction.operands
    )
    return f"{text(pattern.target)}={text(pattern.value)};{extents};{shapes}"
