"""What every test runs under: repeatable examples, a cache of its own, and no network.

`ISAMAP_EXAMPLES=5000` raises the number of examples of each property. They are the same at each run, so that
a run can be repeated, unless `--hypothesis-profile=search` asks for new ones.
"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from counted_sets import summary
from tiers import TIERS, left_out

from isamap.scheduler.process.children import start_early

EXAMPLES = int(os.environ.get("ISAMAP_EXAMPLES", "100"))


def examples(usual: int) -> int:
    """Return how many examples a property tries: `usual` in a full run, fewer in a fast one, more on demand."""
    return EXAMPLES if EXAMPLES > 100 else max(1, usual * EXAMPLES // 100)


# No deadline and no complaint about slow examples: both would make a result depend on what else is running.
_PATIENT = hypothesis.settings(
    deadline=None, max_examples=EXAMPLES, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("repeatable", _PATIENT, derandomize=True, database=None)
hypothesis.settings.register_profile("search", _PATIENT, print_blob=True)
hypothesis.settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "which tests are taken (tests/tiers.py)")
    group.addoption("--tier", choices=TIERS, default="all", help="without it all tests that are named")
    group.addoption("--seed", default="", help="draws the exhaustive tests that --tier drawn takes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marks = {item.nodeid: item.get_closest_marker("exhaustive") for item in items}
    fast_cases = {name: mark and int(mark.kwargs.get("fast", 0)) for name, mark in marks.items()}
    out = left_out(str(config.getoption("tier")), str(config.getoption("seed")), fast_cases)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in out])
    items[:] = [item for item in items if item.nodeid not in out]
    for item in items:
        # They run the same lines over and over, which takes several times as long where each is counted.
        if {"properties", "execution"} & {*item.path.parts} and config.getoption("tier") == "fast":
            item.add_marker("no_cover")


def pytest_collection_finish() -> None:
    """Keep modules and collected tests, which live until the end, out of the searches for cycles."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    said = summary(report for reports in terminalreporter.stats.values() for report in reports)
    if said:
        terminalreporter.write_line(said)


@pytest.fixture(scope="session", autouse=True)
def solver_is_started(own_cache: None) -> None:
    """Importing OR-Tools takes seconds of the first schedule's limit where many tests run at once."""
    start_early()


@pytest.fixture(scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[None]:
    """Keep the tests out of the user's cache and data; child processes inherit it.

    Zig's cache is the exception: it lies with pytest's own and outlives the run. Zig builds a C library for each
    target, which takes 50 s of processor time.
    """
    kept: pytest.Cache | None = getattr(pytestconfig, "cache", None)  # none with `-p no:cacheprovider`
    zig = kept.mkdir("zig") if kept else tmp_path_factory.mktemp("zig")
    cache = tmp_path_factory.mktemp("cache")
    (cache / "zig").symlink_to(zig)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ISAMAP_CACHE_DIR", str(cache))
        patch.setenv("ISAMAP_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        # One result on every processor, also on one that has a profile.
        patch.setenv("ISAMAP_PROFILE", "none")
        # Each compilation of a test checks its problem and its program: users' do not.
        patch.setenv("ISAMAP_CHECK_RULES", "1")
        # Tests that call Zig themselves share the libraries that isamap has it build.
        patch.setenv("ZIG_GLOBAL_CACHE_DIR", str(zig))
        patch.setenv("ZIG_LOCAL_CACHE_DIR", str(zig))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Fails any test that resolves a host name or connects elsewhere than to a socket in the file system."""
    connect = socket.socket.connect

    def connect_locally(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            pytest.fail(f"isamap never uses the network, but this connects to {address!r}")
        connect(self, address)

    def refuse(host: object, *_: object, **__: object) -> None:
        pytest.fail(f"isamap never uses the network, but this looks up {host!r}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect_locally)
        patch.setattr(socket.socket, "connect_ex", connect_locally)
        patch.setattr(socket, "getaddrinfo", refuse)
        yield
