"""Four workers of Dask, each with a network and processes of its own, as four computers have. One of them is lost.

A killed driver that is started again goes on with the rounds that it has.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

HEAD = "10.213.77.1"
ADDRESS = f"tcp://{HEAD}:8786"
WORKERS = 4
TUNE = (
    "compile",
    "gemm_f32",
    "--hw",
    "host",
    "-D",
    "M=48",
    "N=48",
    "K=48",
    "--tune",
    "4",
    "--tune-limit",
    "1000",
)
pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        importlib.util.find_spec("distributed") is None,
        reason="needs Dask: pip install 'isamap[dask]', which the extra `dev` brings",
    ),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and `ip` to make namespaces"
    ),
]


def run(*words: str) -> bool:
    """Return whether a command succeeded."""
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start a scheduler, and workers in namespaces behind a bridge. Each has a cache of its own."""
    own = f"isa{os.getpid() % 100000}"
    names = [f"{own}-{n}" for n in range(WORKERS)]
    if not run("ip", "link", "add", own, "type", "bridge"):
        pytest.skip("this system refuses a bridge between namespaces")
    started: list[subprocess.Popen[bytes]] = []
    try:
        assert run("ip", "addr", "add", f"{HEAD}/24", "dev", own)
        assert run("ip", "link", "set", own, "up")
        words = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", HEAD, "--no-dashboard"]
        with (tmp_path / "scheduler").open("wb") as told:
            started.append(subprocess.Popen(words, cwd=tmp_path, stderr=told))
        for n, name in enumerate(names):
            assert run("ip", "netns", "add", name)
            assert run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            assert run("ip", "link", "set", name, "master", own, "up")
            assert run("ip", "-n", name, "addr", "add", f"10.213.77.{n + 2}/24", "dev", "eth0")
            assert run("ip", "-n", name, "link", "set", "eth0", "up")
            assert run("ip", "-n", name, "link", "set", "lo", "up")
            place = tmp_path / name
            place.mkdir()
            environment = {"ISAMAP_CACHE_DIR": str(place / "cache"), "ISAMAP_DATA_DIR": str(place / "data")}
            words = [sys.executable, "-m", "distributed.cli.dask_worker", ADDRESS, "--nthreads", "1"]
            words += ["--no-dashboard", "--no-nanny", "--name", name]
            words = [
                "ip",
                "netns",
                "exec",
                name,
                "unshare",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                *words,
            ]
            with (place / "told").open("wb") as told:
                started.append(subprocess.Popen(words, cwd=place, env=os.environ | environment, stderr=told))
        yield started[1:]
    finally:
        for one in reversed(started):
            one.kill()
            one.wait()
        for name in names:
            run("ip", "netns", "del", name)
        run("ip", "link", "del", own)


def rounds_kept(data: Path) -> list[int]:
    """Return the numbers of the rounds that were written to a database of tuning, as often as they were."""
    try:
        with closing(sqlite3.connect(data / "tuning.sqlite")) as database:
            database.executescript(NOTED)
            found = database.execute("select number from noted group by number, at").fetchall()
    except sqlite3.OperationalError:
        return []
    return sorted(number for (number,) in found)


NOTED = """
create table if not exists noted (number integer, schedule text, at integer primary key autoincrement);
create trigger if not exists note before insert on rounds
begin insert into noted (number, schedule) values (new.number, new.schedule); end;
"""


def wait_for(data: Path, rounds: int, driver: subprocess.Popen[bytes]) -> bool:
    """Return whether so many rounds are in a driver's database, once they are or the driver has ended."""
    while len(set(rounds_kept(data))) < rounds and driver.poll() is None:
        time.sleep(0.02)
    return len(set(rounds_kept(data))) >= rounds


def test_a_tuning_run_loses_a_worker_and_then_its_driver(
    workers: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    places = {"ISAMAP_DATA_DIR": str(data), "ISAMAP_CACHE_DIR": str(tmp_path / "cache")}
    words = [
        sys.executable,
        "-m",
        "isamap",
        *TUNE,
        "--scheduler",
        ADDRESS,
        "--json",
        "-o",
        str(tmp_path / "out"),
    ]
    data.mkdir(mode=0o700)
    with (tmp_path / "told").open("wb") as told:
        driver = subprocess.Popen(words, env=os.environ | places, stdout=told, stderr=told)
    try:
        assert wait_for(data, 1, driver), (tmp_path / "told").read_text()
        workers[0].kill()
        assert wait_for(data, 4, driver), (tmp_path / "told").read_text()
    finally:  # a fast driver may have ended by now: what it kept is read again all the same
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    before = rounds_kept(data)
    done = subprocess.run(words, env=os.environ | places, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tuned = json.loads(done.stdout)["schedule"]["origin"]
    assert tuned["from"] == "tuning"
    after = rounds_kept(data)
    assert sorted(set(after)) == list(range(9))
    assert [n for n in after if n in before] == before, "a round that was kept was not played again"
    assert [one.poll() is None for one in workers] == [False, True, True, True]
    print(f"rounds kept when the driver was killed: {sorted(set(before))}, after: {sorted(set(after))}")
