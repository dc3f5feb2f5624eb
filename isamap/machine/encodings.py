"""Instruction encodings: words of bit fields, each a constant or a quantity that one issue determines.

    bits: 31..0, holds: z.address, unit: 16     ->  BitField("local", 31, 0, Quantity("address", "z", 16))

An encoding is invertible. Each bit belongs to one field at most and is zero otherwise, and each quantity
that an issue determines has a field.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm
from typing import Literal

from isamap.ir import Operand
from isamap.source import Span, dataclass, field

QuantityKind = Literal["address", "step", "stride", "index", "param", "entry", "pop", "push"]
TOKENS = ("pop", "push")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of one issue: an operand's address, row stride or register number, or a parameter.

    `entry` is the place of the issue's entry in a table. `pop` and `push` say whether the issue takes a
    token from a unit or gives one. `step` is the change of an operand's address in each iteration of a
    hardware loop, and may be negative. `number` counts the strides that an issue decides, the outermost
    first. Units: addresses, steps and strides in `unit` bytes, a parameter in `unit`s of itself.
    """

    kind: QuantityKind
    name: str
    unit: int = field(default=1, compare=False)
    number: int = 0

    def __str__(self) -> str:
        if self.kind in TOKENS:
            return f"{self.kind}.{self.name}"
        behind = f".{self.number}" if self.number else ""
        return self.name if self.kind == "param" else f"{self.name}.{self.kind}{behind}"


def free_axes(operand: Operand) -> tuple[int, ...]:
    """Return the axes of an operand whose strides each issue decides."""
    return tuple(axis for axis, stride in enumerate(operand.strides or ()) if stride is None)


@dataclass(frozen=True, slots=True)
class BitField:
    """Bits `high` to `low` of a word, both included: a constant, or `least` or more units of a quantity."""

    name: str
    high: int
    low: int
    holds: int | Quantity
    span: Span | None = field(default=None, compare=False, repr=False)
    least: int = 0

    def __str__(self) -> str:
        unit = f" / {self.holds.unit}" if isinstance(self.holds, Quantity) and self.holds.unit != 1 else ""
        return f"{self.name} {self.high}..{self.low} = {self.holds}{unit}"

    @property
    def limit(self) -> int:
        """The first number that is too large for the field."""
        return 1 << (self.high - self.low + 1)

    @property
    def mask(self) -> int:
        """The bits of the word that the field occupies."""
        return (self.limit - 1) << self.low

    @property
    def holdable(self) -> tuple[int, int]:
        """The least and the largest number that fit. A step may be negative, in two's complement."""
        if isinstance(self.holds, Quantity) and self.holds.kind == "step":
            return -(self.limit // 2), self.limit // 2 - 1
        return 0, self.limit - 1

    def number(self, word: int) -> int:
        """Return the number in this field of a word. It may be negative if the field is signed."""
        found, (_, largest) = self.get(word), self.holdable
        return found if found <= largest else found - self.limit

    def put(self, value: int) -> int:
        """Return a word in which only this field is set."""
        return value << self.low

    def get(self, word: int) -> int:
        """Return the bits of this field in a word."""
        return (word & self.mask) >> self.low


Word = tuple[BitField, ...]


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoded words of an instruction, in order, and its entries in tables."""

    words: tuple[Word, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    entries: tuple[tuple[str, Word], ...] = ()

    def __str__(self) -> str:
        return " ".join(f"[{', '.join(map(str, word))}]" for word in self.words)

    def unit_of(self, operand: str) -> int:
        """Return the alignment that the fields require of an operand's address. Units: bytes."""
        held = (f.holds for f in self.fields if isinstance(f.holds, Quantity))
        return lcm(*(q.unit for q in held if (q.kind, q.name) == ("address", operand)))

    @property
    def fields(self) -> tuple[BitField, ...]:
        """The fields of the encoded words, followed by the fields of the table entries."""
        return tuple(f for word in (*self.words, *(word for _, word in self.entries)) for f in word)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """All quantities in the fields, without repetitions."""
        held = (f.holds for f in self.fields)
        return tuple(dict.fromkeys(q for q in held if isinstance(q, Quantity)))

    @property
    def fixed(self) -> tuple[tuple[int, int], ...]:
        """Return, for each word, the mask of the bits that are equal in every issue, and their values."""
        return tuple(_fixed_bits(word) for word in self.words)


def _fixed_bits(word: Word) -> tuple[int, int]:
    """Return the mask and the value of the constant bits of a word. Bits of no field are zero."""
    free = sum(f.mask for f in word if isinstance(f.holds, Quantity))
    return ~free, sum(f.put(f.holds) for f in word if isinstance(f.holds, int))


def are_apart(one: Encoding, other: Encoding) -> bool:
    """Return whether no encoded word can be decoded as both instructions."""
    return (
        any(
            (one_bits & other_bits) & (one_value ^ other_value)
            for (one_bits, one_value), (other_bits, other_value) in zip(one.fixed, other.fixed, strict=False)
        )
        or _is_less(one, other)
        or _is_less(other, one)
    )


def _is_less(one: Encoding, other: Encoding) -> bool:
    """Return whether a constant of `one` is below the least number that a field of `other` encodes."""
    return any(
        bits & field.mask == field.mask and field.get(value) < field.least
        for (bits, value), word in zip(one.fixed, other.words, strict=False)
        for field in word
    )


@dataclass(frozen=True, slots=True)
class TokenQueue:
    """A queue of at most `depth` tokens that one unit pushes and another unit waits for and pops."""

    giver: str
    taker: str
    depth: int


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """The final words of a program, and the unit that executes them when all other units have finished."""

    unit: str
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class WordBits:
    """Bits `high` to `low` of a word, for one instruction of a unit. They are zero if the slot is empty."""

    unit: str
    high: int
    low: int
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def bits(self) -> int:
        """The number of bits."""
        return self.high - self.low + 1

    def put(self, word: int) -> int:
        """Return a bundle word in which only this slot has an instruction's word."""
        return word << self.low

    def get(self, word: int) -> int:
        """Return the word of the instruction in this slot."""
        return word >> self.low & ((1 << self.bits) - 1)


TRIPS, LOOPED = Quantity("param", "trips"), Quantity("param", "words")
"""The fields of a hardware loop: its trip count, and the number of words that it repeats."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A format of encoded words with an instruction in each of several slots. Slots are performed in parallel.

    `marks` are constant fields of each such word. `loop` is the word that repeats those after it.
    """

    slots: tuple[WordBits, ...]
    marks: Encoding
    loop: Encoding | None = None

    @property
    def mark(self) -> int:
        """A word with all slots empty."""
        return constant_words(self.marks.words)[0]

    def slots_of(self, unit: str) -> tuple[int, ...]:
        """Return the numbers of the slots for instructions of a unit."""
        return tuple(number for number, slot in enumerate(self.slots) if slot.unit == unit)


@dataclass(frozen=True, slots=True)
class ProgramFormat:
    """The format that all encoded programs of a machine share.

    `issue` names the way in which a processor passes words to the accelerator, one of `hw_specs/families`.
    `tables` maps each table to the bits of an entry. With a `bundle` an instruction has one word, in a slot.
    Units: `first_address`, the lowest address of an array in main memory, in bytes.
    """

    word_bits: int
    begin: tuple[int, ...] = ()
    issue: str = ""
    source: str = ""
    end: ProgramEnd | None = None
    queues: tuple[TokenQueue, ...] = ()
    tables: tuple[tuple[str, int], ...] = ()
    first_address: int = 0
    bundle: Bundle | None = None

    def tokens_of(self, unit: str) -> tuple[Quantity, ...]:
        """Return all tokens that a unit takes or gives."""
        taken = (Quantity("pop", q.giver) for q in self.queues if q.taker == unit)
        given = (Quantity("push", q.taker) for q in self.queues if q.giver == unit)
        return (*taken, *given)


def constant_words(words: Iterable[Word]) -> tuple[int, ...]:
    """Return the words of fields that are all constants."""
    return tuple(_fixed_bits(word)[1] for word in words)
