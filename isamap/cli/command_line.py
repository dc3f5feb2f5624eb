"""Run a command line and return its exit code: the single place that turns failures into answers.

If isamap itself fails, it saves the data for a reproduction in the private cache, and sends them nowhere.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import shlex
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

from isamap.cli import INTERRUPTED
from isamap.cli.answers import Answer, Finding, print_answer
from isamap.cli.early_words import fill_values, find_command, insert_model, repeat_options
from isamap.cli.option_parser import CommandOptions
from isamap.cli.terminal import complain, discard_output, prepare_streams, write_answer
from isamap.driver.options import list_options
from isamap.source.cache import cache_root, digest, kept_here
from isamap.source.diagnostic import Diagnostic, IsamapError, MissingTool, MissingWords, NotKept, UsageProblem
from isamap.source.files import read_limited
from isamap.source.progress import Progress, log_progress
from isamap.source.records import replace
from isamap.version import __version__

MAX_INPUT_BYTES = 1 << 20


def save_bundle(words: Sequence[str], error: BaseException) -> Path | None:
    """Return the path of a saved file with command line, input files and traceback, or None if none is written."""
    trace = "".join(traceback.format_exception(error))
    bundle = {
        "isamap": __version__,
        "python": sys.version,
        # Not `platform.platform`, which starts a process.
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "words": list(words),
        "traceback": trace,
        "inputs": {word: text for word in words if (text := _read_word(word)) is not None},
    }
    try:
        folder = cache_root() / "repro"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{digest(trace, *words)[:12]}.json"
        path.write_text(json.dumps(bundle, indent=2), encoding="utf-8")
    except (OSError, IsamapError):
        return None
    return path


def _read_word(word: str) -> str | None:
    """Return the text of an input file that the command line names, or None."""
    path = Path(word)
    try:
        if path.suffix in (".ir", ".yaml", ".yml", ".schedule", ".json"):
            data = read_limited(path, MAX_INPUT_BYTES)
            return data.decode("utf-8", errors="replace") if len(data) <= MAX_INPUT_BYTES else None
    except (OSError, ValueError):
        return None
    return None


# What an operating system says where nothing is wrong with isamap, but something lacks.
_REFUSALS = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
        *(errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
    )
)

# What the loader of libraries says where there is no room for one.
UNMAPPED = "failed to map segment"

MAX_SHOWN = 50
"""The most findings shown for one input."""


def run(words: Sequence[str]) -> int:
    """Run a command line, print its answer, and return the exit code."""
    prepare_streams()
    words = insert_model(words)
    command = find_command(words)
    as_json, quiet, verbose = (bool({*words} & {*one.flags}) for one in list_options(CommandOptions).values())
    try:
        with log_progress(quiet=quiet, verbose=verbose), _watch(command), _interrupts() as interrupts:
            answer = _answer(command, words, interrupts)
        if quiet and not as_json:
            errors = tuple(found for found in answer.findings if found.json["severity"] == "error")
            answer = replace(answer, findings=errors)
        return print_answer(answer, command, as_json)
    except KeyboardInterrupt:
        complain(f"interrupted{_describe_kept(command)}")
        return INTERRUPTED


def _watch(command: str) -> AbstractContextManager[object]:
    """Return a context that shows progress before the command's own progress. `lsp` has none."""
    return nullcontext() if command == "lsp" else Progress(command.replace(".", " "))


def _describe_kept(command: str) -> str:
    """Return text about the results of an interrupted command that are kept: cached ones, rows of a benchmark."""
    counted = ", ".join(f"{count} of {kind}" for kind, count in sorted(kept_here.items()))
    kept = f"; kept in the cache, where the same command finds them: {counted}" if counted else ""
    rows = "; `--resume` goes on behind the rows that -o has" if command.startswith("bench.") else ""
    return kept + rows


@contextmanager
def _interrupts() -> Generator[list[int]]:
    """Record interrupts: an import of compiled code may raise another exception instead of KeyboardInterrupt."""
    found: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        found.append(number)
        signal.default_int_handler(number, frame)

    if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) != signal.default_int_handler:
        yield found
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _answer(command: str, words: Sequence[str], interrupts: Sequence[int]) -> Answer:
    """Return the answer of a command, with warnings about results that were not stored."""
    with _collect_warnings() as unkept:
        answer = _invoke_command(command, words, interrupts)
    return replace(answer, findings=(*answer.findings, *unkept.values())) if unkept else answer


def _invoke_command(command: str, words: Sequence[str], interrupts: Sequence[int]) -> Answer:
    try:
        if words and words[0] in ("--install-completion", "--show-completion"):
            from isamap.cli.completion import completion_command

            return completion_command(words)
        from isamap.cli.commands import invoke

        return invoke(command, repeat_options(fill_values(words)))
    except MissingWords as error:
        whole = f"isamap {shlex.join([*words, *error.words])}"
        asked = (replace(d, help=f"give all of them: {whole}") for d in error.diagnostics)
        return _answer_error(UsageProblem(*asked))
    except IsamapError as error:
        return _answer_error(error)
    except MemoryError as error:
        return _answer_error(
            _missing_tool("out-of-memory", "there is not enough memory for this", str(error))
        )
    except OSError as error:
        return _answer_os_error(words, error)
    except ImportError as error:
        if interrupts:
            raise KeyboardInterrupt from error
        if UNMAPPED not in str(error):
            return _internal(words, error)
        return _answer_error(
            _missing_tool("out-of-memory", "there is not enough memory for this", str(error))
        )
    except Exception as error:
        if interrupts:
            raise KeyboardInterrupt from error
        return _internal(words, error)


@contextmanager
def _collect_warnings() -> Generator[dict[str, Finding]]:
    """Collect each warning that a result could not be cached once, by its text. Other warnings pass through."""
    found: dict[str, Finding] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("always", NotKept)
        show = warnings.showwarning

        def collect(message: Warning | str, *where: Any, **more: Any) -> None:
            if isinstance(message, NotKept):
                found.setdefault(str(message), Finding.of(message.diagnostic))
            else:
                show(message, *where, **more)

        warnings.showwarning = collect
        yield found


def _answer_os_error(words: Sequence[str], error: OSError) -> Answer:
    """Return the answer for an error of the operating system: a missing file, or a bug in isamap."""
    discard_output()
    if isinstance(error, BrokenPipeError):  # a help page whose reader closed the pipe
        return Answer(exit=write_answer("", 0))
    try:
        os.getcwd()
    except OSError:
        said = "the folder in which isamap was started is gone"
        return _answer_error(_missing_tool("system-refused", said, "", "change to another folder"))
    try:
        tempfile.gettempdir()
    except OSError:
        said = "no folder takes temporary files: each is full or read-only"
        advice = "free some space, or name another folder with TMPDIR"
        return _answer_error(_missing_tool("system-refused", said, "", advice))
    if error.errno not in _REFUSALS:
        return _internal(words, error)
    at = f": {error.filename}" if error.filename else ""
    return _answer_error(
        _missing_tool("system-refused", f"the operating system refuses: {error.strerror}{at}", "")
    )


def _missing_tool(code: str, message: str, note: str, advice: str | None = None) -> MissingTool:
    return MissingTool.of(code, message, notes=(note,) if note else (), help=advice)


def _answer_error(error: IsamapError) -> Answer:
    # The findings to print. Of very many, the first ones are kept, with the number of the others.
    more = len(error.diagnostics) - MAX_SHOWN
    told = list(error.diagnostics[:MAX_SHOWN])
    if more > 0:
        told.append(Diagnostic("more-findings", f"and {more} more like these", severity="note"))
    return Answer(findings=tuple(Finding.of(diagnostic) for diagnostic in told), exit=error.exit_code)


def _internal(words: Sequence[str], error: Exception) -> Answer:
    bundle = save_bundle(words, error)
    said = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    found = Diagnostic(
        "internal-error",
        f"this is a mistake in isamap, not in your input ({said})",
        notes=(f"saved for a report: {bundle}",) if bundle else (),
    )
    return Answer(findings=(Finding.of(found),), exit=70)
