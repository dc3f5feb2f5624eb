"""`isamap hw new`: write a commented template of a description that passes `isamap hw check`.

    isamap hw new edge --kind matrix --set rows=32   ->   edge.yaml

On a terminal, without `--kind`, it asks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from isamap.cli.answers import Answer, check_new, write_text
from isamap.cli.option_parser import CommandOptions, argument, flag, one_word
from isamap.cli.terminal import complain
from isamap.driver.options import WORDS, option
from isamap.machine.templates import KINDS, asked_of, begin, read_figure
from isamap.source import Diagnostic, UsageProblem, did_you_mean
from isamap.source.numbers import BYTES_PER_UNIT
from isamap.source.records import dataclass

T = TypeVar("T")
_NAME = re.compile("[a-z][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOptions(CommandOptions):
    """The options of `hw new`."""

    name: str = argument("NAME", "The machine's name, or the path of NAME.yaml.")
    kind: str | None = one_word("--kind", "KIND", "One of vector, matrix, abstract.")
    figures: tuple[str, ...] = option(
        "--set", "NAME=VALUE",
        "vector: bytes, registers, clock_ghz; matrix: rows, spad_bytes, sums_bytes, bus_bytes, clock_ghz; "
        "abstract: m, n, k.",
        WORDS, default=(),
    )  # fmt: skip
    overwrite: bool = flag("--overwrite", "Replace the file that is there.")


def new_command(asked: NewOptions) -> Answer:
    """Write a commented description of a new machine, which passes `hw check`."""
    path, kind = _path(asked.name), asked.kind
    if not asked.overwrite:
        check_new(path)
    asks = kind is None and not asked.as_json and sys.stdin.isatty()
    chosen = _ask("kind", f"one of {', '.join(KINDS)}", "vector", _kind) if asks else _kind(kind)
    words = dict(_parted(figure) for figure in asked.figures)
    given = {key: read_figure(asked_of(chosen, key), word, BYTES_PER_UNIT) for key, word in words.items()}
    for one in KINDS[chosen].asked if asks else ():
        if one.name not in given:
            read = partial(read_figure, one, sizes=BYTES_PER_UNIT)
            given[one.name] = _ask(one.name, one.question, f"{one.usual:g}", read)
    write_text(path, begin(path.stem, chosen, given), overwrite=asked.overwrite)
    lines = [f"wrote {path}: {KINDS[chosen].summary}", "", "next:", f"  isamap hw check {path}"]
    lines += [f"  isamap compile gemm_f32 --hw {path} -D M=64 N=64 K=64 -o out"]
    return Answer({"file": str(path), "kind": chosen, "figures": given}, "\n".join(lines))


def _path(name: str) -> Path:
    """Return the file of a new machine. Raises: UsageProblem for an invalid name."""
    path = Path(name if name.endswith(".yaml") else f"{name}.yaml")
    if not _NAME.fullmatch(path.stem):
        said = f"`{path.stem[:40]}` is no name for a machine"
        help_ = "small letters, digits, `-` and `_`, a letter first: `edge-npu`"
        raise UsageProblem(Diagnostic("option-value", said, help=help_))
    return path


def _kind(word: str | None) -> str:
    if word is not None and word in KINDS:
        return word
    notes = tuple(f"{kind}: {found.summary}" for kind, found in KINDS.items())
    if word is None:
        help_ = "add `--kind matrix`; on a terminal, it is asked for"
        raise UsageProblem(
            Diagnostic("missing-argument", "a new machine has a kind", notes=notes, help=help_)
        )
    said = f"there is no kind of machine called `{word[:40]}`"
    raise UsageProblem(Diagnostic("option-value", said, notes=notes, help=did_you_mean(word, KINDS)))


def _parted(figure: str) -> tuple[str, str]:
    name, sign, value = figure.partition("=")
    if not sign:
        said = f"--set takes NAME=VALUE, not `{figure[:40]}`"
        raise UsageProblem(Diagnostic("option-value", said, help="write `--set rows=32`"))
    return name.strip(), value


def _ask(name: str, question: str, usual: str, read: Callable[[str], T]) -> T:
    """Return the value that a person types, or the usual one; ask again where it is not possible."""
    while True:
        complain(f"{name}, {question} [{usual}]:")
        word = sys.stdin.readline()
        try:
            return read(word.strip() or usual)
        except UsageProblem as error:
            if not word:
                raise
            complain(error.render())
