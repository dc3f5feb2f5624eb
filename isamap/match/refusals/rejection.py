"""Rejections: the reason why an instruction cannot perform a statement.

A condition that fails is a `Failure`; with the names of instruction and statement it is a `Rejection`.
"""

from __future__ import annotations

from functools import cached_property

from isamap.ir import Kernel
from isamap.machine import Machine, MachineInstruction
from isamap.match.mappings.mapping import Mapping
from isamap.match.patterns.pattern import Pattern
from isamap.source import Edit, Span, dataclass
from isamap.transform import Statement

_REASONS = {
    "the instruction is none that can be laid over a statement":
        "several-outputs several-statements instruction-ordered instruction-guarded",
    "the statement is none that an instruction performs": "guard-reads-data statement-guarded",
    "the two operations":
        "operation-differs assigns-only accumulates-only accumulator-type-differs result-type-differs",
    "the two expressions":
        "expression-differs parameter-not-scalar immediate-differs fused-rounding factor-extra "
        "factor-missing operand-twice operands-reversed comparison-mirrored constant-differs mode-differs "
        "operand-type-differs widening-differs signedness-differs",
    "places for axes":
        "three-factors scale-misplaced reduction-missing batch-missing axis-has-no-place axis-of-one "
        "ordered-axis axis-in-every-operand",
    "elements": "elements-shared output-overlap window-stride symbolic-sizes",
    "sizes and parameters":
        "reassociation-forbidden subnormals-lost padding-not-neutral parameter-out-of-range "
        "precondition-fails precondition-unmeetable",
    "the way of counting": "not-counted",
    "what the instruction needs around it":
        "placement-differs memory-out-of-reach operand-not-supplied column-load fill-not-supplied "
        "state-not-set not-emitted",
}  # fmt: skip
REASONS = tuple(code for codes in _REASONS.values() for code in codes.split())
"""Codes of the conditions from the farthest to the nearest, about the order in which they are tried."""

REMARKS = frozenset((*REASONS[REASONS.index("reassociation-forbidden") :], "three-factors"))
"""Reasons that may be given although mappings exist: the mappings cannot be executed, or should not be."""

OTHER = "another instruction"
"""The help text for a case in which no change of the kernel helps."""

LACKING = frozenset(REASONS[REASONS.index("placement-differs") :])
"""Reasons of mappings that no edit of the kernel removes: the machine's description lacks something."""

_CHANGING = frozenset((
    "operation-differs", "operand-twice", "operands-reversed", "constant-differs", "mode-differs", "window-stride",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rejection:
    """An instruction that cannot perform a statement, and the first condition that is violated.

    `span` is the place in the statement. `instruction_span` is the place in the instruction's text, in its
    description. `edit` describes the remedy. `edits` change the kernel's text so that the condition is met;
    () if no change of the kernel helps.
    """

    instruction: str
    statement: int
    reason: str
    message: str
    span: Span | None
    edit: str | None = None
    instruction_span: Span | None = None
    edits: tuple[Edit, ...] = ()


def changes_result(rejection: Rejection) -> bool:
    """Return whether the edits change the computed values, and not only types or allowed sizes."""
    return rejection.reason in _CHANGING or any("sat_" in e.replacement for e in rejection.edits)


@dataclass(frozen=True, slots=True)
class Failure:
    """A violated condition. `message` continues after the instruction's name."""

    reason: str
    message: str
    span: Span | None
    instruction_span: Span | None = None
    edit: str | None = None
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Pair:
    """An instruction and a statement. `pattern` is None for a sequence. `mappings` are all mappings.

    `others` are the kernel's other statements.
    """

    kernel: Kernel
    machine: Machine
    item: MachineInstruction
    statement: Statement
    number: int
    mappings: tuple[Mapping, ...]
    pattern: Pattern | None
    others: tuple[Statement, ...]

    @cached_property
    def performed(self) -> tuple[Mapping, ...]:
        """The mappings in which each instruction axis has a kernel axis."""
        return tuple(m for m in self.mappings if m.kind != "degenerate")
