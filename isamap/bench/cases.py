"""The common part of all kinds of benchmarked cases: suites, selection of rows, and element types.

A kind of cases (`kind.py`) has rows of its own: products (`product_cases.py`), recurrent layers (`cells.py`),
convolutions (`convolution_cases.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from isamap.ir import DTYPES
from isamap.source import UsageProblem, dataclass, is_digits

A = TypeVar("A")
SUITES = ("training", "inference_server", "inference_device")


class SuiteCase(Protocol):
    """One row of a suite. `position` numbers the chosen rows from 0.

    `class_name` says which geometric mean the row belongs to, `sizes` are the suite's own, `bindings` those
    of the kernel's text.
    """

    @property
    def position(self) -> int: ...
    @property
    def suite(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def class_name(self) -> str: ...
    @property
    def operations(self) -> int: ...
    @property
    def sizes(self) -> Mapping[str, int]: ...
    @property
    def bindings(self) -> Mapping[str, int]: ...


def pick_rows(cases: Sequence[A], words: str | None) -> tuple[A, ...]:
    """Return the rows that `0,3,9`, `10..20` or `0..247/5` (every fifth) selects. Raises: UsageProblem."""
    if words is None:
        return tuple(cases)
    expected: dict[int, None] = {}
    for word in words.split(","):
        expected |= dict.fromkeys(_positions(word.strip(), len(cases)))
    return tuple(cases[position] for position in expected)


def _positions(word: str, count: int) -> range:
    span, _, step = word.partition("/")
    first, dots, last = span.partition("..")
    numbers = (first, last if dots else first, step or "1")
    if not all(is_digits(number) and len(number) < 19 for number in numbers):
        raise _refuse_case(f"`{word[:40]}` names no rows", count)
    low, high, every = (int(number) for number in numbers)
    if not low <= high < count or every < 1:
        raise _refuse_case(f"there are no rows {word[:40]}", count)
    return range(low, high + 1, every)


def _refuse_case(message: str, count: int) -> UsageProblem:
    return UsageProblem.of(
        "bench-rows",
        message,
        notes=(f"the chosen suites have rows 0 to {count - 1}",),
        help="write --rows 0,3,9 or --rows 10..20 or --rows 0..100/5",
    )


@dataclass(frozen=True, slots=True)
class Types:
    """The element types of a row: of A (activations), B (weights), C (result), and of the sum."""

    name: str
    a: str
    b: str
    c: str
    sum: str

    @property
    def is_float(self) -> bool:
        return self.sum == "f32"

    @property
    def requantises(self) -> bool:
        """Return whether integer sums are stored as bytes: scaled, rounded half to even, saturated."""
        return not self.is_float and self.c != self.sum

    def element_bytes(self, operand: str) -> int:
        """Return the bytes of one element of operand A, B or C."""
        return DTYPES[{"A": self.a, "B": self.b, "C": self.c}[operand]].size_bytes

    def widened(self, operand: str, read: str) -> str:
        """Return a read of A or B, converted to the type of the sum."""
        return read if getattr(self, operand.lower()) == self.sum else f"{self.sum}({read})"


def scale_of(depth: int) -> float:
    """Return a power of two by which few sums of `depth` products of random bytes saturate."""
    return 2.0 ** -(6 + depth.bit_length() // 2)


def requantising(form: Types, target: str, sums: str, depth: int) -> str:
    """Return the assignment that requantises sums to the type of the result."""
    scale = f"{scale_of(depth):.24f}".rstrip("0")  # exact, and without an exponent
    return f"{target} = sat_{form.c}(round(f32({sums}) * {scale}, even));"


F32 = Types("f32", "f32", "f32", "f32", "f32")
BF16 = Types("bf16", "bf16", "bf16", "bf16", "f32")
BF16_F32 = Types("bf16_f32", "bf16", "bf16", "f32", "f32")
S8S8 = Types("s8s8", "i8", "i8", "i32", "i32")
U8S8 = Types("u8s8", "u8", "i8", "i32", "i32")
S8 = Types("s8", "i8", "i8", "i8", "i32")
FORMS = {form.name: form for form in (F32, BF16, BF16_F32, S8S8, U8S8)}
SIMULATED_FORMS = {"int8": S8, "int8-sums": S8S8, "bf16": BF16, "f32": F32}
"""The element types of rows on simulated machines; sums of bytes leave as bytes, or as sums."""
