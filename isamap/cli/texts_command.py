"""`isamap fmt` and `isamap explain`: format texts of the language, and explain diagnostic codes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from isamap.cli.answers import Answer, Finding, write_text
from isamap.cli.option_parser import CommandOptions, argument, flag
from isamap.driver.inputs import STDIN, read_file, read_kernel
from isamap.driver.options import WORDS
from isamap.source import Diagnostic, UsageProblem, dataclass, did_you_mean, read_codes


@dataclass(frozen=True, slots=True, kw_only=True)
class FmtOptions(CommandOptions):
    """The options of `fmt`."""

    files: tuple[str, ...] = argument("FILE…", "Files to rewrite, or - for standard input.", kind=WORDS)
    check: bool = flag("--check", "Change nothing; exit 1 when a file would change.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions(CommandOptions):
    """The options of `explain`."""

    code: str = argument("CODE", "The code in brackets of a message.")


def fmt_command(asked: FmtOptions) -> Answer:
    """Write kernels in their canonical form."""
    from isamap.syntax.parser import format_source

    files, check, changed = asked.files, asked.check, list[str]()
    printed = ""
    # All are read before the first is written: a mistake in one leaves all as they are.
    texts = [(name, read_kernel("-") if name == "-" else read_file(Path(name), name)) for name in files]
    formatted = [(name, source, format_source(source)) for name, source in texts]
    for name, source, text in formatted:
        if text != source.text:
            changed.append(STDIN if name == "-" else name)
        if name == "-" and not check:
            printed = text
        elif text != source.text and not check:
            write_text(Path(name), text, overwrite=True)
    payload = {"changed": changed, "files": len(files), **({"text": printed} if "-" in files else {})}
    if not check:
        return Answer(payload, printed)
    found = tuple(
        Finding.of(
            Diagnostic(
                "not-canonical", f"{name} is not in its canonical form", help=f"run `isamap fmt {name}`"
            )
        )
        for name in changed
    )
    return Answer(payload, "", found, 1 if changed else 0)


def explain_command(asked: ExplainOptions) -> Answer:
    """Explain the code of a message."""
    word, codes = asked.code.strip("[]"), read_codes()
    if word not in codes:
        raise UsageProblem.of(
            "unknown-code", f"there is no code `{word[:80]}`", help=did_you_mean(word, codes)
        )
    found = codes[word]
    lines = [f"{word}: {found.title}", "", *_wrap(found.text)]
    if found.example:
        lines += ["", "Refused with this code:", "", *(f"    {line}" for line in found.example.splitlines())]
    payload = {"code": word, "title": found.title, "text": found.text, "example": found.example}
    return Answer(payload, "\n".join(lines))


def _wrap(text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, min(100, _width()))


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 100
