"""Read parts of a command line without a parser: the command's name, and the sizes after `-D`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from isamap.driver.request import MOST_FORMS, Size, is_range
from isamap.source import Diagnostic, Source, Span, UsageProblem, did_you_mean, is_digits
from isamap.source.numbers import BYTES_PER_UNIT

if TYPE_CHECKING:
    from isamap.run.child import Emulator

C = TypeVar("C", bound=str)
GROUPS = ("graph", "hw", "bench", "bench.deepbench", "bench.layers", "cache", "tune")
"""Commands that only lead to others."""
SUBCOMMANDS = (("schedule", "diff"),)
"""Of commands that do something by themselves, too."""
BEST = "best"
FILLED = {"--transform": BEST, "--tune": "8"}
"""The value of an option that is given without a number."""
_PAIR = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[+-]?[0-9]{1,24}")


def command_of(words: Sequence[str]) -> str:
    """Return the command's name, as in `hw.check` or `bench.deepbench.gemm`; "" where there is none."""
    leading = list(takewhile(lambda word: not word.startswith("-"), words))
    if not leading:
        return ""
    if tuple(leading[:2]) in SUBCOMMANDS:
        return ".".join(leading[:2])
    name = leading[0]
    for word in leading[1:]:
        if name not in GROUPS:
            break
        name += f".{word}"
    return name


def spread_sizes(words: Sequence[str]) -> list[str]:
    """`-D M=1 N=2` as `-D M=1 -D N=2`: all NAME=VALUE words that follow belong to it."""
    spread: list[str] = []
    follows = False
    for position, word in enumerate(words):
        if word == "--":
            return [*spread, *words[position:]]
        if follows and _PAIR.fullmatch(word):
            if spread[-1] != "-D":
                spread.append("-D")
            spread.append(word)
            continue
        follows = word == "-D" or (word.startswith("-D") and _PAIR.fullmatch(word[2:]) is not None)
        spread.append(word)
    return spread


def fill_values(words: Sequence[str]) -> list[str]:
    """`--transform` as `--transform best`, `--tune` as `--tune 8` where no number follows."""
    filled: list[str] = []
    for position, word in enumerate(words):
        filled.append(word)
        if word == "--":
            return [*filled, *words[position + 1 :]]
        follows = words[position + 1] if position + 1 < len(words) else ""
        is_number = is_digits(follows.removeprefix("-")[:1])
        if word in FILLED and not is_number and follows != FILLED[word]:
            filled.append(FILLED[word])
    return filled


def read_form(word: str | None) -> str | None:
    """Return what `--transform` names: `best`, or a number. Raises: UsageProblem."""
    if word is None or word == BEST or (is_digits(word) and len(word) < 9 and 1 <= int(word) <= MOST_FORMS):
        return word
    raise UsageProblem(
        Diagnostic(
            "option-value",
            f"--transform takes the number of a rewrite, not `{word[:40]}`",
            help="`isamap match --transform --all` lists them",
        )
    )


def read_sizes(words: Iterable[str]) -> dict[str, Size]:
    """Return the sizes that words give. Raises: UsageProblem for what is none, or is given twice."""
    sizes: dict[str, Size] = {}
    for word in words:
        name, value = read_pair(word)
        if name in sizes:
            raise UsageProblem(
                Diagnostic(
                    "size-twice",
                    f"the size `{name}` is given twice: {sizes[name]} and {value}",
                    help="leave one of them out",
                )
            )
        sizes[name] = value
    return sizes


def read_size_sets(words: Iterable[str]) -> list[dict[str, Size]]:
    """Several sets of sizes: another one begins where a name is given again."""
    sets: list[dict[str, Size]] = [{}]
    for word in words:
        name, value = read_pair(word)
        if name in sets[-1]:
            sets.append({})
        sets[-1][name] = value
    return sets


def read_pair(word: str, span: Span | None = None) -> tuple[str, Size]:
    """Return the name and the value of NAME=VALUE. Raises: UsageProblem."""
    name, equals, value = word.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise _problem(f"`{word[:80]}` is not NAME=VALUE", span, "write `-D M=1024 N=1024`")
    if _NUMBER.fullmatch(value):
        return name, int(value)
    if is_range(value):
        return name, value
    shown = value if len(value) <= 40 else f"{value[:40]}…"
    raise _problem(
        f"`{shown}` is not a value of `{name}`",
        span,
        f"write a number, `{name}=1024`, or a range with a typical value, `{name}=1..8192@512`",
    )


def read_sizes_file(source: Source) -> list[dict[str, Size]]:
    """Return a set of sizes per line of a file; empty lines and what follows `#` do not count."""
    sets: list[dict[str, Size]] = []
    for number, line in enumerate(source.text.splitlines()):
        start = source.line_starts[number] if number < len(source.line_starts) else 0
        sizes: dict[str, Size] = {}
        for match in re.finditer(r"\S+", line.partition("#")[0]):
            span = Span(source, start + match.start(), start + match.end())
            name, value = read_pair(match[0].rstrip(","), span)
            if name in sizes:
                raise _problem(f"the size `{name}` is given twice in this line", span, "leave one out")
            sizes[name] = value
        if sizes:
            sets.append(sizes)
    if not sets:
        said = f"{source.name} holds no sizes"
        raise UsageProblem(Diagnostic("size-syntax", said, help="write `M=64 N=64 K=64` in each line"))
    return sets


def read_fixes(words: Iterable[str], *, has_schedule: bool = False) -> dict[str, int | None]:
    """Decisions that are fixed, from NAME=NUMBER words; beside a schedule NAME alone keeps what that has.

    Raises: UsageProblem.
    """
    fixed: dict[str, int | None] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if has_schedule and name and not equals:
            fixed.setdefault(name, None)
            continue
        if not name or not _NUMBER.fullmatch(value):
            raise UsageProblem(
                Diagnostic(
                    "fix-syntax",
                    f"`{word[:80]}` is not DECISION=NUMBER",
                    help="write `--fix nest0.block.k=256`; with --schedule, `--fix block` keeps its blocks",
                )
            )
        number, before = int(value), fixed.get(name)
        if before not in (None, number):
            said = f"`{name}` is fixed twice: to {before}, and to {number}"
            raise UsageProblem(Diagnostic("fix-twice", said, help="leave one of them out"))
        fixed[name] = number
    return fixed


def read_names(words: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are given one by one, or with commas between them, each once."""
    return tuple(dict.fromkeys(name.strip() for word in words for name in word.split(",") if name.strip()))


def read_emulator(word: str | None) -> Emulator | None:
    """Return the emulator that an option names, where it is given. Raises: as `Emulator.read`."""
    from isamap.run.child import Emulator

    return Emulator.read(word) if word is not None else None


def read_number(word: str, option: str, low: float, high: float) -> float:
    """Return the number behind an option. Raises: UsageProblem when it is none, or outside its limits."""
    try:
        value = float(word)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise UsageProblem(
            Diagnostic("option-value", f"{option} takes a number from {low:g} to {high:g}, not `{word[:40]}`")
        )
    return value


def read_count(word: str, option: str, low: int, high: int) -> int:
    """Return the whole number behind an option. Raises: UsageProblem when it is none, or outside its limits."""
    value = int(word) if re.fullmatch(r"[0-9]{1,9}", word) else low - 1
    if not low <= value <= high:
        raise UsageProblem(
            Diagnostic(
                "option-value", f"{option} takes a whole number from {low} to {high}, not `{word[:40]}`"
            )
        )
    return value


_UNITS = {"": 1, "B": 1, **{unit.upper(): size for unit, size in BYTES_PER_UNIT.items()}}


def read_bytes(word: str, option: str) -> int:
    """Return a number of bytes behind an option: 65536, 64KiB, 1MiB. Raises: UsageProblem."""
    match = re.fullmatch(r"([0-9]{1,16})\s*([A-Za-z]*)", word)
    if match is None or match[2].upper() not in _UNITS or not int(match[1]):
        raise UsageProblem(
            Diagnostic(
                "option-value",
                f"{option} takes a number of bytes, not `{word[:40]}`",
                help=f"write `{option} 1048576`, or `{option} 1MiB`",
            )
        )
    return int(match[1]) * _UNITS[match[2].upper()]


def read_choice(word: str, option: str, choices: Sequence[C]) -> C:
    """Return the word behind an option that takes one of a few. Raises: UsageProblem."""
    for choice in choices:
        if word == choice:
            return choice
    raise UsageProblem(
        Diagnostic(
            "option-value",
            f"{option} takes one of {', '.join(choices)}, not `{word[:40]}`",
            help=did_you_mean(word, choices),
        )
    )


def _problem(message: str, span: Span | None, advice: str) -> UsageProblem:
    return UsageProblem(Diagnostic("size-syntax", message, span, help=advice))
