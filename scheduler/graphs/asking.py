"""Solve a graph problem by CP-SAT in a separate process, so that a crash or a hang does no harm."""

from __future__ import annotations

import sys
import time
from typing import TypeVar

from isamap.scheduler.process.children import MEMORY_BYTES, Command, borrow_child
from isamap.scheduler.process.isolate import UNHEARD, why_unheard
from isamap.source import Diagnostic
from isamap.source.codec import read_value, write

GRACE_S = 5.0
COMMAND = (sys.executable, "-P", "-m", "isamap.scheduler.graphs.graph_solver", str(MEMORY_BYTES))

Answer = TypeVar("Answer")


def ask_for(
    kind: type[Answer], job: object, limit_s: float, command: Command = COMMAND
) -> Answer | Diagnostic | None:
    """Return the decision of a separate process, or the warning that it failed. Units: seconds of wall clock."""
    deadline = time.monotonic() + limit_s + GRACE_S
    try:
        with borrow_child(command) as child:
            child.wait(deadline)
            child.send(write(job))
            found = read_value(child.answer(deadline))
            if not (found is None or isinstance(found, kind)):
                raise ValueError(f"a {type(found).__name__} is not an answer")
            child.is_busy = False
            return found
    except UNHEARD as error:
        return why_unheard(error, limit_s, "plan")
