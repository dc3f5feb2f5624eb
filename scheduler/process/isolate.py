"""Run the solver in a child process, so that a crash, a hang or a lack of memory does no harm.

A child reports every better schedule as soon as it finds it, so earlier results are not lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from isamap.scheduler.process.children import COMMAND, Child, ChildLate, ChildLost, Command, borrow_child
from isamap.scheduler.process.exchange import RUNNING, Search, SearchResult
from isamap.source import Diagnostic, dataclass, replace
from isamap.source.codec import read_value, write

# How far beyond its limit a child that does not stop by itself may come, as a fraction and in seconds.
LATE_SHARE, LATE_S = 0.05, 0.2
# What talking to a child raises when it is lost, late, or talks nonsense.
UNHEARD = (ChildLost, ChildLate, ValueError, TypeError, KeyError, IndexError)


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """The last message of the solver. `failure` says why no further message came."""

    found: SearchResult | None
    failure: Diagnostic | None = None


def ask_apart(job: Search, command: Command = COMMAND) -> SolverAnswer:
    """Return the solver's result from a separate process, within the job's limit."""
    stop = time.monotonic() + job.limits.wall_s
    heard: list[SearchResult | None] = [None]
    try:
        with borrow_child(command) as child:
            child.wait(stop)
            left_s = max(0.0, stop - time.monotonic())
            own = replace(job, limits=replace(job.limits, wall_s=left_s))
            # Whatever was told before a failure has been added by then.
            heard.extend(_conversation(child, own, stop + left_s * LATE_SHARE + LATE_S))
    except UNHEARD as error:
        return SolverAnswer(heard[-1], why_unheard(error, job.limits.wall_s))
    return SolverAnswer(heard[-1])


def _conversation(child: Child, job: Search, deadline: float) -> Iterator[SearchResult]:
    """Yield the answers of a child to a job. Raises: ChildLate, ChildLost, and ValueError for an invalid answer."""
    child.send(write(job))
    while True:
        found = read_value(child.answer(deadline))
        if not isinstance(found, SearchResult) or found.contender >= len(job.contenders):
            raise ValueError(f"a {type(found).__name__} is not an answer")
        yield found
        if found.status != RUNNING:
            child.is_busy = False
            return


def why_unheard(error: Exception, limit_s: float, sought: str = "schedule") -> Diagnostic | None:
    """Return the warning for one of the errors `UNHEARD`, or None if the time was over before the job was sent."""
    if isinstance(error, ChildLost):
        return warn_of_failure(str(error), sought)
    if isinstance(error, ChildLate):
        late = f"it did not stop at its limit of {limit_s:.3g} s, and was ended"
        return warn_of_failure(late, sought) if error.was_asked else None
    return warn_of_failure(f"its answer cannot be read: {error}", sought)


def warn_of_failure(what: str, sought: str = "schedule") -> Diagnostic:
    """Return the warning that the solver failed, and why."""
    return Diagnostic(
        "solver-failed",
        f"the solver failed; the {sought} is the best that was known by then",
        severity="warning",
        notes=(what,),
        help="the program is correct, but may be slower; `isamap explain solver-failed` says more",
    )
