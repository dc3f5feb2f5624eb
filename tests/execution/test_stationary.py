"""What stays where it is while a product is computed: sums, weights, inputs, or nothing at all.

One array with a scratchpad for each operand; how fast each is filled decides. Each schedule is the best one
by proof, moves what stays once, and takes least when it is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from emitted_programs import check_emitted
from ownership import moved_elements

from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.plan.text import print_schedule
from isamap.simulate.events import simulate
from isamap.source import Source

KERNEL = read_kernel("gemm_s8s8")
SIZE = 32
SIZES = {"M": SIZE, "N": SIZE, "K": SIZE}
HEAD = """isamap: 1
name: stationary
summary: an array of 8 x 8 x 8 with a scratchpad for each operand
sources: {{own: invented}}
target: {{toolchains: [gcc, clang, zig], flags: [-O2], headers: [stdint.h], run: model}}
clock_ghz: 1.0
language: |
  memory dram: addressable();
  memory inp: scratchpad(bytes = 128);
  memory wgt: scratchpad(bytes = 128);
  memory acc: scratchpad(bytes = {acc});
memories: {{dram: {{source: own}}, inp: {{source: own}}, wgt: {{source: own}}, acc: {{source: own}}}}
units:
  load: {{count: 1, queued: 64, source: own}}
  store: {{count: 1, queued: 64, source: own}}
  array: {{count: 1, queued: 64, source: own}}
links:
  - {{from: dram, to: inp, bandwidth_bytes_per_ns: {a}, source: own}}
  - {{from: dram, to: wgt, bandwidth_bytes_per_ns: {b}, source: own}}
  - {{from: dram, to: acc, bandwidth_bytes_per_ns: {c}, source: own}}
model: {{leak_factor: 0, stream_leak_factor: 0, source: own}}
"""
LOADS = """instructions:
  - for:
      - {{P: a, T: i8, M: inp}}
      - {{P: b, T: i8, M: wgt}}
      - {{P: c, T: i32, M: acc}}
    semantics: |
      instruction load_$P() {{
        in x: $T[8, 8] @ dram strides(any, 1);
        out z: $T[8, 8] @ $M;
        for r in 8, c in 8 {{ z[r, c] = x[r, c]; }}
      }}
    emit: semantics
    cost: {{unit: load, interval_cycles: 1, latency_cycles: 10}}
    source: own
  - semantics: |
      instruction store_c() {{
        in x: i32[8, 8] @ acc;
        out z: i32[8, 8] @ dram strides(any, 1);
        for r in 8, c in 8 {{ z[r, c] = x[r, c]; }}
      }}
    emit: semantics
    cost: {{unit: store, interval_cycles: 1, latency_cycles: 10}}
    source: own
"""
MULTIPLY = """  - semantics: |
      instruction {name}() {{
        in a: i8[8, 8] @ {a};
        in b: i8[8, 8] @ {b};
        inout c: i32[8, 8] @ acc;
        for m in 8, n in 8, k in 8 {{ c[m, n] += i32(a[m, k]) * i32(b[k, n]); }}
      }}
    emit: semantics
    cost: {{unit: array, interval_cycles: {cycles}, latency_cycles: {cycles} + 8}}
    source: own
"""
DIRECT = "dram strides(any, 1)"
STAYS: dict[str, tuple[int, float, float, float]] = {
    "sums": (256, 64, 64, 4),
    "weights": (4096, 64, 0.5, 256),
    "inputs": (4096, 0.5, 64, 256),
}
MOVED = {"sums": (4, 4, 1), "weights": (4, 1, 1), "inputs": (1, 4, 1)}
"""How often each element of A, B and C comes from main memory: 4 times where tiles of the other axis ask."""


def described(
    folder: Path, acc: int, a: float, b: float, c: float, direct: Mapping[str, int] | None = None
) -> str:
    """Return the path of a machine with so many bytes for sums, and so many bytes a ns into each scratchpad.

    `direct` are cycles of products that read `a`, `b` or `ab` in main memory.
    """
    products = [MULTIPLY.format(name="multiply", a="inp", b="wgt", cycles=1)]
    for read, cycles in (direct or {}).items():
        places = {"a": DIRECT if "a" in read else "inp", "b": DIRECT if "b" in read else "wgt"}
        products.append(MULTIPLY.format(name=f"multiply_direct_{read}", cycles=cycles, **places))
    folder.mkdir(exist_ok=True)
    path = folder / "stationary.yaml"
    path.write_text(
        HEAD.format(acc=acc, a=a, b=b, c=c) + LOADS.format() + "".join(products), encoding="utf-8"
    )
    return str(path)


def compiled(machine: str, schedule: str | None = None) -> Compilation:
    replay = Source("s.schedule", schedule) if schedule is not None else None
    asked = Request(KERNEL, machine, {**SIZES}, schedule=replay, heuristic="cpsat", limit_s=60, cache=False)
    return compile_kernel(asked)


def check(made: Compilation) -> None:
    check_emitted(made, KERNEL, SIZES)


def text_of(made: Compilation) -> str:
    assert made.schedule
    return print_schedule(made.schedule)


def simulated_ns(made: Compilation) -> float:
    assert made.machine
    assert made.program
    assert made.problem
    return simulate(made.program, made.machine, made.problem).total_ns


def moved(made: Compilation) -> tuple[float, ...]:
    """Return how often each element of A, B and C comes from main memory, on average."""
    assert made.machine
    assert made.program
    counts = moved_elements(made.program, made.machine)
    return tuple(counts[name, "in"] / SIZE**2 for name in "ABC")


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compilation]:
    folder = tmp_path_factory.mktemp("machines")
    return {stays: compiled(described(folder / stays, *given)) for stays, given in STAYS.items()}


NESTS = {
    "sums": """
  for m by 8 {
    for n by 8 {
      stage c in acc at 0;
      for k by 8 {
        stage a in inp at 0;
        stage b in wgt at 0;
        hold;
""",
    "weights": """
  for n by 8 {
    stage c in acc at 0;
    for k by 8 {
      stage b in wgt at 0;
      for m by 8 {
        stage a in inp at 0;
        hold;
""",
    "inputs": """
  for m by 8 {
    stage c in acc at 0;
    for k by 8 {
      stage a in inp at 0;
      for n by 8 {
        stage b in wgt at 0;
        hold;
""",
}
"""Whether a buffer is filled ahead is another decision, left out here."""


@pytest.mark.parametrize("stays", STAYS)
def test_what_is_slow_to_bring_stays(stays: str, chosen: dict[str, Compilation]) -> None:
    made = chosen[stays]
    assert made.schedule
    assert made.schedule.status == "OPTIMAL"
    assert NESTS[stays] in text_of(made).replace(" ahead 1", "")
    assert moved(made) == MOVED[stays]
    check(made)


PARTS = """isamap schedule 1
kernel gemm_s8s8
machine stationary
sizes K = 32, M = 32, N = 32
status MANUAL

nest 0 {
  map multiply { m: m, n: n, k: k } (a = A[m, k], b = B[k, n]);
  for k by 8 { for n by 8 {
    stage b in wgt at 0;
    for m by 8 { stage a in inp at 0; stage c in acc at 0; hold; issue; }
  } }
}
"""


def test_sums_that_come_and_go_take_longer(chosen: dict[str, Compilation], tmp_path: Path) -> None:
    """Weights stay where sums have no room to: allowed, right, and worse."""
    parts = compiled(described(tmp_path, *STAYS["sums"]), PARTS)
    check(parts)
    assert moved(parts) == (4, 1, 4)
    assert simulated_ns(parts) > 2 * simulated_ns(chosen["sums"])


@pytest.mark.parametrize("stays", ["weights", "inputs"])
def test_what_was_chosen_takes_least_when_it_is_simulated(
    stays: str, chosen: dict[str, Compilation], tmp_path: Path
) -> None:
    machine = described(tmp_path, *STAYS[stays])
    times = {other: simulated_ns(compiled(machine, text_of(made))) for other, made in chosen.items()}
    assert min(times, key=lambda other: times[other]) == stays, times


DIRECTS: list[tuple[str, dict[str, int], float, float, set[str]]] = [
    ("multiply_direct_a", {"a": 4, "b": 200, "ab": 200}, 0.5, 64, {"b", "c"}),
    ("multiply_direct_b", {"a": 200, "b": 4, "ab": 200}, 64, 0.5, {"a", "c"}),
    ("multiply_direct_ab", {"a": 4, "b": 4, "ab": 4}, 0.5, 0.5, {"c"}),
    ("multiply", {"a": 200, "b": 200, "ab": 200}, 64, 64, {"a", "b", "c"}),
]


@pytest.mark.parametrize(("product", "cycles", "a", "b", "staged"), DIRECTS, ids=[d[0] for d in DIRECTS])
def test_each_operand_bypasses_its_scratchpad_where_that_is_cheaper(
    product: str, cycles: dict[str, int], a: float, b: float, staged: set[str], tmp_path: Path
) -> None:
    made = compiled(described(tmp_path, 512, a, b, 64, cycles))
    assert made.schedule
    (nest,) = made.schedule.nests
    assert made.schedule.status == "OPTIMAL"
    assert f"map {product} {{" in text_of(made)
    assert {stage.operand for stage in nest.stages} == staged
    check(made)


SPEEDS = {"slow": 0.5, "fast": 64}


def test_a_bypass_is_fixed_by_hand(tmp_path: Path) -> None:
    """A schedule of another machine's prices, replayed: what it stages is what is staged."""
    slow, fast = (described(tmp_path / name, 512, a, 64, 64, {"a": 20}) for name, a in SPEEDS.items())
    bypassing = text_of(compiled(slow))
    assert "stage a" not in bypassing
    staging = text_of(compiled(fast))
    assert "stage a" in staging
    for machine in (slow, fast):
        for text in (bypassing, staging):
            check(compiled(machine, text))
    assert simulated_ns(compiled(slow, bypassing)) < simulated_ns(compiled(slow, staging))
    assert simulated_ns(compiled(fast, bypassing)) > simulated_ns(compiled(fast, staging))
