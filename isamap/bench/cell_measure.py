"""One recurrent layer measured: compiled, prepared by all, verified step by step, and timed in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from time import perf_counter

import numpy as np

from isamap.bench.ceilings import Bandwidths, Peaks, attainable_seconds, mapped_tile
from isamap.bench.cells import (
    CellCase,
    CellRow,
    cell_kernel,
    cell_source,
    cell_values,
    empty_row,
    kernel_name,
)
from isamap.bench.contender import Contender
from isamap.bench.measure import program_of
from isamap.bench.predictions import predicted_ns
from isamap.bench.ring import CellTask, Shared
from isamap.bench.turns import play, ratio
from isamap.driver.deviation import find_deviation
from isamap.driver.oracle import expect
from isamap.driver.request import BEST_FORM, Request
from isamap.driver.runnable import Prepared, prepare
from isamap.ir import Kernel, iterations_apart
from isamap.tune.profile import Profile

ROUNDED_GATES = 2.0**-4
"""So much of the largest value, or of 1, a step may be off whose gates are rounded to bf16."""


@dataclass(frozen=True, slots=True)
class CellRules:
    """How rows are measured. Units: `seconds` of a row's turns, `limit_s` of the solver."""

    machine: str
    threads: int
    seconds: float
    limit_s: float
    loops: str
    profile: Profile | None = None


def measure_cell(
    case: CellCase,
    form: str,
    rules: CellRules,
    contenders: Sequence[Contender],
    peaks: Peaks,
    bandwidths: Bandwidths,
) -> CellRow:
    """The row. Raises: IsamapError."""
    row, kernel = empty_row(case, form, rules.threads), cell_kernel(case, form)
    started = perf_counter()
    prepared = prepare(
        Request(
            cell_source(case, form), rules.machine, case.sizes, limit_s=rules.limit_s, transform=BEST_FORM,
            threads=rules.threads, profile=rules.profile,
        )
    )  # fmt: skip
    row = replace(row, compile_seconds=perf_counter() - started)
    with Shared(cell_values(kernel, form), "Y", 1) as shared:
        program = program_of(prepared, shared, rules.threads)
        task = CellTask(kernel_name(case, form), form, shared.places, rules.loops, program)
        present = [c for c in contenders if c.prepare(task)]
        verified = {c.name: is_right(c, kernel, form, shared) for c in present}
        row = replace(row, verified=verified, implementation={c.name: c.implementation for c in present})
        if not verified.get("isamap"):
            return replace(row, left_out="isamap's result is wrong")
        seconds = play([c for c in present if verified[c.name]], rules.seconds, shared)
    ratios = {n: asdict(ratio(seconds["isamap"], t)) for n, t in seconds.items() if n != "isamap"}
    least, bound_by = _roof(prepared, case, form, rules, peaks, bandwidths)
    return replace(
        row,
        seconds=seconds,
        ratio=ratios,
        attainable_seconds=least,
        bound_by=bound_by,
        predicted_ns=predicted_ns(prepared),
    )


def is_right(contender: Contender, kernel: Kernel, form: str, shared: Shared) -> bool:
    """One call, each step of which is compared with what the state before it makes."""
    found = shared.arrays["Y"][0]
    found[...] = np.nan
    contender.time(1)
    arrays = {name: copies[0] for name, copies in shared.arrays.items()}
    apart = iterations_apart(kernel)
    assert apart is not None, "shipped cells show their state"
    given = {name: arrays[output] for name, output in apart.shown.items()}
    wanted = expect(apart.kernel, {**arrays, **given}, {}, "random")["Y"]
    if contender.name != "isamap" and form != "f32":
        more = ROUNDED_GATES * max(1.0, float(np.max(np.abs(wanted.values))))
        wanted = replace(wanted, bound=wanted.bound + more)
    return find_deviation(found, wanted).ratio <= 1


def _roof(
    prepared: Prepared, case: CellCase, form: str, rules: CellRules, peaks: Peaks, bandwidths: Bandwidths
) -> tuple[float, str]:
    """The least time by the two roofs, and which of them it is; recurrent weights are read in each step."""
    made = prepared.program.compilation
    size = 2 if form == "bf16" else 4
    weights = case.gates * case.hidden**2 * size
    traffic = weights * (case.steps + 1) + 2 * case.steps * case.batch * case.hidden * size
    peak = peaks.of(mapped_tile(made), made)
    roofs = {
        "products": attainable_seconds(case.operations, peak, 0, 2 * weights, bandwidths, rules.threads),
        "reading": attainable_seconds(0, peak, traffic, weights, bandwidths, rules.threads),
    }
    bound_by = max(roofs, key=lambda name: roofs[name])
    return roofs[bound_by], bound_by
