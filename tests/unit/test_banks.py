"""Banks of scratchpads: which of them an access takes, what meets in them, and what descriptions may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.machine import cost_value, load_machine
from isamap.machine.banks import Banks, banks_of
from isamap.simulate.events import Simulation, simulate
from isamap.source import IsamapError, Source

BANKED = "tests/data/machines/edge-npu-banks.yaml"
FOUR = Banks("spad", 4, 16, 16.0, is_interleaved=True)


def test_whole_rows_take_all_banks_alike() -> None:
    assert FOUR.taken(0, ((0, 128),)) == ((0, 2.0), (1, 2.0), (2, 2.0), (3, 2.0))


def test_a_column_whose_rows_lie_as_far_apart_as_there_are_banks_takes_one_of_them() -> None:
    column = tuple((row * 64, 16) for row in range(8))
    assert FOUR.taken(16, column) == ((1, 8.0),)
    padded = tuple((row * 80, 16) for row in range(8))
    assert FOUR.taken(16, padded) == ((0, 2.0), (1, 2.0), (2, 2.0), (3, 2.0))


def test_without_interleaving_each_bank_is_one_part_of_the_memory() -> None:
    halves = Banks("spad", 2, 1024, 8.0, is_interleaved=False)
    assert halves.taken(1000, ((0, 48),)) == ((0, 3.0), (1, 3.0))
    assert halves.moved_per_ns == 8.0
    assert FOUR.moved_per_ns == 64.0


def simulated(machine: str, **sizes: int) -> tuple[Simulation, float]:
    source = Source("gemm_requant", Path("docs/examples/gemm_requant.ir").read_text())
    made = compile_kernel(Request(source, machine, sizes), "lower")
    assert made.machine and made.problem and made.program and made.schedule  # noqa: PT018 - all stages have run
    return simulate(made.program, made.machine, made.problem), made.schedule.cost_ns or 0.0


def test_what_meets_in_banks_takes_turns_and_is_priced_so() -> None:
    sizes = {"M": 512, "N": 512, "K": 512}
    plain, _ = simulated("edge-npu", **sizes)
    found, priced_ns = simulated(BANKED, **sizes)
    banks = [ns for unit, ns in found.busy_ns if unit.startswith("spad.")]
    assert len(banks) == 8
    assert max(banks) > dict(plain.busy_ns)["execute"]
    assert found.total_ns > 1.1 * plain.total_ns
    assert priced_ns == pytest.approx(found.total_ns, rel=0.1)


def described(folder: Path, spad: str, more: str = "") -> Path:
    spec = folder / "banked.yaml"
    spec.write_text(
        "isamap: 1\nname: banked\nsummary: banks\nextends: edge-npu\n"
        f"{more}language: |\n  memory spad: scratchpad(bytes = 524288, {spad});\n"
    )
    return spec


def test_an_instruction_takes_at_least_as_long_as_the_banks_of_its_operands(tmp_path: Path) -> None:
    machine = load_machine(str(described(tmp_path, "banks = 8, bank_bytes = 2, interleave_bytes = 2")))
    stream = machine.instructions["stream"]
    assert cost_value(stream.cost.interval_ns, {"M": 64}) == 128.0
    machine = load_machine(str(described(tmp_path, "banks = 2, bank_bytes = 8, bank_ports = 2")))
    assert cost_value(machine.instructions["stream"].cost.interval_ns, {"M": 64}) == 128.0


def test_banks_without_a_rate_cost_nothing() -> None:
    machine = load_machine("edge-npu")
    assert machine.memories["spad"].number("banks") == 8
    assert banks_of(machine.memories["spad"], machine.clock_ghz) is None


@pytest.mark.parametrize(
    ("spad", "lacks"),
    [
        ("bank_bytes = 4", "`bank_bytes` without `banks`"),
        ("banks = 8, bank_ports = 2", "`bank_ports` without `bank_bytes`"),
        ("banks = 8, interleave_bytes = 4", "`interleave_bytes` without `bank_bytes`"),
    ],
)
def test_a_figure_that_says_nothing_alone_is_refused(tmp_path: Path, spad: str, lacks: str) -> None:
    with pytest.raises(IsamapError) as caught:
        load_machine(str(described(tmp_path, spad)))
    assert lacks in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].code == "attribute-missing"
