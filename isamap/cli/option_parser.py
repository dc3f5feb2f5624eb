"""Read a command's options, as its record declares them, and write its help.

A command takes one record whose fields are its options, and records inside for those that it shares:
`CommandOptions` has what every command has, `Choices` of a request those that name the command.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isamap.driver.options import (
    FLAG,
    REQUIRED,
    WORD,
    WORDS,
    Option,
    given_flags,
    list_options,
    one_of,
    option,
)
from isamap.source import UsageProblem, dataclass, did_you_mean, fields

if TYPE_CHECKING:
    from isamap.libraries.description import Library

KERNEL_HELP = "A shipped kernel's name, the path of an .ir file, or -"
MACHINE_HELP = "A shipped machine's name, `host`, or the path of a description"
KERNEL = Option((), "KERNEL", f"{KERNEL_HELP}.", WORD)
MACHINE = Option(
    ("--hw",), "MACHINE",
    f"{MACHINE_HELP}. Append @Q=8 to set the vector length, or @Q=any for every length in the description.",
    WORD,
)  # fmt: skip
MACHINE_ARGUMENT = Option((), "MACHINE", "A shipped machine's name, `host`, a path, or -.", WORD)
SIZES = Option(
    ("-D",), "NAME=VALUE", "Sizes, as many as follow: -D M=64 N=64, or M=1..8192@512.", WORDS, ()
)  # fmt: skip
REQUIRE = Option(
    ("--require",), "WORD", "proven: end with exit code 4 where the schedule is not proven optimal.",
    one_of("proven"), "",
)  # fmt: skip
EMULATOR = Option(
    ("--emulator",), "COMMAND",
    "Run it under an emulator: a command that runs the one behind it, as `qemu-x86_64 -cpu max`.", WORD, None,
)  # fmt: skip
PROGRAM = Option(
    ("--program",), "FILE",
    "Run this file of `compile --emit program` instead of compiling; of a model, this folder.",
    WORD, None,
)  # fmt: skip


def argument(metavar: str, about: str, **facts: Any) -> Any:
    """Return a field of a record that is an argument, required unless it has a default."""
    return Option((), metavar, about, facts.pop("kind", WORD), **facts).field()


def one_word(flags: str, metavar: str, about: str, default: str | None = None) -> Any:
    """Return a field of a record that is an option with one word."""
    return option(flags, metavar, about, WORD, default=default)


def flag(flags: str, about: str, *, default: bool = False) -> Any:
    """Return a field of a record that is an option without a word."""
    return option(flags, "", about, FLAG, default=default)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """The options of all commands."""

    as_json: bool = flag("--json", "Answer with one JSON object.")
    quiet: bool = flag("-q, --quiet", "Write only the result and errors: no progress, warnings or notes.")
    verbose: bool = flag("-v, --verbose", "Log each step of long work, with the time, to standard error.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnMachine(CommandOptions):
    """A kernel, a machine, and sizes."""

    kernel: str = KERNEL.field()
    hw: str = MACHINE.field()
    sizes: tuple[str, ...] = SIZES.field()


@dataclass(frozen=True, slots=True, kw_only=True)
class Portfolio:
    """The libraries to compare with, if any."""

    portfolio: bool = flag(
        "--portfolio", "Call an installed library where that is measured to be faster, and right."
    )
    files: tuple[str, ...] = option(
        "--library", "FILE",
        "With --portfolio, the description of a library, instead of the shipped ones; may be repeated.",
        WORDS, default=(),
    )  # fmt: skip

    def libraries(self) -> tuple[Library, ...] | None:
        """Return the libraries to compare with, or None if none are requested. Raises: UsageProblem, SpecProblem."""
        if not self.portfolio:
            if self.files:
                said = "`--library` describes a library for `--portfolio`, which is not given"
                raise UsageProblem.of("usage", said, help="add `--portfolio`, or leave it out")
            return None
        from isamap.libraries.description import read_library, shipped_libraries

        found = tuple(read_library(Path(file), file) for file in self.files)
        return found or shipped_libraries()


def refuse(asked: Any, flags: Iterable[str], why: str, advice: str = "leave out one of them") -> None:
    """Refuse the first of these flags whose option differs from its default. Raises: UsageProblem."""
    given = given_flags(asked)
    if found := next((one for one in flags if one in given), None):
        raise UsageProblem.of("usage", f"`{found}` {why}", help=advice)


# --- words and records ------------------------------------------------------------------------------------


def read_words(name: str, known: Mapping[str, Option], words: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of each given option, or None if help is requested.

    Raises: UsageProblem for unknown options of the command `name`, and for missing ones.
    """
    see = f"see `{name} --help`"
    flags = {
        word: (option, place == 0)
        for option, one in known.items()
        for flag in one.flags
        for place, word in enumerate(flag.split("/"))
    }
    given: dict[str, Any] = {}
    loose: list[str] = []
    asks_help, left = False, list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            loose += left
            break
        if not word.startswith("-") or word == "-":
            loose.append(word)
            continue
        flag, equals, value = word.partition("=")
        if not word.startswith("--") and word[:2] in flags:
            flag, equals, value = word[:2], word[2:], word[2:]
        if flag in ("--help", "-h") and flag not in flags:
            asks_help = True
            continue
        if flag not in flags:
            advice = did_you_mean(flag, (*flags, "--help")) or see
            raise UsageProblem.of("unknown-option", f"`{name}` has no option `{flag[:80]}`", help=advice)
        option, is_on = flags[flag]
        if known[option].kind.flag:
            if equals:
                raise UsageProblem.of("option-value", f"{flag} takes no value", help=see)
            given[option] = is_on
            continue
        if not equals:
            if not left:
                raise UsageProblem.of("option-value", f"{flag} needs a value", help=see)
            value = left.pop(0)
        given[option] = [*given.get(option, ()), value] if known[option].kind.many else value
    if asks_help:
        return None
    for option, one in known.items():
        if not one.flags and loose:
            given[option], loose = (loose, []) if one.kind.many else (loose[0], loose[1:])
        if one.default is REQUIRED and option not in given:
            lacks = f"the option {one.flags[0]}" if one.flags else f"a {option.rstrip('s')}"
            raise UsageProblem.of("missing-argument", f"`{name}` needs {lacks}", help=see)
    if loose:
        said = f"`{name}` does not take the word `{loose[0][:80]}`"
        raise UsageProblem.of("usage", said, help=see)
    return given


def read_record(record: type[Any], command: str, given: Mapping[str, Any]) -> Any:
    """Return the record for parsed words. Raises: UsageProblem."""
    values: dict[str, Any] = {}
    for one in fields(record):
        known: Option | None = one.metadata.get("option")
        if known is None:
            inside: Any = one.default_factory
            values[one.name] = read_record(inside, command, given)
        elif one.name in given and (not known.commands or command in known.commands):
            values[one.name] = known.read(given[one.name])
    return record(**values)


def options_of(record: type[Any], command: str) -> dict[str, Option]:
    """Return the options of a command by name, with nested records in place and the common ones last."""
    found: dict[str, Option] = {}
    for one in fields(record):
        known: Option | None = one.metadata.get("option")
        if known is None:
            inside: Any = one.default_factory
            found |= options_of(inside, command)
        elif not known.commands or command in known.commands:
            found[one.name] = known
    return found | {name: found.pop(name) for name in list_options(CommandOptions) if name in found}


def help_page(name: str, about: str, known: Mapping[str, Option]) -> str:
    """Return the page of `--help`: the command's usage, description, arguments and options."""
    width = min(shutil.get_terminal_size().columns, 80) - 2
    arguments = [(_argument_name(one), _explain_option(one)) for one in known.values() if not one.flags]
    options = [
        (" ".join((", ".join(one.flags), one.metavar)).strip(), _explain_option(one))
        for one in known.values()
        if one.flags
    ]
    options.append(("--help", "Show this message and exit."))
    lines = [f"Usage: {' '.join((name, '[OPTIONS]', *(word for word, _ in arguments)))}"]
    for paragraph in about.split("\n\n"):
        lines += ["", *textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ")]
    for title, rows in (("Arguments", arguments), ("Options", options)):
        if rows:
            lines += ["", f"{title}:", *_columns(rows, width)]
    return "\n".join(lines)


def _argument_name(one: Option) -> str:
    return one.metavar if one.default is REQUIRED or one.metavar.startswith("[") else f"[{one.metavar}]"


def _explain_option(one: Option) -> str:
    notes = {"required": one.default is REQUIRED, f"default: {one.word}": one.word}
    return " ".join((one.help, *(f" [{note}]" for note, holds in notes.items() if holds)))


def _columns(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Return the lines of a table with wrapped texts. A long name has a line of its own."""
    left = min(max(len(name) for name, _ in rows), 26) + 2
    lines: list[str] = []
    for name, about in rows:
        texts = [f"{'':{left}}{text}" for text in textwrap.wrap(about, max(width - left, 20))]
        if len(name) > left - 2:
            texts.insert(0, name)
        else:
            texts[0] = f"{name:{left}}{texts[0].lstrip()}"
        lines += [f"  {text}" for text in texts]
    return lines
