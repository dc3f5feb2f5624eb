"""Resolve tables of fields for an instruction, and refuse encodings that cannot be decoded.

`holds: z.address` of a memory of 64 KiB in units of 64 bytes needs 10 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from math import prod

from isamap.ir import Index, Instruction, Operand
from isamap.machine.allowed import issues
from isamap.machine.encoding_fields import EncodingSpec, FieldSpec
from isamap.machine.encodings import (
    TOKENS,
    BitField,
    Encoding,
    ProgramFormat,
    Quantity,
    Word,
    are_apart,
    free_axes,
)
from isamap.machine.families import Row
from isamap.machine.model import Machine, MachineInstruction, Memory
from isamap.machine.tree import Findings, ScalarNode
from isamap.source import Diagnostic, Span, SpecProblem, is_digits, replace
from isamap.syntax import substitute_text

_BITS = re.compile(r"([0-9]{1,3})(?: *\.\. *([0-9]{1,3}))?")
_NUMBER = re.compile(r"0x[0-9a-fA-F_]{1,40}|0b[01_]{1,140}|[0-9]{1,40}")
_TOKEN = re.compile(r"(pop|push)\.([A-Za-z0-9_]+)")
_HOLDS = re.compile(r"([A-Za-z0-9_]+)(?:\.(address|step|stride|index|entry)(?:\.([0-9]))?)?")


def resolve_encoding(
    spec: EncodingSpec,
    row: Row,
    instruction: Instruction,
    memories: Mapping[str, Memory],
    program: ProgramFormat | None,
    unit: str,
) -> Encoding:
    """Return the encoded words of a unit's instruction, from which issues can be decoded. Raises: SpecProblem."""
    if not spec.words:
        said = f"`{instruction.name}` has entries of tables, and no words that point to them"
        raise SpecProblem.of("encoding-words", said, spec.span, help="add an `encoding`")
    if program is None:
        raise SpecProblem.of(
            "encoding-words",
            f"`{instruction.name}` has words, and the machine does not say how large a word is",
            spec.span,
            help="add `program: {word_bits: …, source: …}`",
        )
    words = resolve_words(spec, row, check_slot(program, instruction.name, unit, len(spec.words), spec.span))
    words = tuple(tuple(_with_least(field, instruction) for field in word) for word in words)
    encoding = Encoding(words, spec.span, _entries(spec, row, dict(program.tables)))
    known = (*list_decided(instruction, memories), *program.tokens_of(unit))
    held = (*known, *(Quantity("entry", table) for table, _ in encoding.entries))
    steps = _steps(known) if program.bundle is not None and program.bundle.loop is not None else ()
    for field in encoding.fields:
        if isinstance(field.holds, Quantity):
            check_known(field, field.holds, (*held, *steps), f"an issue of `{instruction.name}`")
            _check_numbered(field, field.holds, instruction, memories)
            _check_room(field, field.holds, instruction, memories)
    if program.bundle is not None and not any(value for _, value in encoding.fixed):
        said = f"the word of `{instruction.name}` may be zero, as that of a slot with nothing in it"
        raise SpecProblem.of("encoding-ambiguous", said, spec.span, help="add an opcode of at least 1")
    check_issued(encoding.words, program.issue, f"`{instruction.name}`", spec.span)
    if missing := [q for q in held if q not in encoding.quantities]:
        raise SpecProblem.of(
            "encoding-incomplete",
            f"no field of `{instruction.name}` holds `{missing[0]}`, which each issue decides",
            spec.span,
            help=f"add a field with `holds: {missing[0]}`",
        )
    return encoding


def _steps(known: Iterable[Quantity]) -> tuple[Quantity, ...]:
    """Return the quantities of hardware loops that fields may hold, besides those of each issue."""
    return tuple(Quantity("step", q.name) for q in known if q.kind == "address")


def check_slot(program: ProgramFormat, name: str, unit: str, words: int, span: Span | None) -> int:
    """Return the width of a unit's instruction word in bits. Raises: SpecProblem if no slot takes the words."""
    if program.bundle is None:
        return program.word_bits
    own = [program.bundle.slots[number] for number in program.bundle.slots_of(unit)]
    if not own or words != 1:
        said = (
            f"`{name}` has {words} words, and a slot holds one"
            if own
            else f"`{unit}` of `{name}` has no slot"
        )
        raise SpecProblem.of("encoding-words", said, span, help="see `slots` in `bundle` of `program`")
    return own[0].bits


def _with_least(field: BitField, instruction: Instruction) -> BitField:
    """Return the field with the lower bound of the parameter that it holds."""
    if not isinstance(field.holds, Quantity) or field.holds.kind != "param":
        return field
    low = next((p.low for p in instruction.params if p.name == field.holds.name and p.dtype is None), None)
    least = low.value if low is not None and low.value is not None else 0
    return replace(field, least=-(-least // field.holds.unit))


def _entries(spec: EncodingSpec, row: Row, tables: Mapping[str, int]) -> tuple[tuple[str, Word], ...]:
    """Return the table entries of an encoding. Raises: SpecProblem if the machine lacks one of the tables."""
    for name, _ in spec.entries:
        if name.text not in tables:
            said = f"there is no table called `{name.text}`"
            advice = f"add `tables: {{{name.text}: {{word_bits: …}}}}` to `program`"
            raise SpecProblem.of("encoding-holds", said, name.span, help=advice)
    return tuple((name.text, _word(fields, row, tables[name.text])) for name, fields in spec.entries)


def list_decided(instruction: Instruction, memories: Mapping[str, Memory]) -> tuple[Quantity, ...]:
    """Return all quantities that each issue of an instruction determines."""
    found: list[Quantity] = []
    for operand in instruction.operands:
        memory = memories[operand.memory or ""]
        if memory.kind == "registers":
            found += [Quantity("index", operand.name)] if memory.count != 1 else []
            continue
        found.append(Quantity("address", operand.name))
        strides = range(len(free_axes(operand)))
        found += [Quantity("stride", operand.name, number=number) for number in strides]
    params = (p for p in instruction.params if p.low is None or p.high is None or p.low != p.high)
    return (*found, *(Quantity("param", p.name) for p in params))


def check_apart(
    instructions: Iterable[MachineInstruction], program: ProgramFormat | None, findings: Findings
) -> None:
    """Report each pair of instructions whose encodings are ambiguous. Slots are compared for one unit at a time."""
    encoded = [
        (item.name, item.encoding, item.cost.unit) for item in instructions if item.encoding is not None
    ]
    for (one, first, unit), (other, second, its) in combinations(encoded, 2):
        in_one_slot = program is None or program.bundle is None or unit == its
        if in_one_slot and not are_apart(first, second):
            findings.report(
                "encoding-ambiguous",
                f"`{one}` and `{other}` can have the same words",
                second.span,
                "no bit is a constant of both, and differs",
                advice="give them opcodes that differ, as fields with `constant: …`",
            )


def odd_units(machine: Machine) -> Iterator[Diagnostic]:
    """Yield a warning for each field whose unit does not divide a memory's entries, or differs among operands."""
    first: dict[str, tuple[BitField, int, str]] = {}
    told: set[Span | None] = set()
    for item in machine.instructions.values():
        for field in item.encoding.fields if item.encoding is not None else ():
            if not isinstance(field.holds, Quantity) or field.holds.kind != "address" or field.span in told:
                continue
            operand, unit = item.instruction.operand(field.holds.name), field.holds.unit
            size, memory = _entry_bytes(operand), machine.memories[operand.memory or ""]
            _, other, name = first.setdefault(memory.name, (field, unit, item.name))
            if size is not None and size % unit:
                said = f"entries of `{operand.name}` have {size} bytes"
                advice = f"write a `unit` that divides {size}"
            elif memory.kind == "scratchpad" and unit != other:
                said = f"`{name}` points into `{memory.name}` in units of {other}"
                advice = "give both fields the unit that the hardware counts in"
            else:
                continue
            told.add(field.span)
            yield Diagnostic(
                "encoding-unit",
                f"field `{field.name}` of `{item.name}` holds `{field.holds}` in units of {unit} bytes, "
                f"and {said}",
                field.span,
                severity="warning",
                help=advice,
            )


def _entry_bytes(operand: Operand) -> int | None:
    """Return the bytes from one entry of an operand to the next: its size, or one row for an open number of rows."""
    *rows, last = operand.shape or (Index.of(1),)
    extents = [extent.value for extent in (*rows, last)]
    if None not in extents and None not in (operand.strides or ()):
        inner = extents
    elif operand.strides is not None and (stride := operand.strides[0]) is not None:
        inner = [stride.value]
    else:
        inner = extents[1:]
    if not inner or None in inner:
        return None
    return prod(extent for extent in inner if extent is not None) * operand.dtype.bits // 8


def check_issued(words: tuple[Word, ...], issue: str, what: str, span: Span | None) -> None:
    """Refuse encoded words that the machine cannot receive in its way of issuing. Raises: SpecProblem."""
    if not issue:
        return
    form = issues()[issue]
    if len(words) % form.words:
        said = f"{what} has {len(words)} words, and `issue: {issue}` gives {form.words} at once"
        raise SpecProblem.of("encoding-issue", said, span)
    for at, field in ((at, field) for at, word in enumerate(words) for field in word):
        if isinstance(field.holds, Quantity) and not form.takes_any(at % form.words):
            said = f"field `{field.name}` of {what} holds `{field.holds}`, "
            said += f"and `issue: {issue}` takes constants there"
            raise SpecProblem.of(
                "encoding-issue", said, field.span, help="move the field into a word that a register holds"
            )


# --- fields -----------------------------------------------------------------------------------------------


def resolve_words(spec: EncodingSpec, row: Row, word_bits: int) -> tuple[Word, ...]:
    """Return the words of a list, each a table of fields. Raises: SpecProblem."""
    return tuple(_word(word, row, word_bits) for word in spec.words)


def _word(specs: tuple[FieldSpec, ...], row: Row, word_bits: int) -> Word:
    """Return the fields of a word. Raises: SpecProblem if two of them share a bit."""
    fields = tuple(_field(spec, row, word_bits) for spec in specs)
    for one, other in combinations(fields, 2):
        if one.mask & other.mask:
            said = f"fields `{one.name}` and `{other.name}` share bit {min(one.high, other.high)}"
            advice = f"give `{other.name}` bits of its own"
            raise SpecProblem.of("encoding-overlap", said, other.span, help=advice)
    return fields


def _field(spec: FieldSpec, row: Row, word_bits: int) -> BitField:
    high, low = read_bits(spec.bits, row, word_bits)
    held = _read_held(spec, row)
    field = BitField(spec.name.text, high, low, held, spec.name.span)
    if isinstance(held, int) and held >= field.limit:
        said = f"field `{field.name}` has {high - low + 1} bits, and its constant is {held}"
        advice = f"give it {held.bit_length()} bits"
        raise SpecProblem.of("encoding-too-narrow", said, spec.bits.span, help=advice)
    return field


def read_bits(written: ScalarNode, row: Row, word_bits: int) -> tuple[int, int]:
    """Return the highest and the lowest of some bits of a word. Raises: SpecProblem."""
    text = substitute_text(written.text, row)
    found = _BITS.fullmatch(text)
    high, low = (int(found[1]), int(found[2] or found[1])) if found is not None else (0, 1)
    if low > high or high >= word_bits:
        said = f"`{text}` does not select bits of a word of {word_bits}"
        advice = f"write `HIGH..LOW`, from {word_bits - 1} down to 0, or one number"
        raise SpecProblem.of("encoding-bits", said, written.span, help=advice)
    return high, low


def _read_held(spec: FieldSpec, row: Row) -> int | Quantity:
    if spec.constant is not None:
        return _number(spec.constant, row)
    assert spec.holds is not None, "a field has one of both"
    text = substitute_text(spec.holds.text, row)
    if (token := _TOKEN.fullmatch(text)) is not None:
        return Quantity("pop" if token[1] == "pop" else "push", token[2])
    found = _HOLDS.fullmatch(text)
    if found is None:
        said = f"`{text}` is not a value that a field holds"
        advice = "write a parameter, or `.address`, `.stride` or `.index` behind an operand"
        raise SpecProblem.of("encoding-holds", said, spec.holds.span, help=advice)
    unit = _number(spec.unit, row) if spec.unit is not None else 1
    if unit == 0:
        assert spec.unit is not None, "without a unit it is one"
        raise SpecProblem.of("number-out-of-range", "a unit is at least 1", spec.unit.span)
    match found[2]:
        case "address" | "step" | "stride" | "index" | "entry" as kind:
            return Quantity(kind, found[1], unit, int(found[3] or 0))
        case _:
            return Quantity("param", found[1], unit)


def _number(text: ScalarNode, row: Row) -> int:
    written = substitute_text(text.text, row)
    if not _NUMBER.fullmatch(written):
        said = f"`{written}` is not a number"
        advice = "write it decimal, as 0x7b, or as 0b1111011"
        raise SpecProblem.of("not-a-number", said, text.span, help=advice)
    return int(written) if is_digits(written) else int(written, 0)


def check_known(field: BitField, held: Quantity, known: Iterable[Quantity], what: str) -> None:
    """Refuse a quantity that has no value at this place, and token fields of several bits. Raises: SpecProblem."""
    if held not in known:
        raise SpecProblem.of(
            "encoding-holds",
            f"`{held}` is not a value that {what} decides",
            field.span,
            notes=(f"these are: {', '.join(map(str, known)) or 'none'}",),
        )
    if held.kind in TOKENS and field.limit > 2:
        said = f"field `{field.name}` holds `{held}`, which is one bit"
        raise SpecProblem.of("encoding-bits", said, field.span, help="give it one bit")


def _check_numbered(
    field: BitField, held: Quantity, instruction: Instruction, memories: Mapping[str, Memory]
) -> None:
    """Refuse registers without numbers. Raises: SpecProblem."""
    if held.kind == "index" and _memory(held, instruction, memories).named != "immediate":
        memory = _memory(held, instruction, memories).name
        raise SpecProblem.of(
            "encoding-holds",
            f"registers of `{memory}` have no numbers for `{held}`",
            field.span,
            help=f"declare `{memory}` with `named = immediate`",
        )


def _memory(held: Quantity, instruction: Instruction, memories: Mapping[str, Memory]) -> Memory:
    return memories[instruction.operand(held.name).memory or ""]


def _check_room(
    field: BitField, held: Quantity, instruction: Instruction, memories: Mapping[str, Memory]
) -> None:
    """Refuse a field that is too narrow for a number that an issue may need. Raises: SpecProblem."""
    largest = _largest(held, instruction, memories)
    if largest is not None and largest // held.unit >= field.limit:
        bits = field.high - field.low + 1
        raise SpecProblem.of(
            "encoding-too-narrow",
            f"field `{field.name}` has {bits} bits, and `{held}` may be {largest // held.unit}",
            field.span,
            help=f"give it {(largest // held.unit).bit_length()} bits",
        )


def _largest(held: Quantity, instruction: Instruction, memories: Mapping[str, Memory]) -> int | None:
    """Return the largest number before the division by the unit, or None if the program determines it."""
    match held.kind:
        case "address":
            size = _memory(held, instruction, memories).capacity_bytes
            return size - 1 if size is not None else None
        case "index":
            count = _memory(held, instruction, memories).count
            return count - 1 if count is not None else None
        case "step" | "stride" | "entry" | "pop" | "push":
            return None
        case "param":
            param = instruction.param(held.name)
            if param.dtype is not None:
                return (1 << param.dtype.bits) - 1
            return param.high.value if param.high is not None else None
