"""Many pieces of work on a cluster of Dask: other computers, on which the same isamap is installed.

`isamap hw sweep … --scheduler tcp://head:8786` sends each prediction as a job, with what it needs as texts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from isamap.source import Diagnostic, MissingTool, UsageProblem
from isamap.version import __version__

Work = TypeVar("Work")
Found = TypeVar("Found")
CONNECT_S = 10


def done_on_cluster(
    do: Callable[[Work], Found], requests: Sequence[Work], address: str
) -> Iterator[tuple[int, Found]]:
    """Yield the result of each piece of work with its number, in the order in which they end.

    Raises: MissingTool without `distributed`; UsageProblem where no scheduler answers, or where workers have
    another isamap or none.
    """
    with _client(address) as (distributed, client):
        # `pure`: work that is equal would be done once, and counted once
        futures = client.map(do, list(requests), pure=False)
        numbers = {future: number for number, future in enumerate(futures)}
        for future in distributed.as_completed(futures, loop=client.loop):
            if future.status != "finished":
                raise _refused(address, f"a job of it failed: {future.exception()!r}")
            yield numbers[future], future.result()
            future.release()


@contextmanager
def _client(address: str) -> Generator[tuple[Any, Any]]:
    """Open a connection to a scheduler whose workers have this isamap, and yield it with the library."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError:
        said = "`--scheduler` needs the package distributed of Dask, which is not installed"
        raise MissingTool(Diagnostic("no-dask", said, help="`pip install 'isamap[dask]'`")) from None
    try:
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        said = f"no scheduler of Dask answers at `{address}`"
        help_ = "`dask scheduler` prints its address, as tcp://192.168.0.7:8786"
        notes = (f"{type(error).__name__}: {error}"[:200],)
        raise UsageProblem(Diagnostic("no-scheduler", said, notes=notes, help=help_)) from None
    with client:
        _check_workers(address, client)
        yield distributed, client


def _check_workers(address: str, client: Any) -> None:
    """Nothing, where all workers that are there have the isamap that asks them."""
    try:
        versions: dict[str, str] = client.run(version)
    except Exception as error:  # noqa: BLE001 - whatever a worker raises that cannot import isamap
        raise _refused(address, f"a worker cannot run isamap: {error!r}") from None
    others = {where: found for where, found in versions.items() if found != __version__}
    if others:
        where, found = next(iter(others.items()))
        raise _refused(address, f"the worker {where} has isamap {found}, this is {__version__}")


def version() -> str:
    """Return the version of the isamap that a worker has."""
    return __version__


def _refused(address: str, why: str) -> UsageProblem:
    said = f"the cluster at `{address}` does not do the work"
    help_ = "install this version of isamap where its workers run"
    return UsageProblem(Diagnostic("cluster-failed", said, notes=(why[:300],), help=help_))
