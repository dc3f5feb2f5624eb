"""Features of real accelerators, described and run: descriptors, main memories, RISC-V's matrix extension.

The descriptions are in `tests/data/machines`. docs/scratchpads.md and docs/writing-a-machine.md have the rules.
"""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest
from emitted_programs import check_emitted

from isamap.driver.encoded_programs import compile_words
from isamap.driver.explaining import schedule_accesses
from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Choices, Request, Size, make_request
from isamap.lower.program import Issue, MemoryRef
from isamap.lower.walk import walk
from isamap.machine import load_machine
from isamap.plan.access_counts import CONVENTIONS
from isamap.simulate.events import simulate
from isamap.source import NoMapping, Source
from isamap.stream.listing import list_program

DATA = Path(__file__).parents[1] / "data" / "machines"
CONV = read_kernel(str(DATA / "conv_out.ir"))


def compiled(kernel: Source, machine: Path, sizes: dict[str, int]) -> Compilation:
    return compile_kernel(Request(kernel, str(machine), dict(sizes), heuristic="greedy", cache=False))


def descriptors(made: Compilation, name: str) -> list[dict[str, object]]:
    """Return the parameters of each place that issues an instruction."""
    assert made.program is not None
    nodes = chain.from_iterable(walk([node]) for node in made.program.body)
    return [dict(n.params) for n in nodes if isinstance(n, Issue) and n.instruction == name]


@pytest.mark.parametrize("sizes", [(64, 64, 8, 16, 1), (17, 40, 9, 19, 2), (16, 16, 5, 33, 1)])
def test_one_descriptor_brings_rows_pixels_and_channels_of_a_window(sizes: tuple[int, ...]) -> None:
    known = dict(zip(("K", "C", "P", "Q", "stride"), sizes, strict=True)) | {"R": 3, "S": 3}
    made = compiled(CONV, DATA / "dma-3d.yaml", known)
    check_emitted(made, CONV, known)
    found = descriptors(made, "dma3")
    assert any(str(p["R"]) != "1" and str(p["A"]) != "1" and str(p["C"]) != "1" for p in found), found


def test_descriptors_of_three_dimensions_cost_less_than_those_of_two(tmp_path: Path) -> None:
    """Each descriptor takes 8 cycles, and each of its runs one more."""
    text = (DATA / "dma-3d.yaml").read_text(encoding="utf-8")
    flat = tmp_path / "dma-2d.yaml"
    flat.write_text(text.replace("name: dma-3d", "name: dma-2d").replace("scalar A: 0..16", "scalar A: 0..1"))
    sizes = {"K": 16, "C": 16, "P": 32, "Q": 16, "R": 3, "S": 3}
    three, two = (compiled(CONV, machine, sizes) for machine in (DATA / "dma-3d.yaml", flat))
    assert predicted(three) < 0.98 * predicted(two)
    assert simulated(three) < 0.98 * simulated(two)


def test_a_descriptor_has_a_field_for_each_distance() -> None:
    sizes: dict[str, Size] = {"K": 64, "C": 64, "P": 8, "Q": 16, "R": 3, "S": 3}
    machine = DATA / "dma-3d.yaml"
    program, _ = compile_words(Request(CONV, str(machine), sizes, heuristic="greedy", cache=False))
    listed = list_program(program, load_machine(str(machine)))
    pair = r"by \d{2,4}, \d{2,4}"
    assert re.search(rf"dma3 +x=X\+0 .*# x dram\[0x40\] {pair}, z spad\[0x\w+\] {pair}\n", listed), listed


PLACED = """kernel place(M, N, K) {
  in A: i8[M, K] @ sram;
  in B: i8[K, N] @ flash;
  inout C: i32[M, N] @ sram;
  for m in M, n in N, k in K { C[m, n] += i32(A[m, k]) * i32(B[k, n]); }
}
"""
SMALL: dict[str, int] = {"M": 48, "N": 32, "K": 48}


def test_an_array_is_moved_from_the_main_memory_that_its_kernel_names() -> None:
    kernel = Source("place.ir", PLACED)
    made = compiled(kernel, DATA / "two-mains.yaml", SMALL)
    check_emitted(made, kernel, SMALL)
    assert made.program is not None
    issues = [n for node in made.program.body for n in walk([node]) if isinstance(n, Issue)]
    moves = [(n.instruction, dict(n.operands)["x"]) for n in issues if n.instruction.startswith("read_")]
    read = {(name, place.buffer) for name, place in moves if isinstance(place, MemoryRef)}
    assert read == {("read_sram", "A"), ("read_flash", "B")}
    swapped = Source("place.ir", PLACED.replace("K] @ sram", "K] @ flash").replace("N] @ flash", "N] @ sram"))
    other = compiled(swapped, DATA / "two-mains.yaml", SMALL)
    assert predicted(other) > predicted(made), "A is larger, and flash is slower"


def test_energy_is_that_of_the_named_memory() -> None:
    kernel = Source("place.ir", PLACED)
    machine = str(DATA / "two-mains.yaml")
    choices = Choices(objective="energy", heuristic="greedy")
    made = compile_kernel(make_request(kernel, machine, {**SMALL}, choices), "schedule")
    assert made.canonical is not None
    assert made.schedule is not None
    assert made.problem is not None
    assert made.machine is not None
    known = made.canonical, made.schedule, made.problem, made.machine
    (found,) = schedule_accesses(*known, CONVENTIONS["isamap"])
    energies = {(a.level, a.operand): a.energy_pj for a in found.accesses}
    assert energies["flash", "b"] == pytest.approx(48 * 32 * 200 / 16)
    assert energies["sram", "a"] == pytest.approx(48 * 48 * 10 / 16)
    assert found.energy is not None
    assert predicted(made) == pytest.approx(found.energy.total_pj)


def test_a_memory_that_the_machine_lacks_is_named() -> None:
    with pytest.raises(NoMapping) as found:
        compiled(Source("place.ir", PLACED), DATA / "dma-3d.yaml", SMALL)
    (told,) = found.value.diagnostics
    assert (told.code, told.message) == (
        "unknown-memory",
        "`A` is in `sram`, which is not a main memory of dma-3d",
    )
    assert told.help == "write one of: dram; or leave out `@ sram`"


def test_spacemits_matrix_extension_performs_products_of_bytes() -> None:
    """A tile of 4 by 8 is a register of RVV, at its one length of 256 bits; sums take two registers."""
    kernel = read_kernel("gemm_s8s8")
    sizes = {"M": 13, "N": 9, "K": 40}
    made = compiled(kernel, DATA / "spacemit-ime.yaml", sizes)
    check_emitted(made, kernel, sizes)
    assert len(descriptors(made, "vmadot")) > 0


def predicted(made: Compilation) -> float:
    assert made.schedule is not None
    return made.schedule.cost_ns or 0.0


def simulated(made: Compilation) -> float:
    assert made.program is not None
    assert made.machine is not None
    assert made.problem is not None
    return simulate(made.program, made.machine, made.problem).total_ns
