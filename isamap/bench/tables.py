"""The rows as a table for people, and as CSV.

row  m x n x k        form  isamap GFLOP/s  torch  ratio                   of roofline
  3  1760x128x1760 NN  f32           201.3  176.4  1.14 (1.10 .. 1.19)            88 %
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from statistics import median

from isamap.bench.predictions import FIGURES
from isamap.bench.rows import Row
from isamap.bench.statistics import WIDE, Ratio
from isamap.bench.summary import Summary
from isamap.report.columns import table

SHORT_S = 50e-6
NOTHING: Mapping[str, float] = {}


def rows_table(rows: Sequence[Row]) -> str:
    """One line per row; what was left out says why."""
    names = list(dict.fromkeys(name for row in rows for name in row.seconds if name != "isamap"))
    head = (
        "row",
        "m x n x k",
        "form",
        "isamap GOP/s",
        *(f"{n} GOP/s" for n in names),
        *(f"ratio to {n}" for n in names),
    )
    lines: list[Sequence[str]] = [(*head, "of roofline", "predicted / measured")]
    lines += [_line(row, names) for row in rows if "isamap" in row.seconds]
    found = table(lines, right=(0, 3, *range(4, 4 + len(names))))
    left_out = [f"{row.case:4}  {row.label} {row.form}: {row.left_out}" for row in rows if row.left_out]
    return "\n".join([found, *(["", "left out:", *left_out] if left_out else [])])


def _line(row: Row, names: Sequence[str]) -> Sequence[str]:
    rate = {name: f"{row.operations / median(times) / 1e9:.1f}" for name, times in row.seconds.items()}
    fraction = row.attainable_seconds / median(row.seconds["isamap"])
    ratios = [_ratio(row, name) for name in names]
    return (str(row.case), row.label, row.form, rate["isamap"], *(rate.get(n, "-") for n in names), *ratios,
            f"{fraction:.0%}", _prediction(row))  # fmt: skip


def _prediction(row: Row) -> str:
    """By stated figures and, where there are some, by calibrated ones."""
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
    """Means per class and overall, and what came out slower."""
    lines: list[str] = []
    for s in summaries:
        names = list(s.overall)
        body = [
            ("", "rows", *names),
            *_classes(s, names),
            (f"{s.form}, all", str(s.count), *_cells(s.overall, names)),
        ]
        lines.append(table(body, right=range(1, 2 + len(names))))
        lines.append(
            f"slower than the fastest baseline, whole interval: {s.slower} of {s.count}; below 0.9 of it: "
            + _listed(s.much_slower)
        )
        lines.append(f"intervals wider than {WIDE:.0%} either way: {_listed(s.wide)}")
        if s.roofline_fraction is not None:
            lines.append(f"of the roofline, n >= 128 and m >= 64: {s.roofline_fraction:.0%}")
        lines += [agreement.text() for agreement in s.predictions]
        lines.append("")
    return "\n".join(lines).rstrip()


def _listed(labels: Sequence[str]) -> str:
    return f"{len(labels)}" + (f" ({', '.join(labels[:8])})" if labels else "")


def _classes(s: Summary, names: Sequence[str]) -> list[tuple[str, ...]]:
    return [(name, "", *_cells(means, names)) for name, means in s.per_class.items()]


def _cells(means: dict[str, float], names: Sequence[str]) -> list[str]:
    return [f"{means[name]:.2f}" if name in means else "-" for name in names]


def dispatch_text(rows: Sequence[Row]) -> str:
    """Which baselines' loops are not C, where their way to the function can matter; nothing otherwise."""
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
    *("row", "suite", "m", "n", "k", "layout", "form", "beta", "packed", "threads", "cache", "contender"),
    *("implementation", "min_seconds", "median_seconds", "gflops", "ratio", "ratio_low", "ratio_high"),
    *("verified", "left_out", *(f"predicted_{figures}_ns" for figures in FIGURES)),
)


def rows_csv(rows: Sequence[Row]) -> str:
    """One line per row and contender."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for row in rows:
        what = (
            row.case,
            row.suite,
            row.m,
            row.n,
            row.k,
            row.label.split()[-1],
            row.form,
            row.beta,
            int(row.packed),
        )
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
