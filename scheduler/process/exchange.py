"""What the caller asks of the solver's process, and what it answers: data only."""

from __future__ import annotations

from dataclasses import dataclass

from isamap.scheduler.deciding.space import Assignment
from isamap.scheduler.search.candidates import Candidate
from isamap.scheduler.statement_model import Contender

RUNNING = "RUNNING"


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop. Units: seconds of wall clock, and the solver's own measure of effort."""

    wall_s: float
    effort: float


@dataclass(frozen=True, slots=True)
class Search:
    """The schedules among which to look for one that costs less than `best_ns`.

    The first contender starts from the best schedule known, unless that is the best of its option already:
    then `holds_best` is false. Those in `without` are not looked at. Units: nanoseconds; nothing costs less
    than `floor_ns`.
    """

    contenders: tuple[Contender, ...]
    best_ns: float
    floor_ns: float
    limits: Limits
    holds_best: bool = True
    without: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What the solver has: a schedule, better than those before, and what is proven so far.

    `status` is the solver's word, or RUNNING while it looks on; `contender` is -1 where it has no schedule.
    `denials` is how many times it said that there is none, although one was known; `is_stopped` says that
    the clock ended the search. Units: `bound_ns` in nanoseconds, `effort` in the solver's own measure.
    """

    status: str
    bound_ns: float
    contender: int
    assignment: Assignment
    denials: int = 0
    is_stopped: bool = False
    effort: float = 0.0
