"""Compilations that were made before: found again by everything that they depend on, without a solver.

What is kept is the content of the output folder, what a person is told, and nothing that differs from run to
run. A result that the wall clock cut short is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from isamap.codegen.cache import Cache
from isamap.driver.request import Request, request_key
from isamap.source import Diagnostic, OnlyWarned

KIND = "compilations"


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning as JSON and as text."""

    json: dict[str, object]
    text: str

    @staticmethod
    def of(diagnostic: Diagnostic) -> Warned:
        """The warning of a diagnostic."""
        return Warned(diagnostic.as_json(), diagnostic.render())


@dataclass(frozen=True, slots=True)
class Outcome:
    """The files of a compilation by name, its summary as JSON, and its warnings."""

    kernel: str
    machine: str
    files: Mapping[str, str]
    summary: Mapping[str, Any]
    warnings: tuple[Warned, ...] = ()
    stage_seconds: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def is_cut_short(self) -> bool:
        """Whether the wall clock stopped the solver."""
        every: list[Any] = [*self.summary.get("versions", []), self.summary]
        return not all(one["schedule"]["reproducible"] for one in every)


def recall(request: Request) -> Outcome | None:
    """The outcome of an equal request; None where there is none yet, or none that can be read."""
    with OnlyWarned():
        path = Cache.open(KIND).find(request_key(request)) if request.cache else None
        return _read(path) if path is not None else None
    return None


def _read(path: Path) -> Outcome | None:
    try:
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        warnings = tuple(Warned(**w) for w in stored.pop("warnings"))
        return Outcome(**stored, warnings=warnings)
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None


def remember(request: Request, outcome: Outcome) -> None:
    """Keeps an outcome that depends on nothing but the request: not on the clock, nor on measurements."""
    if outcome.is_cut_short or request.measures or not request.cache:
        return
    stored: dict[str, Any] = asdict(outcome)
    stored["stage_seconds"] = {}
    with OnlyWarned():
        Cache.open(KIND).keep(request_key(request), json.dumps(stored, sort_keys=True).encode())
