"""Summarise rows: geometric means of the paired ratios per class, slower rows, and the roofline.

summarise(rows)["overall"] -> {"torch": 1.31, "best": 1.27}

The module also formats rows as a table and as CSV.

row  m x n x k        form  isamap GFLOP/s  torch  ratio                   of roofline
  3  1760x128x1760 NN  f32           201.3  176.4  1.14 (1.10 .. 1.19)            88 %
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from textwrap import wrap

from isamap.bench.kept_rows import Row, classes_of
from isamap.bench.paired_timing import WIDE, Ratio, geometric_mean
from isamap.bench.predictions import FIGURES, Agreement, agreements
from isamap.report.columns import align
from isamap.source.records import dataclass

MUCH_SLOWER = 0.9


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of one form's rows. Ratios are a baseline's time over ours, as geometric means of medians.

    `best` is against the fastest baseline of each row. `much_slower` are rows whose whole interval is below
    0.9 of it, `wide` those whose interval is too wide to act upon.
    """

    form: str
    count: int
    left_out: int
    overall: Mapping[str, float]
    per_class: Mapping[str, Mapping[str, float]]
    slower: int
    much_slower: tuple[str, ...]
    wide: tuple[str, ...]
    roofline_fraction: float | None
    predictions: tuple[Agreement, ...]

    def as_json(self) -> dict[str, object]:
        """Return the summary as JSON."""
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
    """Return one summary per form, in the order of the rows."""
    forms = dict.fromkeys(row.form for row in rows)
    return tuple(_of_form(form, [row for row in rows if row.form == form]) for form in forms)


def _of_form(form: str, rows: Sequence[Row]) -> Summary:
    timed = [row for row in rows if "isamap" in row.seconds]
    best = [(row, found) for row in timed if (found := _interval_to_best(row)) is not None]
    return Summary(
        form,
        len(timed),
        len(rows) - len(timed),
        _means(timed),
        {name: _means([row for row in timed if row.class_name == name]) for name in classes_of(timed)},
        sum(interval.is_slower for _, interval in best),
        tuple(row.label for row, interval in best if interval.high < MUCH_SLOWER),
        tuple(row.label for row, interval in best if interval.is_wide),
        geometric_mean(_fraction(row) for row in timed if row.bound_by == "arithmetic"),
        agreements(timed),
    )


def ratio_to_best(row: Row) -> float | None:
    """Return the ratio to the fastest baseline, or None without a baseline."""
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
    best = geometric_mean(value for row in rows if (value := ratio_to_best(row)) is not None)
    return found | ({"best": best} if best is not None else {})


def _fraction(row: Row) -> float:
    return row.attainable_seconds / median(row.seconds["isamap"])


SHORT_S = 50e-6
NOTHING: Mapping[str, float] = {}


def rows_table(rows: Sequence[Row], heading: str) -> str:
    """Return one line per row, with `heading` above their labels. Omitted rows have a reason."""
    names = list(dict.fromkeys(name for row in rows for name in row.seconds if name != "isamap"))
    head = (
        "row",
        heading,
        "form",
        "isamap GOP/s",
        *(f"{n} GOP/s" for n in names),
        *(f"ratio to {n}" for n in names),
    )
    lines: list[Sequence[str]] = [(*head, "of roofline", "bound by", "predicted / measured")]
    lines += [_line(row, names) for row in rows if "isamap" in row.seconds]
    found = align(lines, right=(0, 3, *range(4, 4 + len(names))))
    left_out = list(_left_out(rows))
    left_out += [
        f"{row.case:4}  {row.label} {row.form}: the result of {name} is wrong"
        for row in rows
        for name, right in row.verified.items()
        if not right and name != "isamap"
    ]
    return "\n".join([found, *(["", "left out:", *left_out] if left_out else [])])


def _left_out(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows without times. Rows with the same reason are listed by position."""
    for reason in dict.fromkeys(row.left_out for row in rows if row.left_out):
        first, *others = [row for row in rows if row.left_out == reason]
        if not others:
            yield f"{first.case:4}  {first.label} {first.form}: {reason}"
            continue
        yield f"{1 + len(others)} rows: {reason}"
        for form in dict.fromkeys(row.form for row in (first, *others)):
            named = ", ".join(str(row.case) for row in (first, *others) if row.form == form)
            yield from wrap(f"{form} {named}", 100, initial_indent="      ", subsequent_indent="      ")


def _line(row: Row, names: Sequence[str]) -> Sequence[str]:
    rate = {name: f"{row.operations / median(times) / 1e9:.1f}" for name, times in row.seconds.items()}
    fraction = row.attainable_seconds / median(row.seconds["isamap"])
    ratios = [_ratio(row, name) for name in names]
    return (str(row.case), row.label, row.form, rate["isamap"], *(rate.get(n, "-") for n in names), *ratios,
            f"{fraction:.0%}", row.bound_by, _prediction(row))  # fmt: skip


def _prediction(row: Row) -> str:
    """Return the predictions by stated parameters and, if there are any, by calibrated ones."""
    measured = row.measured_ns
    return " / ".join(f"{ns / measured:.2f}" for ns in row.predicted_ns.values()) if measured else ""


def _ratio(row: Row, name: str) -> str:
    if name not in row.ratio:
        return "wrong" if row.verified.get(name) is False else "-"
    first = row.ratio[name]
    said = f"{first['value']:.2f} ({first['low']:.2f}..{first['high']:.2f})"
    said += " wide" if Ratio(**first).is_wide else ""
    return (
        f"{said}, again {row.again[name]['value']:.2f}" if name in row.again and first["high"] < 1 else said
    )


def summary_text(summaries: Sequence[Summary]) -> str:
    """Return the means per class and overall, and the slower rows."""
    lines: list[str] = []
    for s in summaries:
        names = list(s.overall)
        body = [
            ("", "rows", *names),
            *_classes(s, names),
            (f"{s.form}, all", str(s.count), *_cells(s.overall, names)),
        ]
        lines.append(align(body, right=range(1, 2 + len(names))))
        lines.append(
            f"slower than the fastest baseline, whole interval: {s.slower} of {s.count}; below 0.9 of it: "
            + _join_labels(s.much_slower)
        )
        lines.append(f"intervals wider than {WIDE:.0%} either way: {_join_labels(s.wide)}")
        if s.roofline_fraction is not None:
            lines.append(f"of the roofline, rows that arithmetic bounds: {s.roofline_fraction:.0%}")
        lines += [agreement.text() for agreement in s.predictions]
        lines.append("")
    return "\n".join(lines).rstrip()


def _join_labels(labels: Sequence[str]) -> str:
    return f"{len(labels)}" + (f" ({', '.join(labels[:8])})" if labels else "")


def _classes(s: Summary, names: Sequence[str]) -> list[tuple[str, ...]]:
    return [(name, "", *_cells(means, names)) for name, means in s.per_class.items()]


def _cells(means: Mapping[str, float], names: Sequence[str]) -> list[str]:
    return [f"{means[name]:.2f}" if name in means else "-" for name in names]


def dispatch_text(rows: Sequence[Row]) -> str:
    """Return text about baselines whose call overhead can matter, because their loops are not in C, or ""."""
    short = [
        (row, name)
        for row in rows
        for name, times in row.seconds.items()
        if not row.in_c.get(name, True) and median(times) < SHORT_S
    ]
    if not short:
        return ""
    names = ", ".join(sorted({name for _, name in short}))
    dispatch = median(row.dispatch_ns.get(name, 0.0) for row, name in short)
    count = len({row.key for row, _ in short})
    said = f"{dispatch / 1000:.1f} µs of it to get from Python to the function"
    return f"{count} rows take {names} under 50 µs, {said}"


HEAD = (
    *("row", "suite", "label", "form", "beta", "packed", "threads", "cache", "contender"),
    *("implementation", "min_seconds", "median_seconds", "gflops", "ratio", "ratio_low", "ratio_high"),
    *("verified", "left_out", *(f"predicted_{figures}_ns" for figures in FIGURES)),
)


def rows_csv(rows: Sequence[Row]) -> str:
    """Return the rows as CSV, one line per row and contender."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for row in rows:
        what = (row.case, row.suite, row.label, row.form, row.beta, int(row.packed))
        for name in row.seconds or ("isamap",):
            how = (row.threads, row.cache, name, row.implementation.get(name, ""))
            own = row.predicted_ns if name == "isamap" else NOTHING
            end = (row.verified.get(name, ""), row.left_out, *(_ns(own.get(f)) for f in FIGURES))
            writer.writerow([*what, *how, *_times(row, name), *_interval(row, name), *end])
    return text.getvalue()


def _ns(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _times(row: Row, name: str) -> tuple[str, ...]:
    if name not in row.seconds:
        return ("", "", "")
    middle = median(row.seconds[name])
    return f"{min(row.seconds[name]):.4e}", f"{middle:.4e}", f"{row.operations / middle / 1e9:.2f}"


def _interval(row: Row, name: str) -> tuple[str, ...]:
    ratio = row.ratio.get(name)
    return tuple(f"{ratio[x]:.4f}" for x in ("value", "low", "high")) if ratio else ("", "", "")
