"""Run many pieces of work on all cores, each in a separate Python process."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TypeVar

from isamap.source.process import end_with, interrupts_put_off

AHEAD = 2
"""Pieces that each other process is given while this one works: one to go on with when one is done."""

Work = TypeVar("Work")
Found = TypeVar("Found")


def all_jobs() -> int:
    """Return how many cores may be used."""
    return len(os.sched_getaffinity(0))


def done_side_by_side(
    do: Callable[[Work], Found], requests: Sequence[Work], jobs: int, *, here: bool = False
) -> Iterator[tuple[int, Found]]:
    """Yield the result of each piece of work with its number, in order of completion.

    With `here`, this process takes part, and takes pieces from the end.
    """
    if jobs == 1 or len(requests) < 2:
        yield from ((number, do(one)) for number, one in enumerate(requests))
        return
    # What is begun anew shares no thread and no lock with this process.
    fresh = multiprocessing.get_context("spawn")
    others = min(jobs, len(requests)) - here
    with ProcessPoolExecutor(others, fresh, end_with, (os.getpid(),)) as pool:
        left, begun = deque(enumerate(requests)), dict[Future[Found], int]()
        try:
            while left or begun:
                with interrupts_put_off():  # this process tells its own to end
                    while left and (not here or len(begun) < AHEAD * others):
                        number, one = left.popleft()
                        begun[pool.submit(do, one)] = number
                if left:
                    number, one = left.pop()
                    yield number, do(one)
                else:
                    wait(begun, return_when=FIRST_COMPLETED)
                for done in [one for one in begun if one.done()]:
                    yield begun.pop(done), done.result()
        except BaseException:  # Ctrl-C as well: what runs is not waited for
            for child in multiprocessing.active_children():
                child.terminate()
            raise
