"""The roofline of a schedule: the peak of its instruction, the bandwidth of each level, and its position.

level   bytes    operations per byte  bandwidth  allows
l2      3.7 MiB  3.1                  68 B/ns    211 GOP/s

An operation is one multiplication or addition. The bytes are those that the model counts from each level, so
that a point lies where the model sees it. Source: Williams, Waterman, Patterson, Roofline, CACM 52, 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from isamap.plan.problem import NestOption, Problem
from isamap.plan.schedule import Schedule
from isamap.plan.time_shares import NestTime
from isamap.report.columns import Row, bytes_text
from isamap.source.records import dataclass

OPERATIONS_PER_STEP = 2


@dataclass(frozen=True, slots=True)
class Slope:
    """A level of memory. Units: bytes per nanosecond, bytes that the schedule moves from it."""

    level: str
    bandwidth_bytes_per_ns: float
    moved_bytes: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """One statement under the roofs of its machine. Units: operations per nanosecond, which are GOP/s."""

    statement: int
    instruction: str
    operations: int
    reached_per_ns: float
    peak_per_ns: float
    slopes: tuple[Slope, ...]

    def intensity(self, slope: Slope) -> float | None:
        """Return operations per byte from a level; None if nothing comes from it."""
        return self.operations / slope.moved_bytes if slope.moved_bytes > 0 else None

    def allowed_per_ns(self, slope: Slope) -> float:
        """Return the rate that a level's bandwidth and the peak allow."""
        intensity = self.intensity(slope)
        if intensity is None:
            return self.peak_per_ns
        return min(self.peak_per_ns, intensity * slope.bandwidth_bytes_per_ns)


def rooflines(schedule: Schedule, problem: Problem, times: Sequence[NestTime | None]) -> tuple[Roofline, ...]:
    """Return a roofline for each statement that computes on a unit, if its model reports traffic by level."""
    nests = {nest.statement: nest for nest in schedule.nests}
    found: list[Roofline] = []
    for question, time in zip(problem.nests, times, strict=True):
        nest = nests.get(question.statement)
        if nest is None or time is None or not time.shares or time.total_ns <= 0:
            continue
        option = next(o for o in question.options if o.mapping == nest.mapping)
        if option.interval_ns > 0:
            found.append(_roofline(option, question.iterations, time, problem))
    return tuple(found)


def _roofline(option: NestOption, iterations: int, time: NestTime, problem: Problem) -> Roofline:
    operations = OPERATIONS_PER_STEP * iterations * prod(axis.extent for axis in option.axes)
    each = OPERATIONS_PER_STEP * prod(axis.tile for axis in option.axes)
    sums = time.sums()
    levels = [(cache.name, cache.bandwidth_bytes_per_ns) for cache in problem.caches[1:]]
    if problem.caches:
        levels.append(("memory", problem.memory_bandwidth_bytes_per_ns))
    slopes = tuple(
        Slope(name, bandwidth, sums.get(f"from {name}", 0.0) * bandwidth) for name, bandwidth in levels
    )
    reached, peak = operations / time.total_ns, each / option.interval_ns
    return Roofline(time.statement, option.mapping.split()[0], operations, reached, peak, slopes)


def roofline_rows(roofline: Roofline) -> list[Row]:
    """Return the levels as a table's rows, the header first."""
    rows: list[Row] = [("level", "bytes", "operations per byte", "bandwidth", "allows")]
    for slope in roofline.slopes:
        intensity = roofline.intensity(slope)
        rows.append(
            (
                slope.level,
                bytes_text(round(slope.moved_bytes)),
                "-" if intensity is None else f"{intensity:.3g}",
                f"{slope.bandwidth_bytes_per_ns:.3g} B/ns",
                f"{rate_text(roofline.allowed_per_ns(slope))} GOP/s",
            )
        )
    return rows


def roofline_sentence(roofline: Roofline) -> str:
    """Return the reached share of the peak: `201 of 229 GOP/s of fma_zmm_f32, 88 %`."""
    share = 100 * roofline.reached_per_ns / roofline.peak_per_ns
    reached, peak = rate_text(roofline.reached_per_ns), rate_text(roofline.peak_per_ns)
    return f"{reached} of {peak} GOP/s of {roofline.instruction}, {share:.0f} %"


def rate_text(per_ns: float) -> str:
    """Return a rate with three digits at least: `6.43`, `151`, `2048`."""
    return f"{per_ns:.0f}" if per_ns >= 100 else f"{per_ns:.3g}"


def roofline_json(roofline: Roofline) -> dict[str, object]:
    """Return the roofline as JSON."""
    return {
        "statement": roofline.statement,
        "instruction": roofline.instruction,
        "operations": roofline.operations,
        "reached_gops": roofline.reached_per_ns,
        "peak_gops": roofline.peak_per_ns,
        "levels": [
            {
                "level": slope.level,
                "bandwidth_bytes_per_ns": slope.bandwidth_bytes_per_ns,
                "moved_bytes": slope.moved_bytes,
                "operations_per_byte": roofline.intensity(slope),
                "allowed_gops": roofline.allowed_per_ns(slope),
            }
            for slope in roofline.slopes
        ],
    }
