"""`isamap hw sweep --scheduler`: the points of a sweep as jobs of a cluster, here one within a process.

Dask asks the system for an address, which tests may not: scripts with a cluster are processes of their own.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from isamap.cli import main
from isamap.driver.side_by_side import done_on_cluster
from isamap.machine.templates import begin
from isamap.source import MissingTool

WORDS = ("--kernel", "gemm_u8s8 M=64 N=32 K=64", "--set", "units.execute.count=1,2", "--json")
needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None,
    reason="needs Dask: pip install 'isamap[dask]', which the extra `dev` brings",
)

START = """
import json, socket, sys
import distributed
from isamap.cli import main
from isamap.driver import side_by_side as cluster
from isamap.source import UsageProblem

def told(*work):
    try:
        return list(cluster.done_on_cluster(int, work, address))
    except UsageProblem as problem:
        found = problem.diagnostics[0]
        return [found.code, found.message, *found.notes, found.help]

with distributed.LocalCluster(
    n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
) as local:
    address = local.scheduler_address
"""


def run(script: str, *arguments: str) -> str:
    """Return what a script prints whose last lines stand within a cluster."""
    lines = "".join(f"    {line}\n" for line in script.strip().splitlines())
    done = subprocess.run(
        [sys.executable, "-c", START + lines, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def edge(tmp_path: Path) -> str:
    """Return a machine of the user's own, which extends another file."""
    (tmp_path / "edge.yaml").write_text(begin("edge", "matrix", {"rows": 16}))
    own = "isamap: 1\nname: own\nsummary: mine\nextends: edge.yaml\nunits: {execute: {count: 1}}\n"
    (tmp_path / "own.yaml").write_text(own)
    return str(tmp_path / "own.yaml")


@needs_dask
def test_a_cluster_predicts_what_this_computer_does(
    edge: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = ["-o", str(tmp_path / "rows")]
    there = json.loads(
        run("main([*sys.argv[1:], '--scheduler', address])", "hw", "sweep", edge, *WORDS, *kept)
    )
    assert main(["hw", "sweep", edge, *WORDS, "--jobs", "1"]) == 0
    assert there == json.loads(capsys.readouterr().out)
    assert there["rows"][0]["ns"] > there["rows"][1]["ns"]
    # All rows are there: no cluster is asked, so none needs to be.
    assert main(["hw", "sweep", edge, *WORDS, *kept, "--resume", "--jobs", "1"]) == 0
    assert there == json.loads(capsys.readouterr().out)


LOSE = """
import json, os, signal, sys, threading, time
import distributed
from pathlib import Path
from isamap.cli import main

def lose(local, rows):
    while not rows.exists() or len(rows.read_text().splitlines()) < 4:
        time.sleep(0.05)
    worker = next(iter(local.workers.values()))
    os.kill(worker.process.process.pid, signal.SIGKILL)
    lost.append(len(rows.read_text().splitlines()))

if __name__ == "__main__":
    lost = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as local:
        rows = Path(sys.argv[sys.argv.index("-o") + 1]) / "rows.jsonl"
        thread = threading.Thread(target=lose, args=(local, rows), daemon=True)
        thread.start()
        code = main([*sys.argv[1:], "--scheduler", local.scheduler_address])
        thread.join(10)
    sys.stderr.write(json.dumps({"code": code, "lost": lost}))
"""


@needs_dask
def test_a_sweep_loses_no_point_with_a_worker(edge: str, tmp_path: Path) -> None:
    """A worker is killed after some points; the others are predicted all the same, by what is left.

    docs/command-hw.md has the command for ten thousand points, to which this script adds the loss.
    """
    script = tmp_path / "lose.py"
    script.write_text(LOSE)
    words = ["--kernel", "gemm_u8s8 M=64 N=32 K=64", "--set", "units.execute.count=1..60+1", "--json"]
    words += ["--heuristic", "greedy", "-o", str(tmp_path / "rows")]
    done = subprocess.run(
        [sys.executable, str(script), "hw", "sweep", edge, *words],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    told = json.loads(done.stderr[done.stderr.rindex('{"code"') :])
    (lost,) = told["lost"]
    assert told["code"] == 0, done.stderr
    assert 4 <= lost < 60, "the worker was lost in the middle"
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 60
    assert all(row["ns"] is not None for row in rows)


@needs_dask
def test_what_a_cluster_does_not_do_is_told() -> None:
    script = """
print(json.dumps(told("1", "2")))
print(json.dumps(told("two")))
cluster.version, own = lambda: "0.0.7", cluster.version
print(json.dumps(told("1")))
cluster.version, cluster.CONNECT_S = own, 0.2
free = socket.socket()
free.bind(("127.0.0.1", 0))
address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
print(json.dumps(told("1")))
address = "nonsense://x"
print(json.dumps(told("1")))
"""
    found: list[Any] = [json.loads(line) for line in run(script).splitlines()]
    assert found[0] in ([[0, 1], [1, 2]], [[1, 2], [0, 1]])
    assert found[1][0] == "cluster-failed"
    assert "invalid literal for int()" in found[1][2]
    assert found[1][3] == "install this version of isamap where its workers run"
    assert "has isamap 0.0.7, this is " in found[2][2]
    assert found[3][0] == found[4][0] == "no-scheduler"
    assert found[4][1] == "no scheduler of Dask answers at `nonsense://x`"
    assert found[4][3] == "`dask scheduler` prints its address, as tcp://192.168.0.7:8786"


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingTool) as found:
        list(done_on_cluster(int, ["1"], "tcp://127.0.0.1:1"))
    told = found.value.diagnostics[0]
    assert (told.code, told.help) == ("no-dask", "`pip install 'isamap[dask]'`")


def test_processes_here_and_a_scheduler_are_refused(edge: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hw", "sweep", edge, *WORDS[:-1], "--scheduler", "tcp://x:1", "--jobs", "2"]) == 2
    assert "leave out `--jobs`" in capsys.readouterr().err
