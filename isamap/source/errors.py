"""The error root: every failure that a user can cause is an `IsamapError` with its diagnostics.

A failure to cache a result causes a warning, and never the loss of the result.

    with OnlyWarned():
        cache.keep(key, content)

Functions that store results raise `Unkept`. A function whose result does not depend on storage uses this
block, and handles the error nowhere else: a caller in Python gets the warning `NotKept`, and the command line
shows its diagnostic.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from isamap.source.diagnostic import Diagnostic, Edit, Span
from isamap.source.records import replace

T = TypeVar("T")


class IsamapError(Exception):
    """A failure with one or more findings. `exit_code` is the exit code of the command line."""

    exit_code = 2

    def __init__(self, *diagnostics: Diagnostic) -> None:
        assert diagnostics, "an error carries at least one diagnostic"
        super().__init__(diagnostics[0].message)
        self.diagnostics = diagnostics

    @classmethod
    def of(
        cls,
        code: str,
        message: str,
        span: Span | None = None,
        *,
        notes: tuple[str, ...] = (),
        help: str | None = None,  # noqa: A002 - the name of the field
        edits: tuple[Edit, ...] = (),
    ) -> Self:
        """Return the error with one finding of these fields."""
        return cls(Diagnostic(code, message, span, notes=notes, help=help, edits=edits))

    def __str__(self) -> str:
        """Return the rendered diagnostics with notes and the next step, as Python prints them after the class."""
        return self.render()

    def render(self) -> str:
        """Return all findings, one per line."""
        return "\n".join(d.render() for d in self.diagnostics)


class SyntaxProblem(IsamapError):
    """An error: a text does not follow the grammar of the language."""


class TypeProblem(IsamapError):
    """An error: a text parses, but its names, types or sizes do not fit."""


class SpecProblem(IsamapError):
    """An error in a machine description."""


class UsageProblem(IsamapError):
    """An error: a command or call has invalid arguments."""


class MissingWords(UsageProblem):
    """An error: a command line lacks options. `words` are those to add, with placeholders for values."""

    def __init__(self, diagnostic: Diagnostic, words: tuple[str, ...]) -> None:
        super().__init__(diagnostic)
        self.words = words


class NoMapping(IsamapError):
    """An error: it is proven that no mapping or schedule exists."""

    exit_code = 3


class Infeasible(IsamapError):
    """An error: it is proven that the constraints of a schedule contradict each other."""

    exit_code = 3


class MissingTool(IsamapError):
    """An error: the environment lacks a compiler, a permission or an emulator."""

    exit_code = 5


class VerificationFailed(IsamapError):
    """An error: a check found a difference."""

    exit_code = 1


class Unkept(UsageProblem):
    """An error: a storage folder cannot be used, because it is full, is read-only, or is not a folder."""


class NotKept(UserWarning):
    """A warning: the result is complete, but could not be stored for later runs."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.render())
        self.diagnostic = diagnostic


class OnlyWarned:
    """A context in which a failure to store a result is only a warning."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Unkept):
            return False
        for diagnostic in error.diagnostics:
            warnings.warn(NotKept(replace(diagnostic, severity="warning")), stacklevel=2)
        return True


def assert_rules(subject: str, find_broken: Callable[[T], Sequence[str]], value: T) -> None:
    """Check rules of an intermediate result if ISAMAP_CHECK_RULES is 1. Raises: AssertionError.

    The tests set it for all their compilations. A user's compilation pays nothing for the rules, and a rule that is
    itself wrong cannot end it.
    """
    if os.environ.get("ISAMAP_CHECK_RULES") == "1" and (broken := find_broken(value)):
        raise AssertionError(f"{subject} broke its rules: {broken[0]}")
