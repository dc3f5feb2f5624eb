"""What cannot be kept for another time costs a warning, never the result.

    with OnlyWarned():
        cache.keep(key, content)

Functions that keep things raise `Unkept`. A function that has a result without them says so by this block,
and nowhere else: a caller in Python gets the warning `NotKept`, the command line shows its diagnostic.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

from isamap.source.diagnostic import Diagnostic
from isamap.source.errors import UsageProblem


class Unkept(UsageProblem):
    """A place where results are kept cannot be used: it is full, read-only, or something else is there."""


class NotKept(UserWarning):
    """The result is there; it, or what would have made the next one faster, was not kept."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.render())
        self.diagnostic = diagnostic


class OnlyWarned:
    """A block that ends where something cannot be kept, with a warning for each finding."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Unkept):
            return False
        for diagnostic in error.diagnostics:
            warnings.warn(NotKept(replace(diagnostic, severity="warning")), stacklevel=2)
        return True
