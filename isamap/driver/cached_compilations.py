"""The cache of compilations: found by the digest of all inputs, without a solver.

An entry has the content of the output folder and the messages, and nothing that differs from run to run. A
result that the wall clock cut short is not stored.

For callers that run the program, the entry also has its C and its interface: the library is then built, or
found in the cache, without running any stage. Only these callers read it, because it needs modules that a
cache hit of `compile` does not import.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from isamap.driver.request import Request, request_key
from isamap.source import Diagnostic, asdict, dataclass, field
from isamap.source.cache import recall_content, remember_content

if TYPE_CHECKING:
    from isamap.emit.c import EmittedC

KIND, PROGRAMS = "compilations", "programs"


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning as JSON and as text."""

    json: Mapping[str, object]
    text: str

    @staticmethod
    def of(diagnostic: Diagnostic) -> Warned:
        """Return the warning for a diagnostic."""
        return Warned(diagnostic.as_json(), diagnostic.render())


@dataclass(frozen=True, slots=True)
class CachedOutcome:
    """The files of a compilation by name, its summary as JSON, and its warnings."""

    kernel: str
    machine: str
    files: Mapping[str, str]
    summary: Mapping[str, Any]
    warnings: tuple[Warned, ...] = ()
    stage_seconds: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def is_cut_short(self) -> bool:
        """True if a time limit ended a search."""
        return not all(one["reproducible"] for one in self._schedules)

    @property
    def gaps(self) -> tuple[float | None, ...]:
        """The relative gap of each schedule to its proven bound, or None if no bound is known."""
        return tuple(one["gap"] for one in self._schedules)

    @property
    def _schedules(self) -> list[Any]:
        """The summary's entry for each schedule: of versions, or of several machines."""
        every: list[Any] = self.summary.get("versions") or self.summary.get("variants") or [self.summary]
        return [one["schedule"] for one in every]


def key_of(request: Request) -> str | None:
    """Return the sha256 under which the request's results are cached, or None if they are not cached."""
    return request_key(request) if request.cache and not request.measures else None


def recall(key: str | None) -> CachedOutcome | None:
    """Return the cached outcome of an equal request, or None if there is no readable one."""
    if (content := recall_content(KIND, key)) is None:
        return None
    try:
        stored: dict[str, Any] = json.loads(content)
        warnings = tuple(Warned(**w) for w in stored.pop("warnings"))
        return CachedOutcome(**stored, warnings=warnings)
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def remember(key: str | None, outcome: CachedOutcome) -> None:
    """Cache an outcome, unless it depends on the clock."""
    if key is None or outcome.is_cut_short:
        return
    stored: dict[str, Any] = asdict(outcome)
    stored["stage_seconds"] = {}
    remember_content(KIND, key, json.dumps(stored, sort_keys=True))


def recall_emitted(key: str | None) -> EmittedC | None:
    """Return the cached C of an equal request, or None if there is no readable one."""
    from isamap.emit.c import EmittedC
    from isamap.source.codec import read_as

    return read_as(EmittedC, recall_content(PROGRAMS, key))


def remember_emitted(key: str | None, outcome: CachedOutcome, emitted: EmittedC) -> None:
    """Cache the C of an outcome that is itself cached."""
    from isamap.source.codec import write

    if key is not None and not outcome.is_cut_short:
        remember_content(PROGRAMS, key, write(emitted))
