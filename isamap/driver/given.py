"""Check the arguments of a call from Python: sizes, decisions, counts, names, flags and machines.

given_sizes({"M": np.int64(4), "N": "1..64@16"}) -> {"M": 4, "N": "1..64@16"} given_sizes({"M": 4.0}) ->
refused: `M` is a whole number, or a range …

A machine is a shipped name, a path, or "host".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TypeVar, cast

from isamap.driver.inputs import check_text
from isamap.driver.inputs import machine_of as machine_called
from isamap.driver.request import BEST_FORM, MOST_FORMS, Size, is_range
from isamap.machine import Machine
from isamap.machine import load_machine as load_named
from isamap.source import (
    Diagnostic,
    Source,
    UsageProblem,
    did_you_mean,
    real_number,
    shown,
    truth_value,
    whole_number,
)

C = TypeVar("C", bound=str)
_MOST_WRITTEN = 1 << 53  # beyond that floats are not the whole numbers that they were written as


def given_sizes(sizes: object) -> dict[str, Size]:
    """Sizes as numbers and texts of ranges. Raises: UsageProblem."""
    example = 'write {"M": 1024}, or {"M": "1..8192@512"} for a size that a call gives'
    found: dict[str, Size] = {}
    for name, value in _items("sizes", {} if sizes is None else sizes, "size-syntax", example):
        number = whole_number(value)
        if number is not None:
            found[name] = number
        elif isinstance(value, str) and is_range(value):
            found[name] = str(value)
        else:
            said = f'`{name}` is a whole number, or a range such as "1..8192@512", not {shown(value)}'
            raise UsageProblem(Diagnostic("size-syntax", said, help=_as_number(name, value)))
    return found


def given_fixes(fix: object, *, has_schedule: bool) -> dict[str, int | None]:
    """Fixed decisions as numbers; None for what is kept as the schedule has it. Raises: UsageProblem."""
    example = 'write {"block.k": 256}'
    found: dict[str, int | None] = {}
    for name, value in _items("fix", {} if fix is None else fix, "fix-syntax", example):
        found[name] = whole_number(value)
        if found[name] is None and value is not None:
            said = f"`fix` takes a whole number for `{name}`, not {shown(value)}"
            raise UsageProblem(Diagnostic("fix-syntax", said, help=_as_number(name, value) or example))
        if value is None and not has_schedule:
            said = f"`fix` keeps `{name}` as the schedule has it, and there is no `schedule`"
            raise UsageProblem(Diagnostic("fix-syntax", said, help="give it a number, or give a `schedule`"))
    return found


def given_count(name: str, value: object, low: int, high: int, *, none: bool = False) -> int:
    """Return a whole number within its limits; 0 for none of them, where that may be. Raises: UsageProblem."""
    number = whole_number(value)
    if number is not None and (low <= number <= high or (none and number == 0)):
        return number
    or_none = ", or 0 for none" if none else ""
    raise _wrong(name, f"a whole number from {low} to {high}{or_none}", value)


def given_seconds(name: str, value: object, low: float, high: float) -> float:
    """Return a number within its limits. Raises: UsageProblem."""
    number = real_number(value)
    if number is None or not low <= number <= high:
        raise _wrong(name, f"a number of seconds from {low:g} to {high:g}", value)
    return number


def given_flag(name: str, value: object) -> bool:
    """True or False. Raises: UsageProblem."""
    truth = truth_value(value)
    if truth is None:
        raise _wrong(name, "True or False", value)
    return truth


def given_form(name: str, value: object) -> str | None:
    """Return a form of a kernel: True for the best, or its number; False for the one that is written.

    Raises: UsageProblem.
    """
    truth, number = truth_value(value), whole_number(value)
    if truth is not None:
        return BEST_FORM if truth else None
    if number is None or not 1 <= number <= MOST_FORMS:
        raise _wrong(name, f"True, False, or a whole number from 1 to {MOST_FORMS}", value)
    return str(number)


def given_choice(name: str, value: object, choices: Sequence[C]) -> C:
    """Return one of a few words. Raises: UsageProblem."""
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    near = did_you_mean(value, choices) if isinstance(value, str) else None
    raise _wrong(name, f"one of {', '.join(choices)}", value, near)


def given_names(name: str, value: object) -> tuple[str, ...]:
    """Several names, each once. Raises: UsageProblem."""
    wanted = "a list of names"
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        advice = f"write `{name}=[{value!r}]`" if isinstance(value, str) else None
        raise _wrong(name, wanted, value, advice)
    words = cast("Sequence[object]", value)
    for word in words:
        if not isinstance(word, str):
            raise _wrong(name, wanted, word)
    return tuple(dict.fromkeys(cast("Sequence[str]", words)))


def given_word(name: str, value: object, what: str) -> str:
    """Return a name, or a path as text. Raises: UsageProblem."""
    if not isinstance(value, str | PathLike):
        raise _wrong(name, what, value)
    return str(cast("object", value))


def given_text(name: str, value: object, what: str) -> Source | Path | str:
    """Return what names a file, or is a text of a language: that has braces, or lines. Raises: UsageProblem."""
    if isinstance(value, PathLike):
        return Path(cast("PathLike[str]", value))
    word = given_word(name, value, what)
    if "{" not in word and "\n" not in word:
        return word
    check_text(name, word)
    return Source(name, word)


def _items(name: str, value: object, code: str, example: str) -> list[tuple[str, object]]:
    """Return the pairs of a mapping whose keys are names."""
    if not isinstance(value, Mapping):
        said = f"`{name}` takes values by name, not {shown(value)}"
        raise UsageProblem(Diagnostic(code, said, help=example))
    items = cast("Mapping[object, object]", value).items()
    for key, _ in items:
        if not isinstance(key, str):
            said = f"`{name}` takes values by name, and {shown(key)} is no name"
            raise UsageProblem(Diagnostic(code, said, help=example))
    return cast("list[tuple[str, object]]", list(items))


def _as_number(name: str, value: object) -> str | None:
    """Return how a whole number in other clothes is written: that of a text, or of a float."""
    try:
        number = int(value) if isinstance(value, str) else real_number(value)
    except ValueError:
        return None
    if number is None or not abs(number) < _MOST_WRITTEN or number != int(number):
        return None
    return f'write {{"{name}": {int(number)}}}'


def _wrong(name: str, wanted: str, value: object, advice: str | None = None) -> UsageProblem:
    return UsageProblem(
        Diagnostic("option-value", f"`{name}` takes {wanted}, not {shown(value)}", help=advice)
    )


def load_machine(machine: str | Path) -> Machine:
    """Return the machine of a shipped name, a path ending in .yaml, or "host". Raises: UsageProblem, SpecProblem."""
    return load_named(machine_of(machine))


def machine_of(machine: str | Path) -> str:
    """Return the machine's name, or path, "host" resolved. Raises: UsageProblem."""
    return machine_called(given_word("machine", machine, "a name or a path"))
