"""What the rows come to: geometric means of the paired ratios per class, rows that are slower, the roofline.

summarise(rows)["overall"]  ->  {"torch": 1.31, "best": 1.27}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from isamap.bench.cases import CLASSES
from isamap.bench.predictions import Agreement, agreements
from isamap.bench.rows import Row
from isamap.bench.statistics import Ratio, geometric_mean

MUCH_SLOWER = 0.9


@dataclass(frozen=True, slots=True)
class Summary:
    """Of the rows of one form. Ratios are a baseline's time over ours, geometric means of medians.

    `best` is against the fastest baseline of each row. `much_slower` are rows whose whole interval is below
    0.9 of it, `wide` those whose interval is too wide to act upon.
    """

    form: str
    count: int
    left_out: int
    overall: dict[str, float]
    per_class: dict[str, dict[str, float]]
    slower: int
    much_slower: tuple[str, ...]
    wide: tuple[str, ...]
    roofline_fraction: float | None
    predictions: tuple[Agreement, ...]

    def as_json(self) -> dict[str, object]:
        """The summary as JSON."""
        return {
            "form": self.form,
            "rows": self.count,
            "left_out": self.left_out,
            "geometric_mean": self.overall,
            "per_class": self.per_class,
            "slower": self.slower,
            "below_0.9": list(self.much_slower),
            "wide_intervals": list(self.wide),
            "roofline_fraction": self.roofline_fraction,
            "predictions": [agreement.as_json() for agreement in self.predictions],
        }


def summarise(rows: Sequence[Row]) -> tuple[Summary, ...]:
    """One summary per form, in the order of the rows."""
    forms = dict.fromkeys(row.form for row in rows)
    return tuple(_of_form(form, [row for row in rows if row.form == form]) for form in forms)


def _of_form(form: str, rows: Sequence[Row]) -> Summary:
    timed = [row for row in rows if "isamap" in row.seconds]
    classes = [name for name in CLASSES if any(row.class_name == name for row in timed)]
    best = [(row, found) for row in timed if (found := _interval_to_best(row)) is not None]
    return Summary(
        form,
        len(timed),
        len(rows) - len(timed),
        _means(timed),
        {name: _means([row for row in timed if row.class_name == name]) for name in classes},
        sum(interval.is_slower for _, interval in best),
        tuple(row.label for row, interval in best if interval.high < MUCH_SLOWER),
        tuple(row.label for row, interval in best if interval.is_wide),
        geometric_mean(_fraction(row) for row in timed if row.n >= 128 and row.m >= 64),
        agreements(timed),
    )


def against_best(row: Row) -> float | None:
    """The ratio to the fastest baseline; None without any."""
    found = _interval_to_best(row)
    return found.value if found else None


def _interval_to_best(row: Row) -> Ratio | None:
    name = row.best_baseline
    return Ratio(**row.ratio[name]) if name else None


def _means(rows: Sequence[Row]) -> dict[str, float]:
    found: dict[str, float] = {}
    names = dict.fromkeys(name for row in rows for name in row.ratio)
    for name in names:
        mean = geometric_mean(row.ratio[name]["value"] for row in rows if name in row.ratio)
        if mean is not None:
            found[name] = mean
    best = geometric_mean(value for row in rows if (value := against_best(row)) is not None)
    return found | ({"best": best} if best is not None else {})


def _fraction(row: Row) -> float:
    return row.attainable_seconds / median(row.seconds["isamap"])
