"""Values of `--set PATH=VALUES`: lists, doublings and steps, sizes with their units.

spad.bytes=64KiB..1MiB   ->  64KiB 128KiB 256KiB 512KiB 1MiB
rows=8..32+8             ->  8 16 24 32
count=1,2,4              ->  1 2 4
"""

from __future__ import annotations

import re

from isamap.source import Diagnostic, UsageProblem
from isamap.source.numbers import BYTES_PER_UNIT
from isamap.source.records import dataclass

MOST_VALUES = 1000
_NUMBER = rf"(?P<{{0}}>[0-9]{{{{1,12}}}}(?:[.][0-9]{{{{1,9}}}})?)(?P<{{0}}_unit>{'|'.join(BYTES_PER_UNIT)})?"
_ONE = re.compile(_NUMBER.format("value"))
_RANGE = re.compile(rf"{_NUMBER.format('low')}\.\.{_NUMBER.format('high')}(?:\+{_NUMBER.format('step')})?")


@dataclass(frozen=True, slots=True)
class Setting:
    """A figure of a description and its values, as words and as numbers in the order of the sweep."""

    path: str
    words: tuple[str, ...]
    numbers: tuple[float, ...]


def read_setting(text: str) -> Setting:
    """Return the ranges that `--set` gives. Raises: UsageProblem."""
    path, sign, values = text.partition("=")
    if not sign or not path.strip() or not values:
        raise _problem(f"--set takes PATH=VALUES, not `{text[:60]}`")
    words = [word for part in values.split(",") for word in _words(part.strip())]
    if len(words) > MOST_VALUES:
        raise _problem(f"`{text[:60]}` are {len(words)} values; the most are {MOST_VALUES}")
    return Setting(path.strip(), tuple(words), tuple(map(_number, words)))


def _words(part: str) -> list[str]:
    if _ONE.fullmatch(part):
        return [part]
    found = _RANGE.fullmatch(part)
    if found is None:
        raise _problem(f"`{part[:40]}` is no value")
    low, high = (
        _number(found["low"] + (found["low_unit"] or "")),
        _number(found["high"] + (found["high_unit"] or "")),
    )
    step = _number(found["step"] + (found["step_unit"] or "")) if found["step"] else None
    if low <= 0 or high < low or step == 0:
        raise _problem(f"`{part[:40]}` is no range from less to more, above 0")
    numbers: list[float] = []
    value = low
    while value <= high and len(numbers) <= MOST_VALUES:
        numbers.append(value)
        value = value + step if step is not None else 2 * value
    is_size = bool(found["low_unit"] or found["high_unit"])
    return [number_text(number, is_size) for number in numbers]


def number_text(number: float, is_size: bool) -> str:
    """Return a number as it is written, sizes in the largest unit that divides them."""
    units = [(unit, size) for unit, size in BYTES_PER_UNIT.items() if is_size and number % size == 0]
    unit, size = max(units, key=lambda pair: pair[1], default=("", 1))
    return f"{number / size:.15g}{unit}"


def _number(word: str) -> float:
    found = _ONE.fullmatch(word)
    assert found is not None, "it was read before"
    return float(found["value"]) * BYTES_PER_UNIT.get(found["value_unit"] or "", 1)


def _problem(said: str) -> UsageProblem:
    advice = "write `memories.spad.bytes=64KiB..1MiB`, `clock_ghz=1..3+0.5` or `units.fma.count=1,2`"
    return UsageProblem(Diagnostic("option-value", said, help=advice))
