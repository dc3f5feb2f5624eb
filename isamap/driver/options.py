"""A command-line option, declared once as a field of a record, and the kinds of option values.

    threads: int = option("--threads", "N", "How many threads.", count(1, 256), default=1, commands="run")

The command line reads the value from a word, `isamap.compile` takes it from Python, JSON and the
documentation say it. `list_options` lists the options of a record, `given_flags` those that a caller gave.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, Literal, TypeVar, cast

from isamap.source import UsageProblem, dataclass, did_you_mean, field, fields
from isamap.source.numbers import BYTES_PER_UNIT, real_number, show_value, truth_value, whole_number

C = TypeVar("C", bound=str)
REQUIRED = ...
"""The default of an option that has to be given."""
_MOST_WRITTEN = 1 << 53  # beyond that floats are not the whole numbers that they were written as


@dataclass(frozen=True, slots=True)
class OptionKind:
    """A kind of value: how it is read from the command line, accepted from Python, and written to JSON.

    `many` words are read together if an option may be repeated. A `flag` has none. `choices` are the words
    of which it takes one, if there are few.
    """

    read: Callable[[Any, str], Any]
    take: Callable[[str, object], Any]
    many: bool = False
    flag: bool = False
    said: Callable[[Any], object] = lambda value: value
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """A declared option, or a positional argument, which has no flags.

    `default` is its value if it is not given. A false default is not shown. `commands` are those that list it
    among the options of a record. `python` is its name as a keyword, and `key` in JSON, if they differ from
    the field's name. `echo` is when JSON repeats it: always, if `given`, or never.
    """

    flags: tuple[str, ...]
    metavar: str
    help: str
    kind: OptionKind
    default: Any = REQUIRED
    commands: frozenset[str] = frozenset()
    python: str = ""
    key: str = ""
    echo: Literal["always", "given", "never"] = "never"

    @property
    def word(self) -> str | None:
        """The default as a user would write it, or None if help shows none."""
        if self.default is REQUIRED or not self.default or self.kind.flag:
            return None
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    def field(self) -> Any:
        """Return a field of a record that has this option."""
        facts = {"option": self}
        if isinstance(self.default, dict):
            return field(default_factory=dict[str, Any], metadata=facts)
        if self.default is REQUIRED:
            return field(metadata=facts)
        return field(default=self.default, metadata=facts)

    def read(self, given: Any) -> Any:
        """Return the value for the parser's word, words or flag. Raises: UsageProblem."""
        if self.kind.flag:
            return given if "/" in self.flags[0] else given != self.default
        if given is None or given in (self.word, self.default):
            return self.default
        return self.kind.read(given, self.flags[0] if self.flags else self.metavar)

    def take(self, name: str, value: object) -> Any:
        """Return the value for a keyword argument of Python. Raises: UsageProblem."""
        if isinstance(value, str) and value == self.default:
            return self.default
        return self.kind.take(name, value)


def option(flags: str, metavar: str, about: str, kind: OptionKind, **facts: Any) -> Any:
    """Return a field of a record that is an option: `-o, --output`. The arguments are those of `Option`."""
    commands = frozenset(facts.pop("commands", "").split())
    return Option(tuple(flags.split(", ")), metavar, about, kind, commands=commands, **facts).field()


def list_options(record: type[Any]) -> dict[str, Option]:
    """Return the options of a record by its fields' names."""
    return {f.name: f.metadata["option"] for f in fields(record) if "option" in f.metadata}


def flags_of(record: type[Any]) -> tuple[str, ...]:
    """Return the flags of a record's options."""
    return tuple(flag for one in list_options(record).values() for flag in one.flags)


def given_flags(record: Any) -> tuple[str, ...]:
    """Return the flags of a record's options that differ from their defaults, including those of nested records."""
    found: list[str] = []
    for one in fields(record):
        value = getattr(record, one.name)
        if "option" in one.metadata:
            known: Option = one.metadata["option"]
            found += known.flags if value != known.default else ()
        else:
            found += given_flags(value)
    return tuple(found)


def count(low: int, high: int, *, none: bool = False) -> OptionKind:
    """Return the kind of integers within limits. With `none`, Python may pass 0 for none of them."""
    return OptionKind(
        partial(read_count, low=low, high=high), partial(given_count, low=low, high=high, none=none)
    )


def seconds_in(low: float, high: float) -> OptionKind:
    """Return the kind of numbers within limits. Units: seconds of wall clock, in Python."""
    return OptionKind(partial(read_number, low=low, high=high), partial(given_seconds, low=low, high=high))


def one_of(*choices: str) -> OptionKind:
    """Return the kind of one of a few words."""
    return OptionKind(
        partial(read_choice, choices=choices), partial(given_choice, choices=choices), choices=choices
    )


def plugin(
    kind: Literal["heuristic", "cost model", "evaluator", "searcher"], *, many: bool = False
) -> OptionKind:
    """Return the kind of a plug-in's name, or of several names, separated by commas or repeated."""

    def known(word: str | list[str], _flag: str = "") -> str | tuple[str, ...]:
        from isamap.plan.plugins import check_name

        names = (word,) if isinstance(word, str) else read_names(word)
        for name in names:
            check_name(kind, name)
        return names if many else names[0]

    return OptionKind(known, lambda name, value: known(given_word(name, value, "a name")), many=many)


def given_count(name: str, value: object, low: int, high: int, *, none: bool = False) -> int:
    """Return an integer within its limits, or 0 for none if `none` is set. Raises: UsageProblem."""
    number = whole_number(value)
    if number is not None and (low <= number <= high or (none and number == 0)):
        return number
    or_none = ", or 0 for none" if none else ""
    raise wrong_value(name, f"a whole number from {low} to {high}{or_none}", value)


def given_seconds(name: str, value: object, low: float, high: float) -> float:
    """Return the value of an option in seconds, between `low` and `high`. Raises: UsageProblem."""
    number = real_number(value)
    if number is None or not low <= number <= high:
        raise wrong_value(name, f"a number of seconds from {low:g} to {high:g}", value)
    return number


def given_flag(name: str, value: object) -> bool:
    """Return the truth value of a keyword argument. Raises: UsageProblem."""
    truth = truth_value(value)
    if truth is None:
        raise wrong_value(name, "True or False", value)
    return truth


def given_choice(name: str, value: object, choices: Sequence[C]) -> C:
    """Return one of a few words. Raises: UsageProblem."""
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    near = did_you_mean(value, choices) if isinstance(value, str) else None
    raise wrong_value(name, f"one of {', '.join(choices)}", value, near)


def given_names(name: str, value: object) -> tuple[str, ...]:
    """Return several names, each once. Raises: UsageProblem."""
    expected = "a list of names"
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        advice = f"write `{name}=[{value!r}]`" if isinstance(value, str) else None
        raise wrong_value(name, expected, value, advice)
    words = cast("Sequence[object]", value)
    for word in words:
        if not isinstance(word, str):
            raise wrong_value(name, expected, word)
    return tuple(dict.fromkeys(cast("Sequence[str]", words)))


def given_word(name: str, value: object, what: str) -> str:
    """Return a name, or a path as text. Raises: UsageProblem."""
    if not isinstance(value, str | PathLike):
        raise wrong_value(name, what, value)
    return str(cast("object", value))


def given_items(name: str, value: object, code: str, example: str) -> list[tuple[str, object]]:
    """Return the pairs of a mapping whose keys are names."""
    if not isinstance(value, Mapping):
        said = f"`{name}` takes values by name, not {show_value(value)}"
        raise UsageProblem.of(code, said, help=example)
    items = cast("Mapping[object, object]", value).items()
    for key, _ in items:
        if not isinstance(key, str):
            said = f"`{name}` takes values by name, and {show_value(key)} is not a name"
            raise UsageProblem.of(code, said, help=example)
    return cast("list[tuple[str, object]]", list(items))


def as_number(name: str, value: object) -> str | None:
    """Return the decimal text of an integer that is given as a text or a float."""
    try:
        number = int(value) if isinstance(value, str) else real_number(value)
    except ValueError:
        return None
    if number is None or not abs(number) < _MOST_WRITTEN or number != int(number):
        return None
    return f'write {{"{name}": {int(number)}}}'


def wrong_value(name: str, expected: str, value: object, advice: str | None = None) -> UsageProblem:
    """Return the error of a wrong argument value from Python."""
    return UsageProblem.of("option-value", f"`{name}` takes {expected}, not {show_value(value)}", help=advice)


def read_names(words: Iterable[str]) -> tuple[str, ...]:
    """Return names that are given separately or with commas between them, each once."""
    return tuple(dict.fromkeys(name.strip() for word in words for name in word.split(",") if name.strip()))


def read_number(word: str, option: str, low: float, high: float) -> float:
    """Return the number that follows an option. Raises: UsageProblem if it is none or outside its limits."""
    try:
        value = float(word)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise UsageProblem.of(
            "option-value", f"{option} takes a number from {low:g} to {high:g}, not `{word[:40]}`"
        )
    return value


def read_count(word: str, option: str, low: int, high: int) -> int:
    """Return the integer that follows an option. Raises: UsageProblem if it is none or outside its limits."""
    value = int(word) if re.fullmatch(r"[0-9]{1,9}", word) else low - 1
    if not low <= value <= high:
        raise UsageProblem.of(
            "option-value", f"{option} takes a whole number from {low} to {high}, not `{word[:40]}`"
        )
    return value


_UNITS = {"": 1, "B": 1, **{unit.upper(): size for unit, size in BYTES_PER_UNIT.items()}}


def read_bytes(word: str, option: str) -> int:
    """Return the bytes that follow an option: 65536, 64KiB, 1MiB. Raises: UsageProblem."""
    match = re.fullmatch(r"([0-9]{1,16})\s*([A-Za-z]*)", word)
    if match is None or match[2].upper() not in _UNITS or not int(match[1]):
        raise UsageProblem.of(
            "option-value",
            f"{option} takes a number of bytes, not `{word[:40]}`",
            help=f"write `{option} 1048576`, or `{option} 1MiB`",
        )
    return int(match[1]) * _UNITS[match[2].upper()]


def read_choice(word: str, option: str, choices: Sequence[C]) -> C:
    """Return one of few allowed words that follows an option. Raises: UsageProblem."""
    for choice in choices:
        if word == choice:
            return choice
    raise UsageProblem.of(
        "option-value",
        f"{option} takes one of {', '.join(choices)}, not `{word[:40]}`",
        help=did_you_mean(word, choices),
    )


def _as_written(word: Any, _flag: str) -> Any:
    return tuple(cast("Sequence[str]", word)) if isinstance(word, list) else word


WORD = OptionKind(_as_written, partial(given_word, what="a word"))
WORDS = OptionKind(_as_written, given_names, many=True)
NAMES = OptionKind(lambda words, _: read_names(words), given_names, many=True, said=sorted)
FLAG = OptionKind(_as_written, given_flag, flag=True)
BYTES = OptionKind(read_bytes, partial(given_word, what="a number of bytes"))
