"""`isamap hw sweep --scheduler`: the points of a sweep as jobs of a cluster, here one within a process.

Dask asks the system for an address, which tests may not: scripts with a cluster are processes of their own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator
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


WORKED = """
import json, os, signal, sys
from pathlib import Path
import distributed
from isamap.cli import main
from isamap.driver import side_by_side

def losing(do, requests, address, real=side_by_side.done_on_cluster):
    for number, found in real(do, requests, address):
        if not arrived:
            worker = next(iter(local.workers.values()))
            os.kill(worker.process.process.pid, signal.SIGKILL)
        arrived.append(number)
        yield number, found

if __name__ == "__main__":
    side_by_side.done_on_cluster = losing
    with distributed.LocalCluster(
        n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None
    ) as local:
        for line in Path(sys.argv[1]).read_text().splitlines():
            arrived = []
            code = main([*json.loads(line), "--scheduler", local.scheduler_address, "--json"])
            print("done " + json.dumps([code, sorted(arrived)]), file=sys.stderr, flush=True)
"""


@needs_dask
def test_other_commands_lose_nothing_with_a_worker(tmp_path: Path) -> None:
    """Cells, kernels of a model and rounds of a tournament: one of four workers is killed in each."""
    onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'isamap[onnx]'")
    tensor, number = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    nodes = [onnx.helper.make_node("Softmax", ["x"], ["a"]), onnx.helper.make_node("ReduceMax", ["a"], ["y"])]
    ends = [tensor("x", number, [4, 6])], [tensor("y", number, [1, 1])]
    graph = onnx.helper.make_graph(nodes, "net", *ends)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]),
        str(tmp_path / "net.onnx"),
    )
    sizes = ("-D", "M=8", "N=8", "K=8")
    commands = [
        ["verify", "--all", "gemm_f*", "--hw", "generic-c", "-o", str(tmp_path / "cells"), *sizes],
        ["compile", str(tmp_path / "net.onnx"), "--hw", "generic-c", "-o", str(tmp_path / "net")],
        ["compile", "gemm_f32", "--hw", "generic-c", "--tune", "2", *sizes, "-o", str(tmp_path / "tuned")],
    ]
    (tmp_path / "commands").write_text("".join(f"{json.dumps(one)}\n" for one in commands))
    (tmp_path / "worked.py").write_text(WORKED)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "worked.py"), str(tmp_path / "commands")],
        capture_output=True, text=True, timeout=1800, check=False,
        env=os.environ | {"ISAMAP_DATA_DIR": str(tmp_path / "data"), "ISAMAP_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    told = [json.loads(line[5:]) for line in done.stderr.splitlines() if line.startswith("done ")]
    assert [code for code, _ in told] == [0, 0, 0], done.stderr[-3000:]
    cells, kernels, rounds = (arrived for _, arrived in told)
    rows = [json.loads(line) for line in (tmp_path / "cells" / "rows.jsonl").read_text().splitlines()]
    assert [row["verdict"] for row in rows] == ["verified"] * len(cells)
    assert cells == list(range(len(cells)))
    assert kernels == list(range(len(kernels)))
    assert rounds == sorted([*range(3), *range(6)]), "three rounds, and those of the contenders that remain"


def test_work_of_other_commands_travels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests and results of each command are sent as bytes, and descriptions by their texts."""
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))
    jobs: list[int] = []

    def there(do: Any, requests: Iterable[Any], _: str) -> Iterator[tuple[int, Any]]:
        for number, one in enumerate(requests):
            jobs.append(number)
            sent = pickle.loads(pickle.dumps((do, one)))  # noqa: S301 - made here
            own.unlink(missing_ok=True)  # a worker has no such file
            yield number, pickle.loads(pickle.dumps(sent[0](sent[1])))  # noqa: S301 - made here

    monkeypatch.setattr("isamap.driver.side_by_side.done_on_cluster", there)
    own = tmp_path / "own.yaml"
    words = "isamap: 1\nname: own\nsummary: mine\nextends: generic-c\n"
    sizes = ("-D", "M=8", "N=8", "K=8")
    commands: list[tuple[list[str], list[int]]] = [
        (["verify", "--all", "gemm_f32", "--hw", str(own), "-o", str(tmp_path / "cells"), *sizes], [0]),
        (["compile", "gemm_f32", "--hw", "generic-c", "--tune", "2", *sizes, "-o", str(tmp_path / "tuned")],
         [*range(3), *range(6)]),
    ]  # fmt: skip
    for command, expected in commands:
        own.write_text(words)
        jobs.clear()
        assert main([*command, "--scheduler", "tcp://x:1", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert jobs[: len(expected)] == expected, command
        if "cells" in found:
            assert [cell["verdict"] for cell in found["cells"]] == ["verified"]
