"""What `bundle` of `program` says, resolved: slots that share no bits, marks, and the word of a loop.

slots: [{unit: load, bits: 39..0}, {unit: mac, bits: 53..40}]   two instructions in one word
"""

from __future__ import annotations

from itertools import combinations

from isamap.machine.encoding_checks import check_known, read_bits, resolve_words
from isamap.machine.encoding_fields import BundleSpec, EncodingSpec
from isamap.machine.encodings import (
    LOOPED,
    TRIPS,
    Bundle,
    Encoding,
    ProgramFormat,
    Quantity,
    Slot,
)
from isamap.source import Diagnostic, SpecProblem


def resolve_bundle(spec: BundleSpec, program: ProgramFormat) -> Bundle:
    """The slots of words, what marks them, and the word of a loop. Raises: SpecProblem."""
    if program.issue or program.queues or program.end is not None:
        said = "words with slots are performed one behind the other, and `issue`, `tokens` and `end` are not"
        raise SpecProblem(Diagnostic("encoding-issue", said, spec.span, help="leave one of both out"))
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
    """Whether a constant of one stands where the other has another constant."""
    (marked,) = marks.words
    constants = [f for f in marked if isinstance(f.holds, int)]
    ((bits, value),) = loop.fixed
    return any(bits & f.mask == f.mask and f.get(value) != f.holds for f in constants)
