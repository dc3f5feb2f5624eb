"""How far cost model and event simulator are apart on machines with scratchpads, buffers twice and once.

    python benchmarks/simulated.py --machine gemmini --limit 2

Each row is scheduled twice: with everything free, and with every buffer in one copy (all that is filled ahead
and all that is written late fixed to 0). Nothing is timed, so that load changes nothing but what the solver
finds within its limit. With `--schedules FOLDER` schedules are kept there, and those that are there already
are priced and simulated again, so that two states of the model are compared on the same schedules.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from isamap.bench.paired_timing import geometric_mean
from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.plan.decisions import ahead_of, mapping_of, spread_of
from isamap.plan.problem import chosen_options
from isamap.plan.text import print_schedule
from isamap.simulate.events import simulate
from isamap.source import IsamapError, Source

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"
PRODUCTS = (
    "64 64 64",
    "128 128 128",
    "256 256 256",
    "100 130 70",
    "512 512 512",
    "64 1024 256",
    "1024 64 64",
)
# Kernel and sizes, by machines: products that add to sums of 32 bits or leave as bytes, convolutions.
ROWS = {
    "gemm_s8s8": ("M N K", PRODUCTS),
    "gemm_requant": ("M N K", ("64 64 64", "256 256 256", "512 64 512")),
    "conv2d_s8": ("N H W C K R S", ("1 16 16 32 32 3 3", "1 30 30 64 64 3 3", "1 14 14 128 256 1 1")),
    "conv2d_s8_requant": ("N H W C K R S", ("1 30 30 64 64 3 3", "1 16 16 128 128 3 3")),
    "gemm_s8_blocks": (
        "M N K",
        ("16 4 4", "64 8 8", "64 8 32", "128 16 16", "256 4 4", "37 2 3", "512 32 8", "70 4 9"),
    ),
    "conv2d_s8_blocks": (
        "H W C K R S",
        ("16 16 2 2 3 3", "30 30 4 4 3 3", "14 14 8 16 1 1", "9 9 16 16 3 3"),
    ),
}
WHOLE = ("gemm_s8s8", "gemm_requant", "conv2d_s8", "conv2d_s8_requant")
KERNELS = {
    "gemmini": WHOLE,
    "systolic-16": ("gemm_s8s8", "conv2d_s8"),
    "edge-npu": WHOLE,
    "vta": ("gemm_s8_blocks", "conv2d_s8_blocks"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """Units: nanoseconds."""

    label: str
    analytic_ns: float
    simulated_ns: float

    @property
    def ratio(self) -> float:
        """Analytic over simulated."""
        return self.analytic_ns / self.simulated_ns


def main() -> None:
    """A table for each machine, buffers twice and once."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--machine", nargs="*", default=list(KERNELS), choices=list(KERNELS))
    options.add_argument("--limit", type=float, default=2.0, help="seconds for the solver")
    options.add_argument("--schedules", type=Path, help="a folder that keeps schedules")
    words = options.parse_args()
    for machine in words.machine:
        twice: list[Row] = []
        once: list[Row] = []
        print(f"{machine:38}  {'twice µs':>9}  {'ratio':>5}  {'once µs':>9}  {'ratio':>5}", flush=True)
        for kernel, label, sizes in _rows(machine):
            try:
                pair = _both(kernel, machine, label, sizes, words.limit, words.schedules)
            except IsamapError as error:
                print(f"{label:38}  {error.diagnostics[0].message}", flush=True)
                continue
            twice.append(pair[0])
            once.append(pair[1])
            cells = (f"{row.simulated_ns / 1e3:9.1f}  {row.ratio:5.2f}" for row in pair)
            print(f"{label:38}  {'  '.join(cells)}", flush=True)
        print(f"{machine}, buffers twice: {_summary(twice)}; once: {_summary(once)}\n", flush=True)


def _rows(machine: str) -> Iterator[tuple[str, str, dict[str, int]]]:
    for kernel in KERNELS[machine]:
        names, cases = ROWS[kernel]
        for case in cases:
            sizes = dict(zip(names.split(), map(int, case.split()), strict=True))
            yield kernel, f"{kernel} {case.replace(' ', 'x')}", sizes


def _both(
    kernel: str, machine: str, label: str, sizes: dict[str, int], limit_s: float, kept: Path | None
) -> tuple[Row, Row]:
    example = EXAMPLES / f"{kernel}.ir"
    source = read_kernel(str(example) if example.exists() else kernel)
    request = Request(source, machine, sizes, limit_s=limit_s)
    free = _made(request, f"{machine} {label} twice", kept)
    assert free.problem is not None
    fixed: dict[str, int | None] = {}
    assert free.schedule is not None
    for nest, option in chosen_options(free.schedule, free.problem):
        options = next(asked.options for asked in free.problem.nests if asked.statement == nest.statement)
        fixed[mapping_of(nest.statement)] = options.index(option)
        for operand in option.operands:
            name = (spread_of if operand.is_accumulator else ahead_of)(nest.statement, operand.name)
            fixed[name] = 0
    still = _made(replace(request, fixed=fixed), f"{machine} {label} once", kept)
    return _priced(label, free), _priced(label, still)


def _made(request: Request, name: str, kept: Path | None) -> Compilation:
    """Return the compilation, with the schedule that is kept under a name, or is kept there now."""
    path = kept / f"{name}.schedule" if kept is not None else None
    if path is not None and path.exists():
        return compile_kernel(
            replace(request, fixed={}, schedule=Source(path.name, path.read_text()), cache=False)
        )
    made = compile_kernel(request)
    assert made.schedule is not None
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(print_schedule(made.schedule))
    return made


def _priced(label: str, made: Compilation) -> Row:
    assert made.machine and made.schedule and made.problem and made.program  # noqa: PT018 - all stages have run
    simulated = simulate(made.program, made.machine, made.problem)
    return Row(label, made.schedule.cost_ns or 0.0, simulated.total_ns)


def _summary(rows: Sequence[Row]) -> str:
    apart = [max(row.ratio, 1 / row.ratio) for row in rows]
    mean = geometric_mean(apart)
    if mean is None:
        return "no row"
    beyond = sum(each > 1.1 for each in apart)
    worst = max(rows, key=lambda row: max(row.ratio, 1 / row.ratio))
    return f"{mean - 1:.1%} apart, {beyond} of {len(rows)} beyond 10 %, furthest {worst.ratio:.2f}"


if __name__ == "__main__":
    main()
