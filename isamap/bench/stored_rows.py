"""The stored result of one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from isamap.source.records import asdict, dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Row:
    """One case in one form with the times of all contenders.

    Units: `seconds` per call and round, by contender; `compile_seconds` of isamap; `attainable_seconds` the
    roofline; `predicted_ns` by the cost model, for each set of figures; `dispatch_ns` what a framework takes
    to get to its function at all. `sizes` are those of the suite, `bound_by` says which roof is lower.
    `left_out` says why there are no times. `again` are the ratios of a second run, which rows get that came
    out slower. `reading_bytes_per_ns` is at what the weights alone were read in the same rounds, 0 if that
    was not measured.
    """

    case: int
    suite: str
    kind: str
    label: str
    class_name: str
    sizes: Mapping[str, int]
    form: str
    operations: int
    beta: int = 0
    threads: int = 1
    cache: str = "warm"
    packed: bool = False
    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    implementation: Mapping[str, str] = field(default_factory=dict[str, str])
    in_c: Mapping[str, bool] = field(default_factory=dict[str, bool])
    verified: Mapping[str, bool] = field(default_factory=dict[str, bool])
    ratio: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    again: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    attainable_seconds: float = 0.0
    bound_by: str = ""
    predicted_ns: Mapping[str, float] = field(default_factory=dict[str, float])
    compile_seconds: float = 0.0
    ring: int = 1
    dispatch_ns: Mapping[str, float] = field(default_factory=dict[str, float])
    left_out: str = ""
    reading_bytes_per_ns: float = 0.0

    @property
    def key(self) -> str:
        """The name of the row in a file that is resumed; a suite may list a shape twice."""
        how = f"beta={self.beta} threads={self.threads} {self.cache}{' packed' if self.packed else ''}"
        return f"{self.suite} {self.kind} {self.case} {self.label} {self.form} {how}"

    @property
    def measured_ns(self) -> float | None:
        """The least time of a call of ours over all rounds; None if there is none. Units: nanoseconds."""
        return 1e9 * min(self.seconds["isamap"]) if "isamap" in self.seconds else None

    @property
    def best_baseline(self) -> str | None:
        """The baseline that takes least time, of those whose results are right."""
        known = {n: median(s) for n, s in self.seconds.items() if n != "isamap" and self.verified.get(n)}
        return min(known, key=lambda name: known[name]) if known else None

    def as_json(self) -> dict[str, Any]:
        """Return the row as JSON, with derived values, and each size of the suite by its name."""
        middle = {name: median(times) for name, times in self.seconds.items()}
        return {
            **self.sizes,
            **asdict(self),
            "seconds": {n: {"min": min(t), "median": middle[n]} for n, t in self.seconds.items()},
            "rounds_seconds": {n: list(t) for n, t in self.seconds.items()},
            "gflops": {n: self.operations / t / 1e9 for n, t in middle.items()},
            "measured_ns": self.measured_ns,
            "roofline_fraction": self.attainable_seconds / middle["isamap"] if "isamap" in middle else None,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Row:
        """Return the row that `as_json` gave."""
        kept = {f.name: data[f.name] for f in fields(Row)}
        kept["seconds"] = {name: tuple(times) for name, times in data["rounds_seconds"].items()}
        return Row(**kept)


def classes_of(rows: Sequence[Row]) -> list[str]:
    """Return the classes of some rows, those that compute least first."""
    least: dict[str, int] = {}
    for row in rows:
        least[row.class_name] = min(row.operations, least.get(row.class_name, row.operations))
    return sorted(least, key=lambda name: least[name])
