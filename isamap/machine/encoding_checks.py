"""Tables of fields resolved against an instruction, and all that would keep words from being read back.

`holds: z.address` of a memory of 64 KiB in units of 64 bytes needs 10 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import combinations

from isamap.ir import Instruction, Operand
from isamap.machine.allowed import issues
from isamap.machine.encoding_fields import EncodingSpec, FieldSpec, ProgramSpec
from isamap.machine.encodings import (
    BitField,
    Encoding,
    ProgramFormat,
    Quantity,
    Word,
    are_apart,
    constant_words,
)
from isamap.machine.families import Row
from isamap.machine.model import MachineInstruction, Memory
from isamap.machine.tree import Findings, Scalar
from isamap.source import Diagnostic, Span, SpecProblem, is_digits
from isamap.syntax import substitute_text

_BITS = re.compile(r"([0-9]{1,3})(?: *\.\. *([0-9]{1,3}))?")
_NUMBER = re.compile(r"0x[0-9a-fA-F_]{1,40}|0b[01_]{1,140}|[0-9]{1,40}")
_HOLDS = re.compile(r"([A-Za-z0-9_]+)(?:\.(address|stride|index))?")


def resolve_program(spec: ProgramSpec) -> ProgramFormat:
    """What all programs of a machine share. Raises: SpecProblem."""
    source = spec.source.text if spec.source is not None else ""
    begin = _words(spec.begin, {}, spec.word_bits) if spec.begin is not None else ()
    issue = spec.issue.text if spec.issue is not None else ""
    check_issued(begin, issue, "`begin`", spec.begin.span if spec.begin is not None else None)
    for field in (f for word in begin for f in word if isinstance(f.holds, Quantity)):
        said = f"field `{field.name}` holds `{field.holds}`, and no instruction begins a program"
        raise SpecProblem(Diagnostic("encoding-holds", said, field.span, help="write `constant: …`"))
    return ProgramFormat(spec.word_bits, constant_words(begin), issue, source)


def resolve_encoding(
    spec: EncodingSpec,
    row: Row,
    instruction: Instruction,
    memories: Mapping[str, Memory],
    program: ProgramFormat | None,
) -> Encoding:
    """The words of an instruction, from which each issue of it can be read back. Raises: SpecProblem."""
    if program is None:
        raise SpecProblem(
            Diagnostic(
                "encoding-words",
                f"`{instruction.name}` has words, and the machine does not say how large a word is",
                spec.span,
                help="add `program: {word_bits: …, source: …}`",
            )
        )
    words = _words(spec, row, program.word_bits)
    for field in (f for word in words for f in word):
        if isinstance(field.holds, Quantity):
            _check_known(field, field.holds, instruction, memories)
            _check_room(field, field.holds, instruction, memories)
    check_issued(words, program.issue, f"`{instruction.name}`", spec.span)
    encoding = Encoding(words, spec.span)
    if missing := [q for q in decided(instruction, memories) if q not in encoding.quantities]:
        raise SpecProblem(
            Diagnostic(
                "encoding-incomplete",
                f"no field of `{instruction.name}` holds `{missing[0]}`, which each issue decides",
                spec.span,
                help=f"add a field with `holds: {missing[0]}`",
            )
        )
    return encoding


def decided(instruction: Instruction, memories: Mapping[str, Memory]) -> tuple[Quantity, ...]:
    """All that an issue of an instruction decides."""
    found: list[Quantity] = []
    for operand in instruction.operands:
        memory = memories[operand.memory or ""]
        if memory.kind == "registers":
            found += [Quantity("index", operand.name)] if memory.count != 1 else []
            continue
        found.append(Quantity("address", operand.name))
        found += [Quantity("stride", operand.name)] if None in (operand.strides or ()) else []
    params = (p for p in instruction.params if p.low is None or p.high is None or p.low != p.high)
    return (*found, *(Quantity("param", p.name) for p in params))


def check_apart(instructions: Iterable[MachineInstruction], findings: Findings) -> None:
    """Report two instructions some words of which could be either."""
    encoded = [(item.name, item.encoding) for item in instructions if item.encoding is not None]
    for (one, first), (other, second) in combinations(encoded, 2):
        if not are_apart(first, second):
            findings.report(
                "encoding-ambiguous",
                f"`{one}` and `{other}` can have the same words",
                second.span,
                "no bit is a constant of both, and differs",
                advice="give them opcodes that differ, as fields with `constant: …`",
            )


def check_issued(words: tuple[Word, ...], issue: str, what: str, span: Span | None) -> None:
    """Refuse words that the machine's way to give them cannot give. Raises: SpecProblem."""
    if not issue:
        return
    form = issues()[issue]
    if len(words) % form.words:
        said = f"{what} has {len(words)} words, and `issue: {issue}` gives {form.words} at once"
        raise SpecProblem(Diagnostic("encoding-issue", said, span))
    for at, field in ((at, field) for at, word in enumerate(words) for field in word):
        if isinstance(field.holds, Quantity) and not form.takes_any(at % form.words):
            said = f"field `{field.name}` of {what} holds `{field.holds}`, "
            said += f"and `issue: {issue}` takes constants there"
            raise SpecProblem(
                Diagnostic(
                    "encoding-issue",
                    said,
                    field.span,
                    help="move the field into a word that a register holds",
                )
            )


# --- fields -----------------------------------------------------------------------------------------------


def _words(spec: EncodingSpec, row: Row, word_bits: int) -> tuple[Word, ...]:
    return tuple(_word(word, row, word_bits) for word in spec.words)


def _word(specs: tuple[FieldSpec, ...], row: Row, word_bits: int) -> Word:
    """The fields of a word, none of which share a bit. Raises: SpecProblem."""
    fields = tuple(_field(spec, row, word_bits) for spec in specs)
    for one, other in combinations(fields, 2):
        if one.mask & other.mask:
            said = f"fields `{one.name}` and `{other.name}` share bit {min(one.high, other.high)}"
            advice = f"give `{other.name}` bits of its own"
            raise SpecProblem(Diagnostic("encoding-overlap", said, other.span, help=advice))
    return fields


def _field(spec: FieldSpec, row: Row, word_bits: int) -> BitField:
    text = substitute_text(spec.bits.text, row)
    found = _BITS.fullmatch(text)
    high, low = (int(found[1]), int(found[2] or found[1])) if found is not None else (0, 1)
    if low > high or high >= word_bits:
        said = f"`{text}` are no bits of a word of {word_bits}"
        advice = f"write `HIGH..LOW`, from {word_bits - 1} down to 0, or one number"
        raise SpecProblem(Diagnostic("encoding-bits", said, spec.bits.span, help=advice))
    held = _held(spec, row)
    field = BitField(spec.name.text, high, low, held, spec.name.span)
    if isinstance(held, int) and held >= field.limit:
        said = f"field `{field.name}` has {high - low + 1} bits, and its constant is {held}"
        advice = f"give it {held.bit_length()} bits"
        raise SpecProblem(Diagnostic("encoding-too-narrow", said, spec.bits.span, help=advice))
    return field


def _held(spec: FieldSpec, row: Row) -> int | Quantity:
    if spec.constant is not None:
        return _number(spec.constant, row)
    assert spec.holds is not None, "a field has one of both"
    text = substitute_text(spec.holds.text, row)
    found = _HOLDS.fullmatch(text)
    if found is None:
        said = f"`{text}` is nothing that a field holds"
        advice = "write a parameter, or `.address`, `.stride` or `.index` behind an operand"
        raise SpecProblem(Diagnostic("encoding-holds", said, spec.holds.span, help=advice))
    unit = _number(spec.unit, row) if spec.unit is not None else 1
    if unit == 0:
        assert spec.unit is not None, "without a unit it is one"
        raise SpecProblem(Diagnostic("number-out-of-range", "a unit is at least 1", spec.unit.span))
    match found[2]:
        case "address" | "stride" | "index" as kind:
            return Quantity(kind, found[1], unit)
        case _:
            return Quantity("param", found[1], unit)


def _number(text: Scalar, row: Row) -> int:
    written = substitute_text(text.text, row)
    if not _NUMBER.fullmatch(written):
        said = f"`{written}` is no number"
        advice = "write it decimal, as 0x7b, or as 0b1111011"
        raise SpecProblem(Diagnostic("not-a-number", said, text.span, help=advice))
    return int(written) if is_digits(written) else int(written, 0)


def _check_known(
    field: BitField, held: Quantity, instruction: Instruction, memories: Mapping[str, Memory]
) -> None:
    """Refuse what an issue of the instruction does not decide. Raises: SpecProblem."""
    known = decided(instruction, memories)
    if held not in known:
        raise SpecProblem(
            Diagnostic(
                "encoding-holds",
                f"`{held}` is nothing that an issue of `{instruction.name}` decides",
                field.span,
                notes=(f"these are: {', '.join(map(str, known)) or 'none'}",),
            )
        )
    if held.kind == "index" and _memory(held, instruction, memories).named != "immediate":
        memory = _memory(held, instruction, memories).name
        raise SpecProblem(
            Diagnostic(
                "encoding-holds",
                f"registers of `{memory}` have no numbers for `{held}`",
                field.span,
                help=f"declare `{memory}` with `named = immediate`",
            )
        )
    if held.kind == "stride" and _free_axes(instruction.operand(held.name)) > 1:
        said = f"`{held.name}` has several strides that each issue decides; a field holds one"
        raise SpecProblem(Diagnostic("encoding-holds", said, field.span))


def _free_axes(operand: Operand) -> int:
    return sum(stride is None for stride in operand.strides or ())


def _memory(held: Quantity, instruction: Instruction, memories: Mapping[str, Memory]) -> Memory:
    return memories[instruction.operand(held.name).memory or ""]


def _check_room(
    field: BitField, held: Quantity, instruction: Instruction, memories: Mapping[str, Memory]
) -> None:
    """Refuse a field that cannot hold every number that an issue may decide. Raises: SpecProblem."""
    largest = _largest(held, instruction, memories)
    if largest is not None and largest // held.unit >= field.limit:
        bits = field.high - field.low + 1
        raise SpecProblem(
            Diagnostic(
                "encoding-too-narrow",
                f"field `{field.name}` has {bits} bits, and `{held}` may be {largest // held.unit}",
                field.span,
                help=f"give it {(largest // held.unit).bit_length()} bits",
            )
        )


def _largest(held: Quantity, instruction: Instruction, memories: Mapping[str, Memory]) -> int | None:
    """The largest number, before it is divided by the unit; None where the file of a program decides."""
    match held.kind:
        case "address":
            size = _memory(held, instruction, memories).capacity_bytes
            return size - 1 if size is not None else None
        case "index":
            count = _memory(held, instruction, memories).count
            return count - 1 if count is not None else None
        case "stride":
            return None
        case "param":
            param = instruction.param(held.name)
            if param.dtype is not None:
                return (1 << param.dtype.bits) - 1
            return param.high.value if param.high is not None else None
