"""The collection of findings of one description, so that a person sees all mistakes at once."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from isamap.source import Diagnostic, IsamapError, Span, SpecProblem

MAX_FINDINGS = 50
"""How many names get advice, which is found by comparing each with all that are known."""


@dataclass
class Findings:
    """Collects diagnostics while one machine is read; used only there."""

    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def report(
        self, code: str, message: str, span: Span | None, *notes: str, advice: str | None = None
    ) -> None:
        """Keep one finding and go on."""
        self.diagnostics.append(Diagnostic(code, message, span, notes=notes, help=advice))

    def unknown(
        self, code: str, what: str, name: str, span: Span | None, known: Iterable[str], *notes: str
    ) -> None:
        """Keep the finding that nothing is called so, with what there is and the nearest of it."""
        shown = sorted(known)
        listed = (
            f"known: {', '.join(shown[:16])}{', …' if len(shown) > 16 else ''}" if shown else "there is none"
        )
        near = self.nearest(name, shown)
        advice = f"did you mean `{near}`?" if near else None
        self.report(code, f"there is no {what} called `{name}`", span, listed, *notes, advice=advice)

    def nearest(self, name: str, known: Iterable[str]) -> str | None:
        """The known name that was probably meant; None where more is wrong already than is shown."""
        return nearest(name, known) if len(self.diagnostics) < MAX_FINDINGS else None

    @contextmanager
    def collect(self, *notes: str) -> Generator[None]:
        """Run a block; keep what it refuses, with these notes, instead of passing it on."""
        try:
            yield
        except IsamapError as error:
            self.diagnostics += (replace(d, notes=(*d.notes, *notes)) for d in error.diagnostics)

    def raise_any(self) -> None:
        """Raise one error with everything that was found, in the order of the text."""
        if not self.diagnostics:
            return
        # Members of one family tend to fail alike: the first one speaks for them.
        first: dict[tuple[str, str, int], Diagnostic] = {}
        for d in self.diagnostics:
            first.setdefault((d.code, d.message, d.span.start if d.span else -1), d)
        ordered = sorted(first.values(), key=lambda d: d.span.start if d.span else -1)
        raise SpecProblem(*ordered)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    close = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close[0] if close else None
