"""What a command answers: one JSON object, or text for people.

Findings for people go to standard error, in colour on a terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO

from isamap.source import Diagnostic, printable

_COLOURS = {"error": "31", "warning": "33", "note": "36", "help": "32"}
_HEAD = re.compile(r"^(?P<place>.*?)(?P<word>error|warning|note)(?P<code>\[[a-z-]+\])", re.MULTILINE)
# What JSON may hold as it is, and a terminal or an encoding may not.
_ESCAPED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BELOW = re.compile(r"^  (?P<word>note|help):", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A diagnostic as JSON and as text."""

    json: Mapping[str, object]
    text: str

    @staticmethod
    def of(diagnostic: Diagnostic) -> Finding:
        """The finding that a diagnostic is."""
        return Finding(diagnostic.as_json(), diagnostic.render())


@dataclass(frozen=True, slots=True)
class Answer:
    """The payload of a command, the same for people, findings, and the exit code."""

    payload: Mapping[str, object] = field(default_factory=dict[str, object])
    text: str = ""
    findings: tuple[Finding, ...] = ()
    exit: int = 0


def print_answer(answer: Answer, command: str, as_json: bool) -> None:
    """Writes an answer to standard output, and findings for people to standard error."""
    if as_json:
        head: dict[str, object] = {"schema": f"isamap.{command or 'usage'}/1", "ok": answer.exit == 0}
        head |= {"exit": answer.exit, "diagnostics": [f.json for f in answer.findings]}
        print(_ESCAPED.sub(_as_json, json.dumps({**head, **answer.payload}, indent=2, ensure_ascii=False)))
        return
    if answer.text:
        text = answer.text if answer.text.endswith("\n") else f"{answer.text}\n"
        sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
    for finding in answer.findings:
        print(coloured(finding.text, sys.stderr), file=sys.stderr)


def _as_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def coloured(text: str, stream: TextIO) -> str:
    """The rendered findings with colours, where the stream is a terminal that wants them."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text

    def head(m: re.Match[str]) -> str:
        return f"\x1b[1m{m['place']}\x1b[{_COLOURS[m['word']]}m{m['word']}{m['code']}\x1b[0m"

    def below(m: re.Match[str]) -> str:
        return f"  \x1b[{_COLOURS[m['word']]}m{m['word']}\x1b[0m:"

    return _BELOW.sub(below, _HEAD.sub(head, text, count=1))
