"""Print the answer of a command: one JSON object, or text for users.

Findings for people go to standard error, in colour on a terminal. Output files are written completely or
not at all, and never replace a file without permission.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from isamap.cli.terminal import complain, is_terminal, takes_unicode, write_answer
from isamap.source import Diagnostic, UsageProblem, cannot_write, printable, replace_file
from isamap.source.records import dataclass, field, replace

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
        """Return a diagnostic as a finding."""
        return Finding(diagnostic.as_json(), diagnostic.render())


@dataclass(frozen=True, slots=True)
class Answer:
    """The payload of a command, its text for users, findings, and the exit code.

    `gaps` are the relative gaps of its schedules to their proven bounds.
    """

    payload: Mapping[str, object] = field(default_factory=dict[str, object])
    text: str = ""
    findings: tuple[Finding, ...] = ()
    exit: int = 0
    gaps: tuple[float | None, ...] = ()


def with_proof(answer: Answer, require: str) -> Answer:
    """Return the answer. Its exit code is 4 if `--require proven` was given and a gap remains."""
    if not require:
        return answer
    from isamap.plan.schedule import PROVEN

    open_ = [gap for gap in answer.gaps if gap is None or gap >= PROVEN]
    if not open_:
        return answer
    known = [gap for gap in open_ if gap is not None]
    far = f"may be {100 * max(known):.2g} % above the optimum" if known else "has no bound"
    lack = Diagnostic(
        "not-proven",
        f"the schedule {far}, and `--require proven` requires a proof; the schedule is stored nevertheless",
        help="give the solver more time with --limit, or leave out --heuristic",
    )
    return replace(answer, findings=(*answer.findings, Finding.of(lack)), exit=answer.exit or 4)


def print_answer(answer: Answer, command: str, as_json: bool) -> int:
    """Print an answer to standard output and its findings to standard error. Return the exit code."""
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
        complain(render_in_colour(finding.text, sys.stderr))
    return code


def _as_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def render_in_colour(text: str, stream: TextIO) -> str:
    """Return the rendered findings with colours, if the stream is a terminal that supports them."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text

    def head(m: re.Match[str]) -> str:
        return f"\x1b[1m{m['place']}\x1b[{_COLOURS[m['word']]}m{m['word']}{m['code']}\x1b[0m"

    def below(m: re.Match[str]) -> str:
        return f"  \x1b[{_COLOURS[m['word']]}m{m['word']}\x1b[0m:"

    return _BELOW.sub(below, _HEAD.sub(head, text, count=1))


def write_text(path: Path, text: str | bytes, *, overwrite: bool = False) -> None:
    """Create a file atomically, or write directly to a pipe or device.

    Raises: UsageProblem if the file exists; as `unwritable` states if it cannot be written.
    """
    if not overwrite:
        check_new(path)
    named, is_stream, path = path, _is_stream(path), path.resolve()
    try:
        content = text.encode() if isinstance(text, str) else text
        if is_stream:
            named.write_bytes(content)
        else:
            replace_file(path, content, _mode(path), None if overwrite else _place_new)
    except FileExistsError:
        raise _exists(named) from None
    except OSError as error:
        raise cannot_write(named, error) from None


def check_new(path: Path) -> None:
    """Check that a file does not exist. Raises: UsageProblem."""
    if os.path.lexists(path) and not _is_stream(path):
        raise _exists(path)


def _is_stream(path: Path) -> bool:
    """Return whether a path leads to a device, a pipe or a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _place_new(made: str, path: Path) -> None:
    """Link the finished file to its name. This fails if another process has created the file meanwhile."""
    try:
        os.link(made, path)
    except (NotImplementedError, PermissionError):  # some file systems have no links
        os.replace(made, path)


def _mode(path: Path) -> int:
    """Return the permissions of the file that is replaced, or those of a new file."""
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _exists(path: Path) -> UsageProblem:
    return UsageProblem.of(
        "output-exists", f"{path} exists already", help="name another file, or add --overwrite"
    )
