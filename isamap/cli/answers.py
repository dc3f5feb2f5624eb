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

from isamap.cli.terminal import complain, is_terminal, takes_unicode, write_answer
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


def print_answer(answer: Answer, command: str, as_json: bool) -> int:
    """The exit code, after the answer went to standard output, and findings for people to standard error."""
    if as_json:
        head: dict[str, object] = {"schema": f"isamap.{command or 'usage'}/1", "ok": answer.exit == 0}
        head |= {"exit": answer.exit, "diagnostics": [f.json for f in answer.findings]}
        whole = {**head, **answer.payload}
        text = _ESCAPED.sub(_as_json, json.dumps(whole, indent=2, ensure_ascii=not takes_unicode()))
        return write_answer(f"{text}\n", answer.exit)
    code = answer.exit
    if answer.text:
        text = answer.text if answer.text.endswith("\n") else f"{answer.text}\n"
        code = write_answer(printable(text) if is_terminal() else text, code)
    for finding in answer.findings:
        complain(coloured(finding.text, sys.stderr))
    return code


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
