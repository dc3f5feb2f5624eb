"""The objective `energy` costs what `isamap accesses` counts of the same schedule, on any machine with energies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import examples

import isamap
from isamap.driver.explaining import schedule_accesses
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Choices, make_request
from isamap.plan.access_counts import CONVENTIONS
from isamap.source import IsamapError, Source

DATA = Path(__file__).parents[1] / "data" / "machines"
SHIPPED = Path(isamap.__file__).parent / "hw_specs"
MACHINES = [
    *(DATA / f"{name}.yaml" for name in ("b16", "tpu-like")),
    *(SHIPPED / f"{name}.yaml" for name in ("edge-npu", "gemmini", "systolic-16", "vector-dsp")),
]

KERNELS = {
    "fill": "kernel k(M, N) { out y: i8[M, N]; for m in M, n in N { y[m, n] = 0; } }",
    "copy": "kernel k(M, N) { in x: i8[M, N]; out y: i8[M, N]; for m in M, n in N { y[m, n] = x[m, n]; } }",
    "relu": "kernel k(M, N) { in x: i8[M, N]; out y: i8[M, N]; for m in M, n in N { y[m, n] = max(x[m, n], 0); } }",
    "product": """kernel k(M, N, K) {
      in a: i8[M, K]; in b: i8[K, N]; inout c: i32[M, N];
      for m in M, n in N, k in K { c[m, n] += i32(a[m, k]) * i32(b[k, n]); }
    }""",
    "zeroed": """kernel k(M, N, K) {
      in a: i8[M, K]; in b: i8[K, N]; out c: i32[M, N];
      for m in M, n in N { c[m, n] = 0; }
      for m in M, n in N, k in K { c[m, n] += i32(a[m, k]) * i32(b[k, n]); }
    }""",
    "requantised": """kernel k(M, N, K) {
      in a: i8[M, K]; in b: i8[K, N]; in scale: f32[N]; in bias: i32[N]; out y: i8[M, N]; temp s: i32[M, N];
      for m in M, n in N { s[m, n] = 0; }
      for m in M, n in N, k in K { s[m, n] += i32(a[m, k]) * i32(b[k, n]); }
      for m in M, n in N { y[m, n] = sat_i8(round(f32(s[m, n] + bias[n]) * scale[n], even)); }
    }""",
    "biased": """kernel k(M, N, K) {
      in a: i8[M, K]; in b: i8[K, N]; in bias: i32[N]; out y: i8[M, N]; temp s: i32[M, N];
      for m in M, n in N { s[m, n] = bias[n]; }
      for m in M, n in N, k in K { s[m, n] += i32(a[m, k]) * i32(b[k, n]); }
      for m in M, n in N { y[m, n] = sat_i8(round(f32(s[m, n]) * 0.125, even)); }
    }""",
    "padded": """kernel k(M, N, K) {
      in x: i8[M, M, K]; in w: i8[3, 3, K, N]; out s: i32[M, M, N];
      for p in M, q in M, n in N { s[p, q, n] = 0; }
      for p in M, q in M, n in N, r in 3, t in 3, k in K {
        s[p, q, n] += i32(x[p + r - 1, q + t - 1, k] else 0) * i32(w[r, t, k, n]);
      }
    }""",
    "floats": """kernel k(M, N) {
      in x: f32[M, N]; in z: f32[M, N]; out y: f32[M, N];
      for m in M, n in N { y[m, n] = max(x[m, n] + z[m, n], 0.0); }
    }""",
}
SIZES = [{"M": 10, "N": 24, "K": 20}, {"M": 16, "N": 64, "K": 96}, {"M": 32, "N": 32, "K": 32}]


def with_energies(machine: Path, folder: Path) -> Path:
    """Write the machine with an energy of each memory, link and instruction, all of them different."""
    text, count = machine.read_text(encoding="utf-8"), iter(range(1, 1000))
    if machine.parent == SHIPPED or "energy:" not in text:
        text = re.sub(r"energy: \{[^}]*\}, |, energy_pj: (\"[^\"]*\"|[\d.]+)", "", text)
        stated = "energy: {{read_pj: {}, write_pj: {}.5, access_bytes: 4, leakage_pj_per_ns: 0.25, {}}}, "
        text = re.sub(
            r"^  \w+: \{(?=(source: [\w-]+)\}$)",
            lambda found: found[0] + stated.format(next(count), next(count), found[1]),
            text,
            flags=re.MULTILINE,
        )
        assert "energy: {read_pj" in text
        text = re.sub(
            r"bandwidth_bytes_per_ns",
            lambda _: f"energy_pj_per_byte: {next(count)}, bandwidth_bytes_per_ns",
            text,
        )
        text = re.sub(r"cost: \{unit", lambda _: f"cost: {{energy_pj: {next(count)}, unit", text)
    made = folder / machine.name
    made.write_text(text, encoding="utf-8")
    return made


def compare(kernel: str, machine: Path, sizes: dict[str, int], heuristic: str) -> str:
    """Return how the cost of a schedule for energy differs from its counted energy; "" if it does not."""
    used = {
        name: n for name, n in sizes.items() if re.search(rf"[(,] ?{name}\b", kernel[: kernel.index(")")])
    }
    choices = Choices(objective="energy", heuristic=heuristic, limit_s=20)
    try:
        made = compile_kernel(make_request(Source("k.ir", kernel), str(machine), used, choices), "schedule")
    except IsamapError as error:
        code = error.diagnostics[0].code
        return "refused" if code in ("no-mapping", "infeasible") else code
    assert made.canonical is not None
    assert made.schedule is not None
    assert made.problem is not None
    assert made.machine is not None
    known = made.canonical, made.schedule, made.problem, made.machine
    counted = schedule_accesses(*known, CONVENTIONS["isamap"])
    total_pj = sum(s.energy.total_pj for s in counted if s.energy is not None)
    cost_pj = made.schedule.cost_ns
    return (
        "" if cost_pj == pytest.approx(total_pj, rel=1e-6) else f"costs {cost_pj} pJ, counted {total_pj} pJ"
    )


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda path: path.stem)
def test_the_objective_costs_what_is_counted(machine: Path, tmp_path: Path) -> None:
    described = with_energies(machine, tmp_path)
    found = {
        (name, *sizes.values()): compare(kernel, described, sizes, "greedy")
        for name, kernel in KERNELS.items()
        for sizes in SIZES[: examples(2)]
    }
    assert any(not said for said in found.values()), "the machine performs none of these kernels"
    assert {key: said for key, said in found.items() if said not in ("", "refused")} == {}


def test_the_optimum_costs_what_is_counted(tmp_path: Path) -> None:
    described = with_energies(MACHINES[0], tmp_path)
    found = [compare(KERNELS[name], described, SIZES[0], "cpsat") for name in ("requantised", "padded")]
    assert found == ["", ""]
