"""benchmarks/gpu.py without a GPU: it emits kernels and trials, compiles them, and continues a run that ended."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib import util
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu.py"


@pytest.fixture(name="bench")
def _bench() -> Any:
    spec = util.spec_from_file_location("gpu_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Device:
    """A stand-in for the GPU: results are right but for one case, and another one cannot be launched."""

    name = "none"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def try_instructions(self) -> list[str]:
        return []

    def bytes_per_ns(self) -> float:
        return 1000.0

    def networks(self) -> tuple[str, ...]:
        return ("network-mlp-float32", "network-wrong")

    def network(self, name: str) -> tuple[dict[str, Any], float, int]:
        self.calls.append(name)
        return {"isamap": lambda: None, "inductor": lambda: None}, 2.0 if name == "network-wrong" else 0.5, 1

    def program(self, folder: Path, plan: str) -> Any:
        if folder.name == "lost":
            raise RuntimeError("no image")

        def call(_tensor: str) -> None:
            self.calls.append(f"{folder.name} {plan}")

        return call

    def tensors(self, case: Mapping[str, Any]) -> list[str]:
        return [case["name"]]

    def error(self, case: Mapping[str, Any], _tensors: Sequence[Any]) -> float:
        return float("nan") if case["name"] == "wrong" else 0.5

    def contenders(self, _case: Mapping[str, Any], _tensors: Sequence[Any]) -> dict[str, Any]:
        return {"torch": lambda: None}

    def seconds(self, calls: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        return {name: (2e-5 if name == "isamap" else 3e-5, 4e-5) for name in calls}


def test_a_run_verifies_each_case_once_and_continues(bench: Any, tmp_path: Path) -> None:
    case: dict[str, Any] = {"kind": "product f16 0", "sizes": {}, "plan": "product", "predicted_ns": 1e4}
    cases: dict[str, Any] = {
        "good": case,
        "wrong": case,
        "lost": case,
        "other": {"kind": "silu", "refused": "no mapping"},
    }
    (tmp_path / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    for name in ("good", "wrong", "lost"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "product.ptxas").write_text("", encoding="utf-8")
    device, now = Device(), iter(range(100))
    first = bench.measure_all(tmp_path, device, 3 / 60, lambda: float(next(now)))
    assert [row["case"] for row in first] == ["instructions", "memory", "good"], "the minutes are over"
    rows = bench.measure_all(tmp_path, device, 10)
    networks = [*device.networks()]
    assert [row["case"] for row in rows] == [
        "instructions",
        "memory",
        "good",
        "wrong",
        "lost",
        "other",
        *networks,
    ]
    assert device.calls == ["good product", "wrong product", *networks], (
        "a measured case is not launched again"
    )
    assert bench.measure_all(tmp_path, device, 10) == json.loads(json.dumps(rows))
    assert rows[2]["seconds"] == {"isamap": [2e-5, 4e-5], "torch": [3e-5, 4e-5]}
    assert rows[3]["failed"] == "the result differs by nan times what rounding allows"
    assert rows[4]["failed"] == "RuntimeError: no image"
    assert rows[6]["nodes_by_torch"] == 1
    assert rows[7]["failed"] == "the result differs by 2 times what rounding allows"
    table = bench.summarise(rows)
    assert "| network-mlp-float32 | 20.0 | 40.0 | - | inductor | 1.50 |" in table
    assert "| good | 20.0 | 40.0 | 10.0 | torch | 1.50 |" in table
    assert "- good torch: 1.50 in the geometric mean" in table


def test_emitted_kernels_and_trials_compile_without_isamap(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [one for one in bench.list_cases(1) if one[0] in ("bf16-1024", "residual-16")]
    assert len(cases) == 2
    smaller = [(name, kind, source, {**sizes, "N": 64, "K": 96}) for name, kind, source, sizes in cases]

    def listed(_count: int) -> list[Any]:
        return smaller

    monkeypatch.setattr(bench, "list_cases", listed)
    bench.emit(tmp_path, "nvidia-sm80", 1, limit_s=2.0)
    told = json.loads((tmp_path / "cases.json").read_text(encoding="utf-8"))
    assert all(case["predicted_ns"] > 0 and 0 < case["registers"] <= 200 for case in told.values())
    assert (tmp_path / "gpu.py").read_text(encoding="utf-8") == BENCHMARK.read_text(encoding="utf-8")
    assert "isamap." not in (tmp_path / "isamap_device.py").read_text(encoding="utf-8")
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc: nothing is compiled")
    rows = bench.tabulate(tmp_path)
    assert len(rows) == 6
    assert all(row.split("|")[7].strip() == "0" for row in rows[2:4]), "no spills"
    limits = [row.split("|")[8].split(":") for row in rows[2:4]]
    assert all(
        int(most) >= 1.1 * case["predicted_registers"]
        for (most, _), case in zip(limits, told.values(), strict=True)
    )
    assert [int(spilled) for _, spilled in limits] == [0, 0], "the predicted registers are enough"
    assert rows[-1].startswith("Registers: error of the prediction ")
    bench.compile_case(tmp_path, "trials")
    assert (tmp_path / "trials.cubin").stat().st_size > 1000
    assert "isamap" not in sys.modules or (tmp_path / "trials.npz").exists()
