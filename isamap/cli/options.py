"""Options on the command line: what a command declares as a record becomes parameters of typer, and is read.

A command takes one record whose fields are its options, and records inside for those that it shares:
`CommandOptions` has what every command has, `Choices` of a request those that name the command.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isamap.driver.options import FLAG, REQUIRED, WORD, WORDS, Option, choice, given_flags, option
from isamap.source import Diagnostic, UsageProblem
from isamap.source.records import dataclass, fields

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
    choice("proven"), "",
)  # fmt: skip
EMULATOR = Option(
    ("--emulator",), "COMMAND",
    "Run it under an emulator: a command that runs the one behind it, as `qemu-x86_64 -cpu max`.", WORD, None,
)  # fmt: skip
PROGRAM = Option(
    ("--program",), "FILE",
    "Run this file of `compile --emit program` instead of compiling.", WORD, None,
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
    """The options that every command has."""

    as_json: bool = flag("--json", "Answer with one JSON object.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnMachine(CommandOptions):
    """A kernel, a machine, and sizes."""

    kernel: str = KERNEL.field()
    hw: str = MACHINE.field()
    sizes: tuple[str, ...] = SIZES.field()


@dataclass(frozen=True, slots=True, kw_only=True)
class Portfolio:
    """The choice of libraries to compare with, or of none."""

    portfolio: bool = flag(
        "--portfolio", "Call an installed library where that is measured to be faster, and right."
    )
    files: tuple[str, ...] = option(
        "--library", "FILE",
        "With --portfolio, the description of a library, instead of the shipped ones; may be repeated.",
        WORDS, default=(),
    )  # fmt: skip

    def libraries(self) -> tuple[Library, ...] | None:
        """Return the libraries to compare with; None where none are asked for.

        Raises: UsageProblem, SpecProblem.
        """
        if not self.portfolio:
            if self.files:
                said = "`--library` describes a library for `--portfolio`, which is not given"
                raise UsageProblem(Diagnostic("usage", said, help="add `--portfolio`, or leave it out"))
            return None
        from isamap.libraries.description import read_library, shipped_libraries

        found = tuple(read_library(Path(file), file) for file in self.files)
        return found or shipped_libraries()


def refuse(asked: Any, flags: Iterable[str], why: str, advice: str = "leave out one of them") -> None:
    """Refuse the first of the flags that a record does not have as by default. Raises: UsageProblem."""
    given = given_flags(asked)
    if found := next((one for one in flags if one in given), None):
        raise UsageProblem(Diagnostic("usage", f"`{found}` {why}", help=advice))


# --- records and typer ------------------------------------------------------------------------------------


def parameters(record: type[Any], command: str) -> list[inspect.Parameter]:
    """Return the parameters by which typer parses the options of a record, `--json` last."""
    known = options_of(record, command)
    last = known.pop("as_json")
    return [_parameter(name, one) for name, one in {**known, "as_json": last}.items()]


def read_record(record: type[Any], command: str, given: Mapping[str, Any]) -> Any:
    """Return the record that parsed words give. Raises: UsageProblem."""
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
    """Return the options of a command by name, those of records inside where they stand."""
    found: dict[str, Option] = {}
    for one in fields(record):
        known: Option | None = one.metadata.get("option")
        if known is None:
            inside: Any = one.default_factory
            found |= options_of(inside, command)
        elif not known.commands or command in known.commands:
            found[one.name] = known
    return found


def _parameter(name: str, known: Option) -> inspect.Parameter:
    kind: Any = bool if known.kind.flag else list[str] if known.kind.many else str
    default: Any = inspect.Parameter.empty
    if known.default is not REQUIRED:
        default = known.default and "/" in known.flags[0] if known.kind.flag else known.word
        kind = kind if known.kind.flag or default is not None else kind | None
    facts: dict[str, Any] = {
        "help": known.help,
        "show_default": bool(default) and known.default is not REQUIRED,
    }
    if not known.kind.flag:
        facts["metavar"] = known.metavar
    fact = typer.Option(*known.flags, **facts) if known.flags else typer.Argument(**facts)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=Annotated[kind, fact])
