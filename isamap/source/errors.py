"""The error root: every failure that a user can cause is an `IsamapError` with its diagnostics."""

from __future__ import annotations

from isamap.source.diagnostic import Diagnostic


class IsamapError(Exception):
    """A failure with one or more findings; `exit_code` is what the command line returns."""

    exit_code = 2

    def __init__(self, *diagnostics: Diagnostic) -> None:
        assert diagnostics, "an error carries at least one diagnostic"
        super().__init__(diagnostics[0].message)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        """What a caller in Python reads behind the class: the notes and the next step, too."""
        return self.render()

    def render(self) -> str:
        """All findings, one under the other."""
        return "\n".join(d.render() for d in self.diagnostics)


class SyntaxProblem(IsamapError):
    """The text is not of the language."""


class TypeProblem(IsamapError):
    """The text parses, but its names, types or sizes do not fit."""


class SpecProblem(IsamapError):
    """A machine description is wrong."""


class UsageProblem(IsamapError):
    """A command or a call was given words that it does not take."""


class NoMapping(IsamapError):
    """It is proven that no mapping or schedule exists."""

    exit_code = 3


class Infeasible(IsamapError):
    """It is proven that the constraints of a schedule contradict each other."""

    exit_code = 3


class LimitReached(IsamapError):
    """A limit was hit; the best result so far was written."""

    exit_code = 4


class MissingTool(IsamapError):
    """The environment lacks a compiler, a permission or an emulator."""

    exit_code = 5


class VerificationFailed(IsamapError):
    """A check ran and found a difference."""

    exit_code = 1
