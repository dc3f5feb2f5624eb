"""Energies: those that ZigZag publishes, the parts of an energy, and machines that state none."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from pathlib import Path

import pytest
from ownership import moved_elements

import isamap
from isamap.driver.explaining import schedule_accesses
from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Choices, Request, make_request
from isamap.plan.access_counts import CONVENTIONS, StatementAccesses, count_accesses
from isamap.plan.loop_nest import CountedOperand, Keep, LoopNest, NestLoop
from isamap.plan.protocols import CostModel
from isamap.plan.text import parse_schedule, print_schedule
from isamap.scheduler.effects.energy import TIME, EnergyModel
from isamap.scheduler.nests.pricing import price
from isamap.source import Source

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "energy"

# Layers of ResNet-18, each with its K, C, OY and OX, FY and FX, stride, and the energy of ZigZag 3.9.1 in pJ.
LAYERS = {
    "conv1": (64, 3, 112, 7, 2, 362_771_841),
    "l1": (64, 64, 56, 3, 1, 126_611_374),
    "l2.0": (128, 64, 28, 3, 2, 77_072_684),
    "ds3": (256, 128, 14, 1, 2, 26_038_306),
    "l3": (256, 256, 14, 3, 1, 105_045_312),
}
# Its temporal mapping, innermost loop first. A bar ends what each operand's nearest memory keeps, a second bar
# what the SRAM keeps; a level that is left out keeps everything.
MAPPINGS = {
    "conv1": ("FX 7, FY 7, OX 16, OX 7, K 2, OY 112", {"O": (2, 5)}),
    "l1": ("C 2, FY 3, FX 3, OY 56, OX 56, K 2", {"O": (3,)}),
    "l2.0": ("C 2, FY 3, FX 3, OY 28, OX 28, K 4", {"O": (3,)}),
    "ds3": ("C 4, OY 7, OY 2, OX 7, OX 2, K 8", {"O": (1,)}),
    "l3": ("C 8, FY 3, OY 14, OX 14, K 8, FX 3", {"O": (2,), "W": (4,)}),
}
READ = {"dram": 700 / 8, "sram": 416.16 / 256, "weights": 0.095, "sums": 0.021 / 4}
WRITE = {"dram": 750 / 8, "sram": 378.4 / 256, "weights": 0.095, "sums": 0.021 / 4}
PORT_BYTES = 8


def scheduled(layer: str, convention: str) -> StatementAccesses:
    """Return the counts of the schedule that says the mapping of a layer."""
    k, c, out, taps, stride, _ = LAYERS[layer]
    side = (out - 1) * stride + taps
    sizes = {"N": 1, "H": side, "W": side, "C": c, "K": k, "R": taps, "S": taps, "stride": stride}
    kernel, schedule = ((EXAMPLES / name) for name in ("conv_s8.ir", f"{layer}.schedule"))
    request = Request(
        Source(kernel.name, kernel.read_text(encoding="utf-8")),
        str(EXAMPLES / "tpu-like.yaml"),
        sizes,
        schedule=Source(schedule.name, schedule.read_text(encoding="utf-8")),
    )
    (found,) = counted(compile_kernel(request, "schedule"), convention)
    return found


def counted(made: Compilation, convention: str) -> tuple[StatementAccesses, ...]:
    assert made.canonical is not None
    assert made.schedule is not None
    assert made.problem is not None
    assert made.machine is not None
    known = made.canonical, made.schedule, made.problem, made.machine
    return schedule_accesses(*known, CONVENTIONS[convention])


@pytest.mark.parametrize("layer", ["l1", "ds3", "l3", "l2.0"])
def test_a_schedule_of_zigzags_mapping_has_zigzags_energy(layer: str) -> None:
    found = scheduled(layer, "zigzag-energy")
    assert found.energy is not None
    # ZigZag cuts accesses off to whole ones: of l2.0 it leaves out a quarter of a write of the SRAM.
    cut_off_pj = 0.25 * 378.4 if layer == "l2.0" else 0.0
    assert round(found.energy.total_pj - cut_off_pj) == LAYERS[layer][-1]


def test_what_the_code_does_costs_more_than_zigzag_counts() -> None:
    """By isamap's own convention sums are read before they are added to, and an input's taps lie apart."""
    found = {(a.level, a.operand): a.energy_pj or 0.0 for a in scheduled("l1", "isamap").accesses}
    assert found["dram", "c"] == pytest.approx(75_264_000 + 200_704 * 4 * READ["dram"])
    assert found["dram", "a"] == pytest.approx(623_616 * READ["dram"])
    assert found["weights", "b"] == pytest.approx(10_986_024.96)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_energy_counted_from_zigzags_mapping_is_zigzags(layer: str) -> None:
    k, c, out, taps, stride, published = LAYERS[layer]
    text, kept = MAPPINGS[layer]
    spatial = {"K": 32, "cs": min(32, c)}
    extents = {"K": k, "C": -(-c // 32), "cs": spatial["cs"], "OY": out, "OX": out, "FY": taps, "FX": taps}
    loops: list[NestLoop] = []
    covered = {axis: spatial.get(axis, 1) for axis in extents}
    for word in text.split(", "):
        axis, count = word.split()
        loops.insert(0, NestLoop(axis, covered[axis]))
        covered[axis] *= int(count)
    depth = {name: [len(loops) - inside for inside in levels] for name, levels in kept.items()}
    channel = (("C", spatial["cs"]), ("cs", 1))
    rows = ((("OY", stride), ("FY", 1)), (("OX", stride), ("FX", 1)))
    results = ((("K", 1),), (("OY", 1),), (("OX", 1),))
    sums = Keep("sums", depth["O"][0])
    own = (Keep("dram", 0), Keep("sram", depth["O"][1] if len(depth["O"]) > 1 else 0))
    nest = LoopNest(
        tuple(extents.items()),
        tuple(loops),
        (
            CountedOperand("O", "O", results, (*own, sums), "update", 4),
            # Each cell of a column has a sum of its own, as if the channel were an axis of the result.
            CountedOperand("cells", "cells", (*results, (("cs", 1),)), (*own, sums), "update", 4),
            CountedOperand("I", "I", (channel, *rows), (Keep("dram", 0), Keep("sram", 0)), "read", 1),
            CountedOperand(
                "W",
                "W",
                ((("K", 1),), channel, (("FY", 1),), (("FX", 1),)),
                (Keep("dram", 0), Keep("weights", depth.get("W", [0])[0])),
                "read",
                1,
            ),
        ),
    )
    total = 0.04 * k * c * out * out * taps * taps
    cycles = prod(-(-extents[a] // spatial.get(a, 1)) for a in extents)
    for row in count_accesses(nest, CONVENTIONS["zigzag-energy"]):
        if (row.tensor == "cells") != (row.level == "sums"):
            continue
        size = 1 if row.tensor in ("I", "W") else 4
        moved = [row.reads + row.drains, row.fills + row.updates]
        if row.tensor == "I":  # whole words of a port, of which whole accesses count
            port = ceil(spatial["cs"] / PORT_BYTES) * PORT_BYTES
            words = ceil(row.reads / PORT_BYTES) * PORT_BYTES if row.level == "dram" else cycles * port
            moved = [words, ceil(row.fills / PORT_BYTES) * PORT_BYTES // 256 * 256]
        total += size * (moved[0] * READ[row.level] + moved[1] * WRITE[row.level])
    assert round(total, 3) == pytest.approx(published, abs=0.51)


def solved(kernel: Source, sizes: dict[str, int], objective: str, within: str = "") -> Compilation:
    choices = Choices(objective=objective, within=within, limit_s=30)
    return compile_kernel(make_request(kernel, str(EXAMPLES / "tpu-like.yaml"), sizes, choices), "schedule")


def price_of(made: Compilation, model: CostModel) -> float:
    assert made.schedule is not None
    assert made.problem is not None
    (cost,) = price(made.schedule, made.problem, model)
    assert cost is not None
    return cost


SIZES = {"N": 1, "H": 10, "W": 10, "C": 64, "K": 64, "R": 3, "S": 3, "stride": 1}
CONV = read_kernel(str(EXAMPLES / "conv_s8.ir")), SIZES
GEMM = read_kernel("gemm_s8s8"), {"M": 64, "N": 96, "K": 128}


@pytest.mark.parametrize("objective", ["time", "energy", "edp"])
@pytest.mark.parametrize("case", [CONV, GEMM], ids=["conv", "gemm"])
def test_the_model_prices_the_energy_that_is_counted(
    case: tuple[Source, dict[str, int]], objective: str
) -> None:
    made = solved(*case, objective)
    (found,) = counted(made, "isamap")
    assert found.energy is not None
    assert price_of(made, EnergyModel()) == pytest.approx(found.energy.total_pj, rel=1e-9)


def test_each_objective_is_proven_and_a_bound_on_the_other_holds() -> None:
    time, energy = solved(*CONV, "time"), solved(*CONV, "energy")
    least_ns, least_pj = price_of(time, TIME), price_of(energy, EnergyModel())
    assert price_of(energy, TIME) > 1.05 * least_ns
    assert price_of(time, EnergyModel()) >= least_pj
    bounded = solved(*CONV, "energy", "time=1.05")
    assert price_of(bounded, TIME) <= 1.05 * least_ns
    assert least_pj <= price_of(bounded, EnergyModel()) <= price_of(time, EnergyModel())
    for made in (time, energy, bounded):
        assert made.schedule is not None
        assert made.schedule.status == "OPTIMAL"


def test_greedy_obeys_an_objective_and_its_bound() -> None:
    kernel, sizes = CONV
    asked = Choices(objective="energy", within="time=1.1", heuristic="greedy")
    made = compile_kernel(make_request(kernel, str(EXAMPLES / "tpu-like.yaml"), sizes, asked), "schedule")
    quick = replace(asked, objective="time", within="")
    fast = compile_kernel(make_request(kernel, str(EXAMPLES / "tpu-like.yaml"), sizes, quick), "schedule")
    assert price_of(made, TIME) <= 1.1 * price_of(fast, TIME)
    assert price_of(made, EnergyModel()) <= price_of(fast, EnergyModel())


def test_a_schedule_chosen_for_energy_is_read_back_with_its_unit() -> None:
    made = solved(*GEMM, "energy")
    assert made.schedule is not None
    text = print_schedule(made.schedule)
    assert f"cost {made.schedule.cost_ns!r} pJ" in text
    assert parse_schedule(Source("s", text)) == made.schedule


def test_python_takes_an_objective_and_a_bound() -> None:
    kernel, sizes = GEMM
    found = isamap.compile(
        kernel.text, str(EXAMPLES / "tpu-like.yaml"), sizes, objective="energy", within="time=1.2"
    )
    assert found is not None


ACCESSES = EXAMPLES.parent / "accesses"
FIGURES = "energy: {{read_pj: {}, write_pj: {}, access_bytes: {}, leakage_pj_per_ns: {}, source: abstract}}"
BUFFER, MAIN = (
    FIGURES.format(0.42564, 0.42564, 4, 0.000861),
    FIGURES.format(43.353054, 30.878292, 32, 0.007972),
)


def timeloop(tmp_path: Path, machine: str, schedule: str) -> StatementAccesses:
    """Return the counts of an exercise whose machine states the energies of its reference outputs."""
    text = (ACCESSES / f"{machine}.yaml").read_text(encoding="utf-8")
    for memory, energy in (("buffer", BUFFER), ("main", MAIN)):
        text = text.replace(f"  {memory}: {{source", f"  {memory}: {{{energy}, source")
    mac = "cost: {unit: mac, interval_cycles: 1, latency_cycles: 1}"
    assert text.count(mac) == 1
    (tmp_path / f"{machine}.yaml").write_text(text.replace(mac, f"{mac[:-1]}, energy_pj: 0.845}}"))
    kernel, given = ACCESSES / "conv1d_valid.ir", ACCESSES / f"{schedule}.schedule"
    request = Request(
        Source(kernel.name, kernel.read_text(encoding="utf-8")),
        str(tmp_path / f"{machine}.yaml"),
        {"P": 16, "R": 3},
        schedule=Source(given.name, given.read_text(encoding="utf-8")),
    )
    (found,) = counted(compile_kernel(request, "schedule"), "timeloop")
    return found


def test_one_level_has_the_energy_that_timeloop_publishes(tmp_path: Path) -> None:
    found = timeloop(tmp_path, "mac-1level", "conv1d-1level")
    assert found.energy is not None
    leakage_pj = 48 * 0.000861
    total = found.energy.memories_pj + found.energy.issues_pj + leakage_pj
    assert round(1000 * total / 48, 2) == 2406.54


def test_two_levels_have_it_but_for_parts_of_accesses(tmp_path: Path) -> None:
    found = timeloop(tmp_path, "mac-2level", "conv1d-2level-ws")
    assert found.energy is not None
    by_level: dict[str, float] = {}
    for a in found.accesses:
        by_level[a.level] = by_level.get(a.level, 0.0) + (a.energy_pj or 0.0)
    # 3 weights are one access of 8 words, not 3 / 8 of one, and 18 inputs are three.
    whole = (1 - 3 / 8 + 3 - 18 / 8) * 43.353054
    drained = 2 * 16 * 0.42564  # results enter and leave the buffer once more than Timeloop charges
    main, buffer = by_level["main"] + whole + 48 * 0.007972, by_level["buffer"] - drained + 48 * 0.000861
    assert [round(1000 * pj / 48, 2) for pj in (buffer, main)] == [1747.76, 4907.32]
    assert round(1000 * (main + buffer + found.energy.issues_pj) / 48, 2) == 7500.08


PRODUCT = """kernel product(M, N, K) {
  in T0: f32[M, K];
  in W0: f32[K, N];
  inout T1: f32[M, N];
  for m in M, n in N, k in K { T1[m, n] += T0[m, k] * W0[k, n]; }
}
"""
WHOLE = """isamap schedule 1
kernel product
machine mac-2level
sizes K = 32, M = 64, N = 32
status MANUAL

nest 0 {
  map mac (w = T0[m, k], x = W0[k, n]);
  stage w in buffer at 0;
  stage x in buffer at 8192;
  stage y in buffer at 12288;
  for m by 1 { for k by 1 { for n by 1 { hold; issue; } } }
}
"""


def test_a_product_has_the_energy_that_accelforge_publishes(tmp_path: Path) -> None:
    """AccelForge's `simple` machine takes 1 for each bit of 8-bit values, read or written.

    A result leaves once and is not read before, which is ZigZag's convention, too. An access here is an
    element of four bytes.
    """
    text = (ACCESSES / "mac-2level.yaml").read_text(encoding="utf-8").replace("bytes = 256", "bytes = 32 KiB")
    for memory in ("buffer", "main"):
        text = text.replace(f"  {memory}: {{source", f"  {memory}: {{{FIGURES.format(8, 8, 4, 0)}, source")
    (tmp_path / "mac-2level.yaml").write_text(text)
    m, nk, bits = 64, 32, 8
    sizes: dict[str, int | str] = {"M": m, "N": nk, "K": nk}
    given = Source("whole.schedule", WHOLE)
    asked = Request(Source("product.ir", PRODUCT), str(tmp_path / "mac-2level.yaml"), sizes, schedule=given)
    (found,) = counted(compile_kernel(asked, "schedule"), "zigzag-energy")
    energies = {a.tensor: a.energy_pj for a in found.accesses if a.level == "main"}
    assert energies == {"T0": m * nk * bits, "W0": nk * nk * bits, "T1": m * nk * bits}


COPY = """kernel copy() {
  in a: i8[64, 8];
  out p: i8[64, 8];
  for i in 64, c in 8 { p[i, c] = a[i, c]; }
}"""


def linked(tmp_path: Path, kernel: Source, sizes: dict[str, int]) -> tuple[Compilation, StatementAccesses]:
    """Return a kernel on `edge-npu`, with links that cost 2 pJ for each byte, and its counts."""
    text = (Path(isamap.__file__).parent / "hw_specs" / "edge-npu.yaml").read_text(encoding="utf-8")
    (tmp_path / "edge-npu.yaml").write_text(
        text.replace("shared: true,", "shared: true, energy_pj_per_byte: 2,")
    )
    choices = Choices(heuristic="greedy")
    made = compile_kernel(make_request(kernel, str(tmp_path / "edge-npu.yaml"), sizes, choices), "lower")
    (found,) = counted(made, "isamap")
    return made, found


def test_a_copy_reads_its_source_once_and_pays_its_link_both_ways(tmp_path: Path) -> None:
    made, found = linked(tmp_path, Source("copy.ir", COPY), {})
    reads = [(a.level, a.reads) for a in found.accesses if a.tensor == "a"]
    assert reads == [("dram", 64 * 8)]
    assert found.energy is not None
    assert sum(pj for _, pj in found.energy.links_pj) == 2 * (64 * 8 + 64 * 8)
    assert price_of(made, EnergyModel()) == pytest.approx(found.energy.total_pj)


def test_a_schedule_for_energy_is_lowered_where_only_whole_rows_can_be_moved(tmp_path: Path) -> None:
    """One row of 8 along both axes of a transfer costs as little energy, but its end is no whole row."""
    linked(tmp_path, Source("copy.ir", COPY), {})
    choices = Choices(objective="energy", heuristic="greedy")
    asked = make_request(Source("copy.ir", COPY), str(tmp_path / "edge-npu.yaml"), {}, choices)
    assert compile_kernel(asked, "lower").program is not None


def test_links_carry_what_fused_statements_read_and_write(tmp_path: Path) -> None:
    sizes = {"N": 1, "C": 32, "K": 32, "H": 10, "W": 10, "R": 3, "S": 3}
    made, found = linked(tmp_path, read_kernel(str(EXAMPLES.parent / "conv2d_s8_requant.ir")), sizes)
    assert made.program is not None
    assert made.machine is not None
    moved = moved_elements(made.program, made.machine)
    width = {t.name: t.dtype.size_bytes for t in made.program.tensors}
    carried = sum(width[name] * count for (name, _), count in moved.items() if name in width)
    assert found.energy is not None
    assert sum(pj for _, pj in found.energy.links_pj) == 2 * carried
