"""Models parted into kernels otherwise than by the greedy rule compute the same, whatever the parts."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import Described, evaluated, make

from isamap.cli.command_line import run
from isamap.formulate.hierarchy import Memories
from isamap.graph.elementwise_fusion import Fuse
from isamap.graph.group_prices import GroupPrice, Prices, near_of
from isamap.graph.importing import Imported, lower_model
from isamap.graph.model_library import CompiledModel, ModelOptions, compile_program_of, partition_of
from isamap.graph.partition import Partition
from isamap.machine import load_machine
from isamap.onnx import compile_model
from isamap.onnx.onnx_models import parse_model
from isamap.scheduler.graphs.improving import ask_apart
from isamap.source import UsageProblem

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
IMAGE = np.random.default_rng(1).standard_normal((1, 3, 6, 6)).astype(np.float32)
CONSTANTS = {
    "w": np.random.default_rng(2).standard_normal((6, 6)).astype(np.float32),
    "b": np.linspace(-1, 1, 6, dtype=np.float32),
    "f": np.random.default_rng(3).standard_normal((8, 3, 3, 3)).astype(np.float32),
}
CONV = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
MODELS: dict[str, tuple[np.ndarray, Described, list[str]]] = {
    "a silu and a residual": (
        X,
        [
            ("MatMul", ["x", "w"], ["m"], {}), ("Add", ["m", "b"], ["a"], {}), ("Sigmoid", ["a"], ["s"], {}),
            ("Mul", ["a", "s"], ["u"], {}), ("Add", ["u", "x"], ["y"], {}),
        ],
        ["y"],
    ),
    "scaled scores before a softmax": (
        X,
        [
            ("Mul", ["x", "b"], ["p"], {}), ("Add", ["p", "x"], ["q"], {}),
            ("Softmax", ["q"], ["r"], {"axis": -1}),
            ("Mul", ["r", "q"], ["y"], {}),
        ],
        ["y"],
    ),
    "a sum of what two read": (
        X,
        [
            ("Abs", ["x"], ["a"], {}), ("Mul", ["a", "b"], ["c"], {}),
            ("ReduceSum", ["c"], ["d"], {"keepdims": 1}),
            ("Sub", ["c", "d"], ["y"], {}), ("Neg", ["c"], ["z"], {}),
        ],
        ["y", "z"],
    ),
    "convolutions with borders": (
        IMAGE,
        [
            ("Relu", ["x"], ["r"], {}), ("Conv", ["r", "f"], ["c"], CONV), ("Sigmoid", ["c"], ["s"], {}),
            ("Mul", ["c", "s"], ["u"], {}),
            ("GlobalAveragePool", ["u"], ["g"], {}), ("Mul", ["u", "g"], ["y"], {}),
        ],
        ["y"],
    ),
}  # fmt: skip


class Drawn(Prices):
    """Prices that texts and a number decide, so that each number favours other groups."""

    seed = 0

    def _priced(self, texts: Sequence[str | None], moved: Sequence[int]) -> list[GroupPrice | None]:
        return [GroupPrice(1.0 + _digest(f"{self.seed} {text}") / 64) for text in texts]


def _digest(text: str) -> int:
    return hashlib.sha256(text.encode()).digest()[0]


def part(seed: int) -> Partition:
    made = partition_of("cpsat", ModelOptions("generic-c"))
    drawn = Drawn(made.prices.request, made.prices.machine, 1)
    drawn.seed = seed
    return Partition("cpsat", drawn, 5.0, 1 << 20)


def lowered(name: str, fuse: Fuse) -> tuple[Imported, dict[str, np.ndarray], list[np.ndarray]]:
    x, nodes, outputs = MODELS[name]
    model = make(nodes, {"x": x}, outputs, CONSTANTS)
    found = lower_model(parse_model(model.SerializeToString(), Path("made.onnx")), "made", {}, {}, fuse)
    return found, {"x": x}, evaluated(model, {"x": x})


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MODELS)
def test_whatever_is_put_together_the_results_are_those_of_onnx(name: str, seed: int) -> None:
    own = part(seed)
    found, inputs, expected = lowered(name, own)
    assert own.parted is not None
    program = found.whole()
    run = CompiledModel(compile_program_of(program, ModelOptions("generic-c", jobs=1), runs=True))
    for mine, other in zip(run(inputs).values(), expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)
    assert run.bound(inputs)() == 0


def test_prices_of_a_machine_part_no_worse_than_the_greedy_rule() -> None:
    own = partition_of("cpsat", ModelOptions("generic-c", jobs=1))
    lowered("scaled scores before a softmax", own)
    parted = own.parted
    assert parted is not None
    assert parted.plan.cost_ns <= parted.greedy.cost_ns < parted.none.cost_ns
    assert parted.plan.bound_ns == pytest.approx(parted.plan.cost_ns, rel=0.05)


def test_a_workspace_that_cannot_be_is_refused_with_its_size() -> None:
    own = part(0)
    own.workspace_bytes = 64
    with pytest.raises(UsageProblem) as raised:
        lowered("convolutions with borders", own)
    assert raised.value.diagnostics[0].code == "graph-no-room"


def test_the_near_cache_is_the_largest_that_a_core_has_to_itself() -> None:
    machine = load_machine("x86-avx512")
    own = [c for c in Memories.of(machine).caches if not c.shared and c.cores == 1]
    near = near_of(machine)
    assert own[0].capacity_bytes < near.capacity_bytes <= own[-1].capacity_bytes
    assert near.far_ns_per_byte > 0


def test_a_failing_solver_ends_with_a_plan_and_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given, nodes, outputs = MODELS["a silu and a residual"]
    path = tmp_path / "silu.onnx"
    path.write_bytes(make(nodes, {"x": given}, outputs, CONSTANTS).SerializeToString())
    crash = (sys.executable, "-c", "import os; os.abort()")
    monkeypatch.setattr("isamap.scheduler.graphs.improving.ask_apart", partial(ask_apart, command=crash))
    code = run(["graph", "show", str(path), "--hw", "generic-c", "--fusion", "cpsat", "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert (code, shown["exit"], shown["fusion"]) == (0, 0, "cpsat")
    assert [found["code"] for found in shown["diagnostics"]] == ["solver-failed"]
    assert shown["kernels"]
    made = compile_model(path, "generic-c", fusion="cpsat", jobs=1)
    assert [warning.code for warning in made.warnings] == ["solver-failed"]
    assert made({"x": given})["y"].shape == given.shape
