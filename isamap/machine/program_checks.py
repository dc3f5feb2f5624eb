"""Resolve `program`: the words at the beginning and end of all programs, token queues, tables and bundles."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from isamap.machine.encoding_checks import check_issued, check_known, read_bits, resolve_words
from isamap.machine.encoding_fields import BundleSpec, EncodingSpec, ProgramSpec
from isamap.machine.encodings import (
    LOOPED,
    TRIPS,
    Bundle,
    Encoding,
    ProgramEnd,
    ProgramFormat,
    Quantity,
    Slot,
    TokenQueue,
    constant_words,
)
from isamap.machine.tree import Scalar
from isamap.source import Diagnostic, SpecProblem
from isamap.source.records import replace


def resolve_program(spec: ProgramSpec, units: Collection[str]) -> ProgramFormat:
    """Return the format that all programs of a machine share. Raises: SpecProblem."""
    begin = resolve_words(spec.begin, {}, spec.word_bits) if spec.begin is not None else ()
    issue = spec.issue.text if spec.issue is not None else ""
    check_issued(begin, issue, "`begin`", spec.begin.span if spec.begin is not None else None)
    for field in (f for word in begin for f in word if isinstance(f.holds, Quantity)):
        said = f"field `{field.name}` holds `{field.holds}`, and no instruction begins a program"
        raise SpecProblem(Diagnostic("encoding-holds", said, field.span, help="write `constant: …`"))
    found = ProgramFormat(
        spec.word_bits,
        constant_words(begin),
        issue,
        spec.source.text if spec.source is not None else "",
        queues=_queues(spec, units),
        tables=spec.tables,
        first_address=spec.first_address,
    )
    found = replace(found, end=_end(spec, found, units))
    if spec.bundle is not None:
        for unit in spec.bundle.slots:
            _check_unit(unit.unit, units)
        found = replace(found, bundle=resolve_bundle(spec.bundle, found))
    if issue and spec.issue is not None and (found.queues or found.tables or found.end is not None):
        said = f"`issue: {issue}` gives words one by one: `tokens`, `tables` and `end` are of whole programs"
        raise SpecProblem(
            Diagnostic("encoding-issue", said, spec.issue.span, help="leave out one of the two")
        )
    return found


def stand_in(spec: ProgramSpec) -> ProgramFormat:
    """Return the format to check instructions against where `program` was refused, to report each error once."""
    queues = tuple(TokenQueue(q.giver.text, q.taker.text, q.depth) for q in spec.queues)
    bundle = None
    if spec.bundle is not None:
        slots = tuple(Slot(s.unit.text, spec.word_bits - 1, 0) for s in spec.bundle.slots)
        bundle = Bundle(slots, Encoding(()), Encoding(()))
    return ProgramFormat(spec.word_bits, queues=queues, tables=spec.tables, bundle=bundle)


def _queues(spec: ProgramSpec, units: Collection[str]) -> tuple[TokenQueue, ...]:
    """Return the queues, of which two units have one in each direction. Raises: SpecProblem."""
    found: list[TokenQueue] = []
    for queue in spec.queues:
        for unit in (queue.giver, queue.taker):
            _check_unit(unit, units)
        giver, taker = queue.giver.text, queue.taker.text
        if giver == taker or any((q.giver, q.taker) == (giver, taker) for q in found):
            why = "its own instructions in order" if giver == taker else "one queue in each direction"
            said = f"a unit has {why}: `from: {giver}, to: {taker}` is no queue"
            raise SpecProblem(Diagnostic("tokens-queue", said, queue.taker.span))
        found.append(TokenQueue(giver, taker, queue.depth))
    return tuple(found)


def _end(spec: ProgramSpec, program: ProgramFormat, units: Collection[str]) -> ProgramEnd | None:
    """Return the words at the end, which say only what their unit waits for. Raises: SpecProblem."""
    if spec.end is None:
        return None
    unit, written = spec.end
    _check_unit(unit, units)
    encoding = Encoding(resolve_words(written, {}, spec.word_bits), written.span)
    taken = [q for q in program.tokens_of(unit.text) if q.kind == "pop"]
    for field in encoding.fields:
        if isinstance(field.holds, Quantity):
            check_known(field, field.holds, taken, "the end of a program")
    return ProgramEnd(unit.text, encoding)


def _check_unit(unit: Scalar, units: Collection[str]) -> None:
    if unit.text not in units:
        known = f"known: {', '.join(sorted(units))}" if units else "there is none"
        said = f"there is no unit called `{unit.text}`"
        raise SpecProblem(Diagnostic("unknown-unit", said, unit.span, notes=(known,)))


# What `bundle` of `program` says, resolved: slots that share no bits, marks, and the word of a loop.
#
# slots: [{unit: load, bits: 39..0}, {unit: mac, bits: 53..40}]   two instructions in one word


def resolve_bundle(spec: BundleSpec, program: ProgramFormat) -> Bundle:
    """Return the slots of words, what marks them, and the word of a loop. Raises: SpecProblem."""
    if program.issue or program.queues or program.end is not None:
        said = "words with slots are performed one behind the other, and `issue`, `tokens` and `end` are not"
        raise SpecProblem(Diagnostic("encoding-issue", said, spec.span, help="leave out one of the two"))
    slots = tuple(
        Slot(s.unit.text, *read_bits(s.bits, {}, program.word_bits), s.bits.span) for s in spec.slots
    )
    marks = _one_word(spec.marks, program, (), "the words with slots")
    _check_slots(slots, marks)
    loop = None
    if spec.loop is not None:
        loop = _one_word(spec.loop, program, (TRIPS, LOOPED), "a loop")
        if missing := [q for q in (TRIPS, LOOPED) if q not in loop.quantities]:
            said = f"no field of `loop` holds `{missing[0]}`"
            advice = f"add a field with `holds: {missing[0]}`"
            raise SpecProblem(Diagnostic("encoding-incomplete", said, spec.loop.span, help=advice))
        if not _differ(marks, loop):
            said = "the word of a loop and one with slots can be the same"
            advice = "give `marks` and `loop` constants that differ in the same bits"
            raise SpecProblem(Diagnostic("encoding-ambiguous", said, spec.loop.span, help=advice))
    return Bundle(slots, marks, loop)


def _one_word(spec: EncodingSpec, program: ProgramFormat, held: tuple[Quantity, ...], what: str) -> Encoding:
    encoding = Encoding(resolve_words(spec, {}, program.word_bits), spec.span)
    for field in encoding.fields:
        if isinstance(field.holds, Quantity):
            check_known(field, field.holds, held, what)
    return encoding


def _check_slots(slots: tuple[Slot, ...], marks: Encoding) -> None:
    """Refuse slots that share bits, or of one unit that differ in width. Raises: SpecProblem."""
    taken = [(f.high, f.low) for f in marks.fields] + [(s.high, s.low) for s in slots]
    for number, slot in enumerate(slots, len(marks.fields)):
        for high, low in taken[:number]:
            if low <= slot.high and slot.low <= high:
                said = f"a slot of `{slot.unit}` shares bit {min(high, slot.high)}"
                raise SpecProblem(
                    Diagnostic("encoding-overlap", said, slot.span, help="give it bits of its own")
                )
    for one, other in combinations(slots, 2):
        if one.unit == other.unit and one.bits != other.bits:
            said = f"slots of `{one.unit}` have {one.bits} and {other.bits} bits; an instruction has one word"
            raise SpecProblem(Diagnostic("encoding-bits", said, other.span, help="make them equally wide"))


def _differ(marks: Encoding, loop: Encoding) -> bool:
    """Return whether a constant of one stands where the other has another constant."""
    (marked,) = marks.words
    constants = [f for f in marked if isinstance(f.holds, int)]
    ((bits, value),) = loop.fixed
    return any(bits & f.mask == f.mask and f.get(value) != f.holds for f in constants)
