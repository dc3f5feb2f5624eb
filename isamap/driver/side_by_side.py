"""Run many pieces of work: on all cores in separate Python processes, or on a Dask cluster.

    done_side_by_side(predict, requests, 4)                      four processes of this computer
    done_side_by_side(predict, requests, "tcp://head:8786")      the workers of that scheduler

The workers of a cluster need the same isamap. They are given the texts of the user's own machines, so they
share no files. Dask repeats the work that a lost worker had.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from typing import Any, Generic, TypeVar

from isamap.machine.chain import File, files_to_send, with_files
from isamap.source import MissingTool, UsageProblem, dataclass
from isamap.source.process import end_with, interrupts_put_off
from isamap.version import __version__

AHEAD = 2
"""Pieces that each other process is given while this one works: one to go on with when one is done."""
AHEAD_THERE = 256
"""Pieces that a cluster has at a time: memory of the scheduler, and of this process, stays small."""
CONNECT_S = 10

Work = TypeVar("Work")
Found = TypeVar("Found")


def all_jobs() -> int:
    """Return how many cores may be used."""
    return len(os.sched_getaffinity(0))


def workers_of(jobs: int, scheduler: str | None) -> int | str:
    """Return the number of local processes, or a scheduler's address. Raises: UsageProblem if both are given."""
    if scheduler is not None and jobs:
        said = "a scheduler uses its own workers, and `--jobs` counts processes of this computer"
        raise UsageProblem.of("usage", said, help="leave out `--jobs`")
    return scheduler or jobs or all_jobs()


def done_side_by_side(
    do: Callable[[Work], Found],
    requests: Sequence[Work],
    where: int | str,
    *,
    here: bool = False,
    machines: Callable[[Work], Iterable[str]] = lambda _: (),
) -> Iterator[tuple[int, Found]]:
    """Yield the result of each piece of work with its number, in order of completion.

    `where` is a number of processes, or the address of a scheduler of Dask. With `here`, this process takes
    part, and takes pieces from the end. `machines` names the descriptions that a piece reads.
    """
    if isinstance(where, str):
        sent = (RemoteWork(do, one, files_to_send(machines(one))) for one in requests)
        yield from done_on_cluster(do_there, sent, where) if requests else ()
        return
    if where == 1 or len(requests) < 2:
        yield from ((number, do(one)) for number, one in enumerate(requests))
        return
    # What is begun anew shares no thread and no lock with this process.
    fresh = multiprocessing.get_context("spawn")
    others = min(where, len(requests)) - here
    with ProcessPoolExecutor(others, fresh, end_with, (os.getpid(),)) as pool:
        left, begun = deque(enumerate(requests)), dict[Future[Found], int]()
        try:
            while left or begun:
                with interrupts_put_off():  # this process tells its own to end
                    while left and (not here or len(begun) < AHEAD * others):
                        number, one = left.popleft()
                        # A thread of the pool would serialize it while this process changes its caches.
                        sent = bytes(ForkingPickler.dumps((do, one)))
                        begun[pool.submit(_do_serialized, sent)] = number
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


def _do_serialized(sent: bytes) -> Any:
    """Return the result of a piece of work that this process's parent has sent."""
    serializer: Any = ForkingPickler  # typeshed takes its function `loads` for a method
    do, one = serializer.loads(sent)
    return do(one)


# --- cluster --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RemoteWork(Generic[Work, Found]):
    """A piece of work, with the descriptions that it reads by their names."""

    do: Callable[[Work], Found]
    request: Work
    files: Mapping[str, File]


def do_there(sent: RemoteWork[Work, Found]) -> Found:
    """Return the result of a piece of work on the worker that received it."""
    with with_files(sent.files):
        return sent.do(sent.request)


def done_on_cluster(
    do: Callable[[Work], Found], requests: Iterable[Work], address: str
) -> Iterator[tuple[int, Found]]:
    """Yield the result of each piece of work with its number, in order of completion.

    Raises: MissingTool without `distributed`; UsageProblem if no scheduler answers, or if workers have
    another version of isamap or none.
    """
    with _client(address) as (distributed, client):
        left, asked = enumerate(requests), dict[Any, tuple[int, Work]]()

        def submit(pieces: Iterable[tuple[int, Work]]) -> list[Any]:
            # `pure`: work that is equal would be done once, and counted once
            made = {client.submit(do, one, pure=False): (number, one) for number, one in pieces}
            asked.update(made)
            return list(made)

        running = distributed.as_completed(submit(islice(left, AHEAD_THERE)), loop=client.loop)
        for future in running:
            number, one = asked.pop(future)
            if future.status == "finished":
                yield number, future.result()
                future.release()
                running.update(submit(islice(left, 1)))
            elif future.status == "error":
                raise _refuse_address(address, f"a job of it failed: {future.exception()!r}")
            elif client.status in ("closing", "closed"):
                raise _refuse_address(address, "its scheduler ended")
            else:  # lost with the worker that had finished it, or with the connection to the scheduler
                running.update(submit([(number, one)]))


@contextmanager
def _client(address: str) -> Generator[tuple[Any, Any]]:
    """Connect to a scheduler whose workers have this isamap. Yield the connection and the library."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError:
        said = "`--scheduler` needs the package distributed of Dask, which is not installed"
        raise MissingTool.of("no-dask", said, help="`pip install 'isamap[dask]'`") from None
    try:
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        said = f"no scheduler of Dask answers at `{address}`"
        help_ = "`dask scheduler` prints its address, as tcp://192.168.0.7:8786"
        notes = (f"{type(error).__name__}: {error}"[:200],)
        raise UsageProblem.of("no-scheduler", said, notes=notes, help=help_) from None
    with client:
        _check_workers(address, client)
        yield distributed, client


def _check_workers(address: str, client: Any) -> None:
    """Check that all connected workers have the same isamap as this process. A worker that is lost has none."""
    closed: type[Exception] = importlib.import_module("distributed.comm").CommClosedError
    try:
        answers: dict[str, str | Exception] = client.run(version, on_error="return")
    except OSError as error:
        raise _refuse_address(address, f"its scheduler ended: {error}") from None
    for where, found in answers.items():
        if isinstance(found, Exception) and not isinstance(found, (ConnectionError, TimeoutError, closed)):
            raise _refuse_address(address, f"a worker cannot run isamap: {found!r}")
        if isinstance(found, str) and found != __version__:
            raise _refuse_address(address, f"the worker {where} has isamap {found}, this is {__version__}")


def version() -> str:
    """Return the version of isamap on a worker."""
    return __version__


def _refuse_address(address: str, why: str) -> UsageProblem:
    said = f"the cluster at `{address}` does not do the work"
    help_ = "install this version of isamap where its workers run"
    return UsageProblem.of("cluster-failed", said, notes=(why[:300],), help=help_)
