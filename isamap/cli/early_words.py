"""Read parts of a command line without a parser: the command's name, and the sizes after `-D`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from isamap.driver.request import BEST_FORM, NUMBER, Size, is_range
from isamap.source import Source, Span, UsageProblem, is_digits

if TYPE_CHECKING:
    from isamap.run.child import Emulator

C = TypeVar("C", bound=str)
GROUPS = ("new", "graph", "hw", "bench", "bench.deepbench", "bench.layers", "cache", "tune")
"""Commands that only lead to others."""
SUBCOMMANDS = (("schedule", "diff"),)
"""Of commands that do something by themselves, too."""
FILLED = {"--transform": BEST_FORM, "--tune": "8"}
"""The value of an option that is given without a number."""
_PAIR = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_FOLLOWING = {
    "-D": ("-D", _PAIR),
    "--set": ("--set=", re.compile(r"[A-Za-z_][A-Za-z0-9_.]*=.*", re.DOTALL)),
}
"""The options to which all following words of a form belong, and the prefix of a first one in the same word."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def find_command(words: Sequence[str]) -> str:
    """Return the command's name, such as `hw.check` or `bench.deepbench.gemm`, or ""."""
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


def repeat_options(words: Sequence[str]) -> list[str]:
    """Return `-D M=1 N=2` as `-D M=1 -D N=2`: all following NAME=VALUE words belong to `-D`, or to `--set`."""
    repeated: list[str] = []
    option = ""
    for position, word in enumerate(words):
        if word == "--":
            return [*repeated, *words[position:]]
        if option and _FOLLOWING[option][1].fullmatch(word):
            if repeated[-1] != option:
                repeated.append(option)
            repeated.append(word)
            continue
        option = word if word in _FOLLOWING else ""
        for name, (prefix, form) in _FOLLOWING.items():
            if word.startswith(prefix) and form.fullmatch(word.removeprefix(prefix)):
                option = name
        repeated.append(word)
    return repeated


def fill_values(words: Sequence[str]) -> list[str]:
    """Return `--transform` as `--transform best`, and `--tune` without a number as `--tune 8`."""
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


def insert_model(words: Sequence[str]) -> list[str]:
    """Return `bench model.onnx` as `bench model model.onnx`."""
    is_file = len(words) > 1 and words[0] == "bench" and words[1].endswith((".onnx", ".json"))
    return [words[0], "model", *words[1:]] if is_file else list(words)


def read_sizes(words: Iterable[str]) -> dict[str, Size]:
    """Return the sizes in words. Raises: UsageProblem for invalid and repeated ones."""
    sizes: dict[str, Size] = {}
    for word in words:
        name, value = read_pair(word)
        if name in sizes:
            raise UsageProblem.of(
                "size-twice",
                f"the size `{name}` is given twice: {sizes[name]} and {value}",
                help="leave one of them out",
            )
        sizes[name] = value
    return sizes


def read_size_sets(words: Iterable[str]) -> list[dict[str, Size]]:
    """Return several sets of sizes. A new set starts when a name occurs again."""
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
    if NUMBER.fullmatch(value):
        return name, int(value)
    if is_range(value):
        return name, value
    shown = value if len(value) <= 40 else f"{value[:40]}…"
    advice = f"write a number, `{name}=1024`, or a range with a typical value, `{name}=1..8192@512`"
    if re.fullmatch(r"[+-]?[0-9]*[.][0-9]+(e[+-]?[0-9]+)?", value):
        advice = f"sizes are whole numbers; if `{name}` is a scalar of the kernel, leave it out: each call gives it"
    raise _problem(f"`{shown}` is not a value of `{name}`", span, advice)


def read_sizes_file(source: Source) -> list[dict[str, Size]]:
    """Return a set of sizes per line of a file. Empty lines and comments after `#` are skipped."""
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
        raise UsageProblem.of("size-syntax", said, help="write `M=64 N=64 K=64` in each line")
    return sets


def read_emulator(word: str | None) -> Emulator | None:
    """Return the emulator of an option, if given. Raises: as `Emulator.read`."""
    from isamap.run.child import Emulator

    return Emulator.read(word) if word is not None else None


def _problem(message: str, span: Span | None, advice: str) -> UsageProblem:
    return UsageProblem.of("size-syntax", message, span, help=advice)
