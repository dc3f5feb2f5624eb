"""Nodes of an emission: calls with arguments, steps, the instruction's own semantics, or no emission.

`z = f(a, 2*Q)` is `EmitCall("z", None, "f", (EmitArg("operand", "a"), EmitArithmetic("*", …)))`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from isamap.ir import Index
from isamap.source import Span, dataclass, field


@dataclass(frozen=True, slots=True)
class EmitArg:
    """One argument: `c.index`, `(__mmask16) L.mask`, `8`. A literal's `name` is its text.

    A `value` is the result of an earlier step. `place` is an element of an operand, () the first one.
    """

    kind: Literal["operand", "param", "literal", "state", "value", "constant"]
    name: str
    attribute: str | None = None
    cast: str | None = None
    place: tuple[int, ...] = ()

    def __str__(self) -> str:
        name = self.name if self.attribute is None else f"{self.name}.{self.attribute}"
        return f"({self.cast}) {name}" if self.cast else name


@dataclass(frozen=True, slots=True)
class EmitArithmetic:
    """`left operator right` of integers, as C computes it: `17 << c.index`."""

    operator: Literal["+", "*", "<<"]
    left: EmitValue
    right: EmitValue

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True, slots=True)
class EmitCall:
    """`result = (cast) function(args)`. A call that is an argument has no result.

    `span` is the place of its function.
    """

    result: str | None
    cast: str | None
    function: str
    args: tuple[EmitValue, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def calls(self) -> tuple[EmitCall, ...]:
        """The call itself and the calls in its arguments, in textual order."""
        return (self, *(c for a in self.args if isinstance(a, EmitCall) for c in a.calls))

    @property
    def names(self) -> tuple[EmitArg, ...]:
        """All arguments other than calls."""
        return tuple(leaf for c in self.calls for a in c.args for leaf in leaves(a))

    @property
    def held(self) -> int:
        """The largest number of inner calls' results that are live at once."""
        calls = [a for a in self.args if isinstance(a, EmitCall)]
        return max((before + max(1, call.held) for before, call in enumerate(calls)), default=0)

    @property
    def functions(self) -> tuple[str, ...]:
        """All functions that the call and its arguments call."""
        return tuple(c.function for c in self.calls)

    def __str__(self) -> str:
        result = f"{self.result} = " if self.result else ""
        cast = f"({self.cast}) " if self.cast else ""
        return f"{result}{cast}{self.function}({', '.join(map(str, self.args))})"


EmitValue = EmitArg | EmitArithmetic | EmitCall


def leaves(value: EmitValue) -> Iterator[EmitArg]:
    """Yield the arguments inside an argument that are no calls."""
    match value:
        case EmitArg():
            yield value
        case EmitArithmetic(_, left, right):
            yield from (*leaves(left), *leaves(right))
        case EmitCall():
            pass


@dataclass(frozen=True, slots=True)
class EmitStep:
    """`c_type value = call`, or only the call if it returns no value.

    Without a type, `value` is an operand in a register that is written. `iterations` are the counters of
    `for`, each with its count, which may depend on the vector length.
    """

    c_type: str
    value: str
    call: EmitCall
    iterations: tuple[tuple[int, Index], ...] = ()


@dataclass(frozen=True, slots=True)
class EmitSteps:
    """Consecutive calls, and their text."""

    steps: tuple[EmitStep, ...]
    text: str

    @property
    def calls(self) -> tuple[EmitCall, ...]:
        """All calls, in textual order."""
        return tuple(c for step in self.steps for c in step.call.calls)

    @property
    def names(self) -> tuple[EmitArg, ...]:
        """All arguments other than calls."""
        return tuple(name for step in self.steps for name in step.call.names)

    @property
    def results(self) -> frozenset[str]:
        """The names of the operands that the steps write."""
        return frozenset(step.value for step in self.steps if step.value and not step.c_type)

    @property
    def functions(self) -> tuple[str, ...]:
        """All functions that the steps call."""
        return tuple(dict.fromkeys(c.function for c in self.calls))

    def __str__(self) -> str:
        return " ".join(self.text.split())


@dataclass(frozen=True, slots=True)
class EmitSemantics:
    """The instruction's own meaning, rendered as plain C."""

    def __str__(self) -> str:
        return "semantics"


@dataclass(frozen=True, slots=True)
class EmitNothing:
    """No emission: the instruction is described, matched and interpreted, but no code can be emitted for it."""

    def __str__(self) -> str:
        return "none"


Emission = EmitCall | EmitSteps | EmitSemantics | EmitNothing
