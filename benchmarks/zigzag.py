"""Convolutions on ZigZag's example machine `tpu_like`, mapped by isamap and by ZigZag, with sums of 32 bits in both.

    pip install zigzag-dse==3.9.1 six
    python benchmarks/zigzag.py --seconds 30 > zigzag.txt

The lower bound is the larger of two times: the array computes with all of its cells busy, and the port of the main
memory moves each input that is read, and each result, once. ZigZag's cycles are with loading and unloading. Below
the bound, its accounting lets words pass the port in parallel. isamap's cycles are those of its model, with the gap
to the proven bound, and those of the event simulator, which runs the lowered program. Without ZigZag its column is
empty.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.report.columns import align
from isamap.simulate.events import simulate

sys.path = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
# The package `zigzag` has the name of this script.

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "machines"
PORT_BYTES = 8  # a cycle, between DRAM and the chip
CELLS = 32 * 32


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of bytes; `size` are the rows and columns of its result."""

    name: str
    k: int
    c: int
    size: int
    taps: int
    stride: int

    @property
    def sizes(self) -> dict[str, int | str]:
        found = {"K": self.k, "C": self.c, "P": self.size, "Q": self.size}
        return {**found, "R": self.taps, "S": self.taps, "stride": self.stride}

    @property
    def bound_cycles(self) -> int:
        products = self.k * self.c * self.size**2 * self.taps**2
        side = self.size * min(self.taps, self.stride) + max(0, self.taps - self.stride)
        moved = self.c * side**2 + self.k * self.c * self.taps**2 + 4 * self.k * self.size**2
        return max(-(-products // CELLS), -(-moved // PORT_BYTES))


LAYERS = (
    Layer("conv1", 64, 3, 112, 7, 2),
    Layer("l1", 64, 64, 56, 3, 1),
    Layer("l2.0", 128, 64, 28, 3, 2),
    Layer("ds3", 256, 128, 14, 1, 2),
    Layer("l3", 256, 256, 14, 3, 1),
    Layer("5x5", 64, 48, 28, 5, 1),
    Layer("5x5/2", 96, 32, 28, 5, 2),
    Layer("1x1", 1024, 256, 14, 1, 1),
    Layer("1x1 wide", 2048, 512, 7, 1, 1),
    Layer("row", 1000, 2048, 1, 1, 1),
    Layer("3x3/2 odd", 40, 24, 15, 3, 2),
)


def zigzag_cycles(layer: Layer, folder: Path) -> int:
    """Return ZigZag's cycles of a layer, with loading and unloading."""
    import yaml
    import zigzag
    from zigzag import api

    inputs = Path(zigzag.__file__).parent / "inputs"
    machine = yaml.safe_load((inputs / "hardware" / "tpu_like.yaml").read_text(encoding="utf-8"))
    sums = machine["memories"]["rf_2B"]
    sums["size"] = 32
    for port in sums["ports"]:
        port["bandwidth_min"] = port["bandwidth_max"] = 32
    hardware, workload = folder / "tpu_like_32.yaml", folder / "layer.yaml"
    hardware.write_text(yaml.safe_dump(machine, sort_keys=False), encoding="utf-8")
    side = layer.stride * (layer.size - 1) + layer.taps
    text = {
        "id": 0, "name": layer.name, "operator_type": "Conv",
        "equation": "O[b][g][k][oy][ox]+=W[g][k][c][fy][fx]*I[b][g][c][iy][ix]",
        "dimension_relations": [f"i{d}={layer.stride}*o{d}+1*f{d}" for d in "xy"],
        "loop_dims": ["B", "K", "G", "OX", "OY", "C", "FX", "FY"],
        "loop_sizes": [1, layer.k, 1, layer.size, layer.size, layer.c, layer.taps, layer.taps],
        "operand_precision": {"W": 8, "I": 8, "O": 32, "O_final": 32},
        "operand_source": {"I": 0, "W": 0}, "padding": [[0, 0], [0, 0]],
        "pr_loop_dims": ["IX", "IY"], "pr_loop_sizes": [side, side],
    }  # fmt: skip
    workload.write_text(yaml.safe_dump([text], sort_keys=False), encoding="utf-8")
    mapping = str(inputs / "mapping" / "tpu_like.yaml")
    _, cycles, *_ = api.get_hardware_performance_zigzag(
        str(workload), str(hardware), mapping, opt="latency", dump_folder=str(folder / "out"),
        pickle_filename=str(folder / "out.pickle"), loma_show_progress_bar=False,
    )  # fmt: skip
    return round(cycles)


def rows(layers: tuple[Layer, ...], seconds: float) -> Iterator[tuple[str, ...]]:
    """Yield the table's rows, a layer each, its head first."""
    yield "layer", "bound", "ZigZag", "isamap", "gap", "simulated", "seconds"
    kernel = read_kernel(str(DATA / "conv_out.ir"))
    for layer in layers:
        begun = time.monotonic()
        asked = Request(kernel, str(DATA / "tpu-like.yaml"), layer.sizes, limit_s=seconds, cache=False)
        made = compile_kernel(asked)
        assert made.schedule is not None
        assert made.program is not None
        assert made.machine is not None
        assert made.problem is not None
        simulated = simulate(made.program, made.machine, made.problem).total_ns
        took = time.monotonic() - begun
        theirs = ""
        if find_spec("zigzag") is not None:
            with tempfile.TemporaryDirectory() as folder:
                theirs = f"{zigzag_cycles(layer, Path(folder)):,}"
        cost, gap = made.schedule.cost_ns or 0.0, made.schedule.gap or 0.0
        yield (
            layer.name, f"{layer.bound_cycles:,}", theirs, f"{cost:,.0f}", f"{gap:.1%}", f"{simulated:,.0f}",
            f"{took:.0f}",
        )  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare isamap with ZigZag on tpu_like.")
    parser.add_argument("--seconds", type=float, default=30.0, help="the solver's limit for a layer")
    parser.add_argument(
        "--layer", action="append", help="one of " + ", ".join(layer.name for layer in LAYERS)
    )
    given = parser.parse_args()
    chosen = tuple(layer for layer in LAYERS if given.layer is None or layer.name in given.layer)
    print(align(list(rows(chosen, given.seconds)), right=range(1, 7)))


if __name__ == "__main__":
    main()
