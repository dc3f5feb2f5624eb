"""Links that carry whole bursts: what rows take, stated costs against them, prices and simulated time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from isamap.driver.encoded_programs import compile_words
from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request, Size
from isamap.hw_specs import machine_path
from isamap.machine import Machine, cost_value, load_machine
from isamap.machine.links import carried_ns, shared_link
from isamap.simulate.events import simulate
from isamap.stream.timing import stream_time


def described(folder: Path, name: str, burst_bytes: int) -> str:
    """Return a shipped machine whose shared links carry bursts; its path."""
    text = machine_path(name).read_text(encoding="utf-8")
    assert "shared: true" in text
    path = folder / f"{name}.yaml"
    path.write_text(
        text.replace("shared: true", f"shared: true, burst_bytes: {burst_bytes}"), encoding="utf-8"
    )
    return str(path)


def link_ns(machine: Machine, instruction: str, *extents: int) -> float:
    crossed = shared_link(machine, instruction)
    assert crossed is not None
    link, name = crossed
    return carried_ns(link, machine.instructions[instruction].instruction.operand(name), extents)


def test_each_row_that_lies_apart_takes_whole_bursts(tmp_path: Path) -> None:
    plain, bursts = load_machine("edge-npu"), load_machine(described(tmp_path, "edge-npu", 64))
    assert link_ns(plain, "dma_in_i8", 8, 24) == 8 * 24 / 16
    assert link_ns(bursts, "dma_in_i8", 8, 24) == 8 * 64 / 16
    assert link_ns(bursts, "dma_in_i32", 8, 17) == 8 * 128 / 16
    assert link_ns(bursts, "dma_in_i8", 1, 1) == 64 / 16


def test_rows_one_behind_the_other_are_one(tmp_path: Path) -> None:
    blocks = load_machine(described(tmp_path, "vta", 512))
    assert link_ns(blocks, "load_wgt", 3, 16, 16) == 3 * 512 / 0.8, "a block of 256 bytes is one row"
    assert link_ns(load_machine(described(tmp_path, "vta", 256)), "load_wgt", 3, 16, 16) == 3 * 256 / 0.8


def test_a_slow_link_keeps_the_port_of_its_memory_busy_for_its_bytes_only(tmp_path: Path) -> None:
    text = machine_path("edge-npu").read_text(encoding="utf-8")
    fast, slow = (f"to: acc, bandwidth_bytes_per_ns: {rate}," for rate in (16, 2))
    assert fast in text
    path = tmp_path / "edge-npu.yaml"
    path.write_text(text.replace(fast, slow), encoding="utf-8")
    machine = load_machine(str(path))
    assert link_ns(machine, "dma_in_i32", 8, 16) == link_ns(machine, "dma_in_i8", 8, 64) == 8 * 64 / 16
    assert cost_value(machine.instructions["dma_in_i32"].cost.interval_ns, {"R": 8, "C": 16}) == 8 * 64 / 2


@pytest.mark.parametrize(("burst_bytes", "of_a_row"), [(1, 2), (16, 2), (64, 4), (128, 8)])
def test_no_instruction_is_faster_than_its_bursts(burst_bytes: int, of_a_row: int, tmp_path: Path) -> None:
    item = load_machine(described(tmp_path, "edge-npu", burst_bytes)).instructions["dma_in_i8"]
    assert cost_value(item.cost.interval_ns, {"R": 5, "C": 32}) == 5 * of_a_row


def compiled(machine: str) -> Compilation:
    sizes = {"M": 96, "N": 64, "K": 64}
    return compile_kernel(
        Request(read_kernel("gemm_s8s8"), machine, {**sizes}, heuristic="greedy", cache=False)
    )


def test_schedules_cost_more_where_rows_are_shorter_than_bursts(tmp_path: Path) -> None:
    costs, times = list[float](), list[float]()
    for burst_bytes in (1, 256):
        made = compiled(described(tmp_path, "edge-npu", burst_bytes))
        assert made.schedule
        assert made.schedule.cost_ns
        assert made.program
        assert made.machine
        assert made.problem
        costs.append(made.schedule.cost_ns)
        times.append(simulate(made.program, made.machine, made.problem).total_ns)
        assert costs[-1] == pytest.approx(times[-1], rel=0.1)
    assert 2 < times[1] / times[0] < 8, "rows of 32 bytes take 256, rows of sums 128"


def test_words_take_as_long(tmp_path: Path) -> None:
    times: list[float] = []
    for burst_bytes in (1, 64):
        product = Path(__file__).parents[2] / "docs" / "examples" / "gemm_s8_blocks.ir"
        path = described(tmp_path, "vta", burst_bytes)
        sizes = {"M": 16, "N": 1, "K": 1}
        program, made = compile_words(Request(read_kernel(str(product)), path, {**sizes}, heuristic="greedy"))
        assert made.machine
        found = stream_time(program, made.machine)
        assert found is not None
        times.append(found.total_ns)
    assert times[1] > times[0] + 16 * 48 / 0.8, "16 rows of 16 bytes take 64 each"


def test_words_of_units_with_queues_take_as_long_as_the_simulator_says() -> None:
    sizes: dict[str, Size] = {"M": 96, "N": 64, "K": 128}
    request = Request(read_kernel("gemm_s8s8"), "edge-npu", sizes, heuristic="greedy")
    program, made = compile_words(request)
    assert made.program
    assert made.machine
    assert made.problem
    found = stream_time(program, made.machine)
    assert found is not None
    expected = simulate(made.program, made.machine, made.problem).total_ns
    assert found.total_ns == pytest.approx(expected, rel=0.1)
    assert max(found.busy_ns.values()) < found.total_ns < sum(found.busy_ns.values()) + 1000, "units overlap"
    in_order = replace(made.machine.units["load"], queued=None)
    machine = replace(made.machine, units={**made.machine.units, "load": in_order})
    assert stream_time(program, machine) is None, "a unit without a queue has another order"
