"""Many pieces of work on all cores, each process with a Python of its own."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from isamap.source.process import end_with, interrupts_put_off

Work = TypeVar("Work")
Found = TypeVar("Found")


def all_jobs() -> int:
    """How many cores may be used."""
    return len(os.sched_getaffinity(0))


def done_side_by_side(
    do: Callable[[Work], Found], wanted: Sequence[Work], jobs: int
) -> Iterator[tuple[int, Found]]:
    """What is found for each piece of work with its number, in the order in which they end."""
    if jobs == 1 or len(wanted) < 2:
        yield from ((number, do(one)) for number, one in enumerate(wanted))
        return
    # What is begun anew shares no thread and no lock with this process.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(wanted)), fresh, end_with, (os.getpid(),)) as pool:
        with interrupts_put_off():  # this process tells its own to end
            numbers = {pool.submit(do, one): number for number, one in enumerate(wanted)}
        try:
            yield from ((numbers[done], done.result()) for done in as_completed(numbers))
        except BaseException:  # Ctrl-C as well: what runs is not waited for
            for child in multiprocessing.active_children():
                child.terminate()
            raise
