"""Emissions of several calls, one after the other: what `for` counts spelt out, and each call checked.

    for i in 16: __m512 r[i] = _mm512_loadu_ps(a[i, 0].addr);
    for i in 8:  __m512 t[i] = _mm512_unpacklo_ps(r[2*i], r[2*i + 1]);

is 24 calls, which make the values r[0] … r[15] and t[0] … t[7] out of memory and of each other. Nothing but
calls that a single emission could make is said so; what they leave is written to memory by calls as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from isamap.ir import Index, Instruction, Operand
from isamap.machine import allowed
from isamap.machine.calls import Surroundings, forgotten_by, named_result, resolve_nested
from isamap.machine.emission import Argument, Arithmetic, Nested, Step, StepsTemplate, Sum, Word, Written
from isamap.machine.emit_nodes import EmitStep, EmitSteps
from isamap.machine.families import Row
from isamap.machine.tree import Findings
from isamap.source import Diagnostic, Span, SpecProblem, is_digits
from isamap.syntax import substitute_text

MOST_CALLS = 4096

Turn = Mapping[str, int]


def resolve_steps(
    template: StepsTemplate, row: Row, instruction: Instruction | None, around: Surroundings
) -> EmitSteps:
    """The steps of one instruction, checked. Raises: SpecProblem with all that is wrong."""
    found, steps, values = Findings(), list[EmitStep](), list[str]()
    if instruction is not None:
        with found.collect():
            _check_memories(template, instruction, around)
    for step in template.steps:
        with found.collect():
            for turn, ends in _turns(step, row, around):
                here = replace(around, values=values)
                made = _Turned(turn, row, instruction, here, found).step(step)
                steps.append(replace(made, turns=ends))
                values += [made.value] if made.c_type else []
                if len(steps) > MOST_CALLS:
                    raise _problem(f"these are more than {MOST_CALLS} calls", step.call.function.span)
        found.raise_any()  # what is wrong once is wrong in all turns
    text = substitute_text(template.span.text, row)
    whole = EmitSteps(tuple(steps), text)
    if instruction is not None:
        for problem in forgotten_by(whole, instruction, around, template.span):
            found.diagnostics += problem.diagnostics
    found.raise_any()
    return whole


def _check_memories(template: StepsTemplate, instruction: Instruction, around: Surroundings) -> None:
    """Refuse registers that C has no variables of, and single values, which a call returns."""
    for operand in instruction.operands:
        memory = around.memories.get(operand.memory or "")
        if operand.role == "temp" or memory is None or memory.kind != "registers":
            continue
        if memory.named == "chosen" or not operand.shape:
            raise _problem(
                f"several calls work on memory, vectors and tiles; `{operand.name}` lives in `{memory.name}`",
                template.span,
                "write one call, whose arguments may be calls",
            )
    if instruction.sets_state or instruction.releases_state:
        raise _problem("a state is loaded and released by one call", template.span)


def _turns(
    step: Step, row: Row, around: Surroundings
) -> Iterator[tuple[Turn, tuple[tuple[int, Index], ...]]]:
    """What `for` counts, all combinations, the last fastest; beside each number that depends on constants of
    the machine, which count as their largest values, how far is counted.
    """
    ends = [_count(count, row, around) for _, count in step.turns]
    largest = {name: c.high for name, c in around.constants.items() if c.high is not None}
    counts = [end.substitute(largest).value for end in ends]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or prod(known) > MOST_CALLS:
        raise _problem(f"these are more than {MOST_CALLS} calls", step.turns[0][1][0][0].span)
    names = [name.text for name, _ in step.turns]
    for at in product(*map(range, known)):
        open_ends = tuple((n, end) for n, end in zip(at, ends, strict=True) if end.value is None)
        yield dict(zip(names, at, strict=True)), open_ends


def _count(count: Sum, row: Row, around: Surroundings) -> Index:
    """How far `for` counts: whole numbers, and constants of the machine."""

    def factor(word: Word) -> Index:
        text = substitute_text(word.text, row)
        return Index.of(text) if text in around.constants else Index.of(_number(word, {}, row))

    total = Index.of(0)
    for term in count:
        total = total + prod(map(factor, term), start=Index.of(1))
    return total


@dataclass(frozen=True, slots=True)
class _Turned:
    """One turn of a step: what `for` counts are numbers in it."""

    turn: Turn
    row: Row
    instruction: Instruction | None
    around: Surroundings
    found: Findings

    def step(self, step: Step) -> EmitStep:
        call = resolve_nested(self.nested(step.call), self.row, self.instruction, self.around, self.found)
        if step.name is None:
            return EmitStep("", "", call)
        if step.c_type is None:
            known = self.instruction
            named = named_result(step.name, self.row, known, self.around) if known is not None else ""
            return EmitStep("", named, call)
        c_type, value = substitute_text(step.c_type.text, self.row), self.value(step.name, step.place)
        if not allowed.is_c_type(c_type):
            raise _problem(f"`{c_type}` is not a type of values", step.c_type.span, allowed.shown_types())
        names = [] if self.instruction is None else [o.name for o in self.instruction.operands]
        if value in self.around.values or value in names:
            raise _problem(f"`{value}` has a value already", step.name.span, "give each value a name")
        return EmitStep(c_type, value, call)

    def nested(self, call: Nested) -> Nested:
        """A call with the names of values and places as this turn has them."""
        return replace(call, args=tuple(self.written(a) for a in call.args))

    def written(self, arg: Written) -> Written:
        match arg:
            case Nested():
                return self.nested(arg)
            case Arithmetic():
                return replace(arg, left=self.written(arg.left), right=self.written(arg.right))
            case Argument():
                return self.argument(arg)

    def argument(self, arg: Argument) -> Argument:
        name = substitute_text(arg.name.text, self.row)
        if name in self.turn:
            return replace(arg, name=Word(str(self.turn[name]), arg.name.span))
        operand = next((o for o in self.operands if o.name == name), None)
        if operand is None:
            return replace(arg, name=Word(self.value(arg.name, arg.place), arg.name.span), place=())
        if not arg.place:
            return arg
        place = tuple(self.sum(at) for at in arg.place)
        extents = [extent.value for extent in operand.shape]
        inside = [e is None or 0 <= at < e for at, e in zip(place, extents, strict=False)]
        if (
            len(place) != len(extents)
            or not all(inside)
            or arg.attribute is None
            or arg.attribute.text not in ("addr", "ref")
        ):
            at, shape = (", ".join(map(str, numbers)) for numbers in (place, operand.shape))
            raise _problem(
                f"`{name}[{at}]` is no place of `{name}`, which has shape [{shape}]",
                arg.name.span,
                f"pass `{name}[…].addr`, with a number for each axis",
            )
        numbers = tuple(((Word(str(at), arg.name.span),),) for at in place)
        return replace(arg, place=numbers)

    @property
    def operands(self) -> tuple[Operand, ...]:
        return () if self.instruction is None else self.instruction.operands

    def value(self, name: Word, place: tuple[Sum, ...]) -> str:
        """The name of a value: `r[2*i + 1]` is r[7] where i is 3."""
        text = substitute_text(name.text, self.row)
        return f"{text}[{', '.join(str(self.sum(at)) for at in place)}]" if place else text

    def sum(self, at: Sum) -> int:
        return sum(prod(_number(word, self.turn, self.row) for word in term) for term in at)


def _number(word: Word, turn: Turn, row: Row) -> int:
    text = substitute_text(word.text, row)
    if text in turn:
        return turn[text]
    if is_digits(text):
        return int(text)
    raise _problem(
        f"`{text}` is no whole number", word.span, f"counted are {', '.join(turn)}" if turn else None
    )


def _problem(message: str, span: Span, advice: str | None = None) -> SpecProblem:
    return SpecProblem(Diagnostic("emit-sequence", message, span, help=advice))
