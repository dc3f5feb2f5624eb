"""From the words of a command line to an exit code: the one place where failures become answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from isamap.cli.answer import Answer, Finding, print_answer
from isamap.cli.words import command_of, fill_values, spread_sizes
from isamap.source import Diagnostic, IsamapError

MAX_SHOWN = 50
"""Findings of one input that people are told: what is wrong with the rest, these say too."""


def run(words: Sequence[str]) -> int:
    """The exit code of a command line, after everything was said."""
    command = command_of(words)
    as_json = "--json" in words
    try:
        answer = _answer(command, words)
        print_answer(answer, command, as_json)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has gone: what it did not want is not an error, and nothing may be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return answer.exit


def _answer(command: str, words: Sequence[str]) -> Answer:
    """What a command answers, its failures included."""
    try:
        from isamap.cli.commands import invoke

        return invoke(command, spread_sizes(fill_values(words)))
    except IsamapError as error:
        return Answer(findings=_shown(error.diagnostics), exit=error.exit_code)
    except RecursionError as error:
        return _internal(words, error)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, people see one line and developers a bundle
        return _internal(words, error)


def _shown(diagnostics: Sequence[Diagnostic]) -> tuple[Finding, ...]:
    """The findings as they are told; of very many the first ones, and how many more there are."""
    more = len(diagnostics) - MAX_SHOWN
    told = list(diagnostics[:MAX_SHOWN])
    if more > 0:
        told.append(Diagnostic("more-findings", f"and {more} more like these", severity="note"))
    return tuple(Finding.of(diagnostic) for diagnostic in told)


def _internal(words: Sequence[str], error: Exception) -> Answer:
    from isamap.cli.repro import save_bundle

    bundle = save_bundle(words, error)
    said = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    found = Diagnostic(
        "internal-error",
        f"this is a mistake in isamap, not in your input ({said})",
        notes=(f"saved for a report: {bundle}",) if bundle else (),
    )
    return Answer(findings=(Finding.of(found),), exit=70)
