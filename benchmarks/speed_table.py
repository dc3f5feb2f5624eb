"""Prints the tables of the READMEs out of benchmarks/results/*.json; `--write` brings the READMEs up to date.

    | processor | f32 | bf16 | bytes |
    | AMD Zen 4 | 1.31 × (248 products) | 1.45 × (248 products) | 1.24 × (248 products) |

A figure is the geometric mean of the rows' ratios to the fastest baseline of each row. README.md has a line per
processor, with one thread and warm caches, benchmarks/results/README.md every file.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isamap.bench.paired_timing import geometric_mean

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
START, END = "<!-- speed -->\n", "<!-- /speed -->"
CLASSES = ("n <= 4", "8 <= n <= 64", "n >= 700")
MUCH_SLOWER = 0.9
GEMM = "deepbench gemm"
COLUMNS = {"f32": "f32", "bf16": "bf16", "bytes": "int8"}
NAMES = {"s8s8": "s8·s8", "u8s8": "u8·s8", "bf16_f32": "bf16, results f32"}

Json = dict[str, Any]


def main(words: Sequence[str]) -> int:
    """Exit code 0; 1 where `--check` finds a README that is not what is printed."""
    found = {ROOT / "README.md": short_table(results()), RESULTS / "README.md": full_table(results())}
    for page, table in found.items():
        text = page.read_text(encoding="utf-8")
        if words == ["--write"]:
            page.write_text(with_table(text, table), encoding="utf-8")
        elif words == ["--check"] and with_table(text, table) != text:
            print(
                f"{page}: bring it up to date by `python benchmarks/speed_table.py --write`", file=sys.stderr
            )
            return 1
        elif not words:
            print(table)
    return 0


def results(folder: Path = RESULTS) -> list[Json]:
    """Return what is kept, in the order of the tables."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    newest: dict[str, str] = {}
    for file in files:
        dates = [run["date"] for run in file["runs"]]
        newest[file["processor"]] = max(newest.get(file["processor"], ""), *dates)
    order = [(newest[f["processor"]], f["processor"], f["threads"] == 1) for f in files]
    return [
        file for _, file in sorted(zip(order, files, strict=True), key=lambda pair: pair[0], reverse=True)
    ]


def short_table(files: Sequence[Json]) -> str:
    """Return a line per processor, with its run of the most products in each type: one thread, warm caches."""
    most: dict[str, dict[str, list[Json]]] = {}
    for f in files:
        form = _headline(f)
        if form and (f["suite"], f["threads"], f["cache"], f["packed"]) == (GEMM, 1, "warm", False):
            runs, rows = most.setdefault(f["processor"], {}), _rows(f, form)
            runs[f["dtype"]] = max(runs.get(f["dtype"], []), rows, key=len)
    lines = [(name, *(_cell(runs.get(t, ())) for t in COLUMNS.values())) for name, runs in most.items()]
    return _table(("processor", *COLUMNS), lines)


def _cell(rows: Sequence[Json]) -> str:
    """Return a mean with the products that it is of; nothing where none was measured."""
    return f"{_mean(rows)} × ({len(rows)} products)" if rows else ""


def full_table(files: Sequence[Json]) -> str:
    """Return a line per file and form that has a baseline, with the classes of its rows and the commits."""
    lines: list[Sequence[str]] = []
    for f in files:
        for form in _forms(f):
            rows = _rows(f, form)
            processor, machine, types = _place(f, form)
            how = [f["suite"].removeprefix(GEMM), f"{f['threads']} threads" if f["threads"] > 1 else ""]
            how += [
                "ring of buffers" if f["cache"] == "rotate" else "",
                "packed before" if f["packed"] else "",
            ]
            types = ", ".join([types, *filter(None, how)])
            means = [_mean([row for row in rows if row.get("class_name") == name]) for name in CLASSES]
            runs = ", ".join(sorted({f"{run['date']} {run['commit']}" for run in f["runs"]}, reverse=True))
            lines.append((processor, machine, types, _speed(rows), *means, "; ".join(_said(rows)), runs))
    classes = [name.replace("<=", "≤").replace(">=", "≥") for name in CLASSES]
    return _table(("processor", "machine", "types", "isamap is", *classes, "over", "commits"), lines)


def with_table(text: str, table: str) -> str:
    """Return a page with the table between its marks."""
    before, rest = text.split(START, maxsplit=1)
    return before + START + table + "\n" + END + rest.split(END, maxsplit=1)[1]


def _headline(file: Json) -> str | None:
    """Return the form with the most rows that have a baseline; the first of equals."""
    counts = Counter(row["form"] for row in file["rows"] if _ratio(row))
    return max(_forms(file), key=lambda form: counts[form], default=None)


def _forms(file: Json) -> list[str]:
    return list(dict.fromkeys(row["form"] for row in file["rows"] if _ratio(row)))


def _rows(file: Json, form: str) -> list[Json]:
    return [row for row in file["rows"] if row["form"] == form and _ratio(row)]


def _place(file: Json, form: str) -> tuple[str, str, str]:
    return file["processor"], f"`{file['machine']}`", NAMES.get(form, form)


def _speed(rows: Sequence[Json]) -> str:
    return f"{_mean(rows)} × as fast"


def _said(rows: Sequence[Json]) -> list[str]:
    """Return what the mean is of, how many rows are much slower, and how near the machine's limit they are."""
    names = sorted({name for row in rows for name in row["ratio"]})
    beside = f"the fastest of {', '.join(names)}" if len(names) > 1 else names[0]
    slow = [value for row in rows if (value := _ratio(row)) and value < MUCH_SLOWER]
    said = [f"{len(rows)} products beside {beside}"]
    said.append(f"below 0.9 in {len(slow)} ({min(slow):.2f} the least)" if slow else "below 0.9 in none")
    large = [row.get("roofline_fraction") for row in rows if row["n"] >= 128 and row["m"] >= 64]
    if mean := geometric_mean(value for value in large if value):
        said.append(f"at {100 * mean:.0f} % of the roofline where n ≥ 128")
    return said


def _mean(rows: Sequence[Json]) -> str:
    mean = geometric_mean(value for row in rows if (value := _ratio(row)))
    return f"{mean:.2f}" if mean else ""


def _ratio(row: Json) -> float | None:
    """To the fastest baseline of the row; None without any."""
    known = {name: rate for name, rate in row["gflops"].items() if name in row["ratio"]}
    return row["ratio"][max(known, key=lambda name: known[name])]["value"] if known else None


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
