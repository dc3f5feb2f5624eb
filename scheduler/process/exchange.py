"""Messages between the caller and the solver's process: data only."""

from __future__ import annotations

from isamap.scheduler.deciding.space import Assignment
from isamap.scheduler.search.candidates import Candidate
from isamap.scheduler.statement_model import OpenOptionModel
from isamap.source.records import dataclass

RUNNING = "RUNNING"


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The limits of a search. Units: seconds of wall clock, and the solver's own measure of effort."""

    wall_s: float
    effort: float


@dataclass(frozen=True, slots=True)
class Search:
    """A search for a schedule that costs less than `best_ns`, and the options to search.

    The first contender starts from the best known schedule, unless that is already the best of its option:
    then `holds_best` is false. Options in `without` are skipped. Units: nanoseconds; no schedule costs less
    than `floor_ns`.
    """

    contenders: tuple[OpenOptionModel, ...]
    best_ns: float
    floor_ns: float
    limits: SearchLimits
    holds_best: bool = True
    without: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """An intermediate or final result of the solver: a better schedule, and the proven bound.

    `status` is the solver's word, or RUNNING while the search continues. `contender` is -1 without a
    schedule. `denials` counts how often the solver reported infeasibility although a schedule was known.
    `is_stopped` says that the clock ended the search. Units: `bound_ns` in nanoseconds, `effort` in the
    solver's own measure.
    """

    status: str
    bound_ns: float
    contender: int
    assignment: Assignment
    denials: int = 0
    is_stopped: bool = False
    effort: float = 0.0
