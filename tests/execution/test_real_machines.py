"""Features of real accelerators, described and run: DMA descriptors of three dimensions.

The descriptions are in `tests/data/machines`. docs/scratchpads.md and docs/writing-a-machine.md have the rules.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from emitted_programs import check_emitted

from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.lower.program import Issue
from isamap.lower.walk import walk
from isamap.simulate.events import simulate
from isamap.source import Source

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
    for least in (lambda made: made.schedule.cost_ns, simulated):
        three, two = (least(compiled(CONV, machine, sizes)) for machine in (DATA / "dma-3d.yaml", flat))
        assert three < 0.98 * two


def simulated(made: Compilation) -> float:
    assert made.program is not None
    assert made.machine is not None
    assert made.problem is not None
    return simulate(made.program, made.machine, made.problem).total_ns
