"""Keeps what `isamap bench deepbench gemm -o FOLDER` measured in benchmarks/results, the newest of each row.

    python benchmarks/keep.py FOLDER --processor "AMD Zen 4"
    python benchmarks/keep.py table.txt --processor "AMD Zen 4" --date 2026-11-26 --commit a098f5f

There is one file for each processor, machine, element type, number of threads, state of the caches and
packing. Its rows are those of `isamap bench --json`, one a line, without the times of single rounds;
`run` says which of the file's `runs` (date, commit, environment) measured a row. A row that is there
already is replaced. A printed table has rates, ratios and the fraction of the roofline, and so have the
rows that are read from it. Then

    python benchmarks/speed_table.py --write

brings the tables of the READMEs up to date.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from isamap.bench.product_cases import FORMS_OF_DTYPE, GemmCase, gemm_cases

RESULTS = Path(__file__).resolve().parent / "results"
SCHEMA = "isamap.bench/1"
DTYPES = {form.name: dtype for dtype, forms in FORMS_OF_DTYPE.items() for form in forms}
HEAD = ("suite", "processor", "machine", "dtype", "threads", "cache", "packed")

TITLE = re.compile(
    r"DeepBench GEMM on (?P<machine>\S+), beta (?P<beta>[01]), (?P<cache>\w+), (?P<threads>\d+) threads?"
    r"(?P<packed>, weights packed before)?$"
)
PLACE = re.compile(r"(?P<cpu>.+), cores \[(?P<cores>[\d, ]+)\](?P<virtual>, a virtual machine)?$")
RATIO = re.compile(
    r"(?P<value>[\d.]+) \((?P<low>[\d.]+)\.\.(?P<high>[\d.]+)\)(?:, again (?P<again>[\d.]+))?$"
)

Json = dict[str, Any]


def main(words: Sequence[str] | None = None) -> int:
    """Exit code 0; the names of the files that were written go to standard output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "sources", nargs="+", type=Path, help="folders of -o, or printed tables; oldest first"
    )
    parser.add_argument("--processor", required=True, help="the processor's name in the tables: AMD Zen 4")
    parser.add_argument("--date", help="of the run, YYYY-MM-DD; that of the file unless given")
    parser.add_argument("--commit", help="that ran; the one that is checked out unless given")
    parser.add_argument("--note", default="", help="what a reader has to know of the run")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    given = parser.parse_args(words)
    for source in given.sources:
        date = given.date or datetime.fromtimestamp(source.stat().st_mtime, UTC).date().isoformat()
        run = {"date": date, "commit": given.commit or _head()}
        for environment, rows in read(source):
            kept = run | {"from": "table" if source.is_file() else "rows", "note": given.note}
            for name in keep(given.output, given.processor, kept | {"environment": environment}, rows):
                print(name)
    return 0


def read(source: Path) -> Iterator[tuple[Json, list[Json]]]:
    """Yield what a folder of `-o` holds, or each table of a text: where it was measured, and the rows."""
    if source.is_file():
        yield from read_tables(source.read_text(encoding="utf-8"))
        return
    environment = json.loads((source / "environment.json").read_text(encoding="utf-8"))
    lines = (source / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    yield (
        environment,
        [{k: v for k, v in json.loads(line).items() if k != "rounds_seconds"} for line in lines],
    )


def keep(folder: Path, processor: str, run: Json, rows: Sequence[Json]) -> list[str]:
    """Return the names of the files that now have the rows, as the newest of their case, form and beta."""
    machine = run["environment"]["machine"]
    files: dict[tuple[Any, ...], list[Json]] = {}
    for row in rows:
        key = ("deepbench gemm", processor, machine, DTYPES[row["form"]])
        files.setdefault((*key, row["threads"], row["cache"], row["packed"]), []).append(row)
    for key, new in files.items():
        head: Json = dict(zip(HEAD, key, strict=True))
        path = folder / file_name(head)
        empty: Json = {"runs": [], "rows": []}
        old: Json = json.loads(path.read_text(encoding="utf-8")) if path.exists() else empty
        runs: list[Json] = [*old["runs"], run]
        found: dict[Any, Json] = {_key(row): row for row in old["rows"]}
        found |= {_key(row): row | {"run": len(runs) - 1} for row in new}
        path.write_text(text_of(head, runs, sorted(found.values(), key=_key)), encoding="utf-8")
    return [file_name(dict(zip(HEAD, key, strict=True))) for key in files]


def file_name(head: Json) -> str:
    """zen-4-x86-avx512-f32-1-thread.json, -rotate and -packed before the dot where they apply."""
    words = [head["processor"], head["machine"], head["dtype"], str(head["threads"])]
    words.append("thread" if head["threads"] == 1 else "threads")
    words += [head["cache"]] if head["cache"] != "warm" else []
    words += ["packed"] if head["packed"] else []
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()) + ".json"


def text_of(head: Json, runs: Sequence[Json], rows: Sequence[Json]) -> str:
    """Return the file: runs that no row is from any more are left out; a row is a line."""
    used = sorted({row["run"] for row in rows})
    lines = [json.dumps(row | {"run": used.index(row["run"])}, ensure_ascii=False) for row in rows]
    start = json.dumps(
        {"schema": SCHEMA, **head, "runs": [runs[n] for n in used]}, indent=1, ensure_ascii=False
    )
    return start.removesuffix("\n}") + ',\n "rows": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"


def read_tables(text: str) -> Iterator[tuple[Json, list[Json]]]:
    """Yield the tables that `isamap bench` has printed into a text, whatever stands around them."""
    cases = {case.position: case for case in gemm_cases()}
    title: re.Match[str] | None = None
    environment: Json = {}
    columns: list[str] = []
    rows: list[Json] = []
    for line in text.splitlines():
        if found := TITLE.match(line):
            if rows:
                yield environment, rows
            title, columns, rows = found, [], []
            environment = {"machine": found["machine"]}
        elif title and not columns and (place := PLACE.match(line)):
            cores = [int(core) for core in place["cores"].split(",")]
            environment |= {"cpu": place["cpu"], "cores": cores, "virtual_machine": bool(place["virtual"])}
        elif title and line.startswith("row  "):
            columns = re.split(r"\s{2,}", line.strip())
        elif title and columns and re.match(r" *\d+  \d+x\d+x\d+ ", line):
            cells = dict(zip(columns, re.split(r"\s{2,}", line.strip()), strict=False))
            rows.append(_row(cases[int(cells["row"])], cells, title))
    if rows:
        yield environment, rows


def _row(case: GemmCase, cells: dict[str, str], title: re.Match[str]) -> Json:
    """Return a row as `isamap bench --json` has it, as far as a printed one goes."""
    if case.label != cells["m x n x k"]:
        raise ValueError(f"row {case.position} of the suite is {case.label}, not {cells['m x n x k']}")
    rates = {name.removesuffix(" GOP/s"): cell for name, cell in cells.items() if name.endswith(" GOP/s")}
    ratios = {
        n.removeprefix("ratio to "): RATIO.match(c) for n, c in cells.items() if n.startswith("ratio to ")
    }
    return {
        "case": case.position,
        "suite": case.suite,
        "label": case.label,
        "class_name": case.class_name,
        "m": case.m,
        "n": case.n,
        "k": case.k,
        "form": cells["form"],
        "beta": int(title["beta"]),
        "threads": int(title["threads"]),
        "cache": title["cache"],
        "packed": bool(title["packed"]),
        "gflops": {name: float(rate) for name, rate in rates.items() if rate != "-"},
        "ratio": {n: {k: float(m[k]) for k in ("value", "low", "high")} for n, m in ratios.items() if m},
        "again": {n: {"value": float(m["again"])} for n, m in ratios.items() if m and m["again"]},
        "roofline_fraction": float(cells["of roofline"].rstrip("%")) / 100,
    }


def _key(row: Json) -> tuple[int, str, int]:
    return row["case"], row["form"], row["beta"]


def _head() -> str:
    command = ["git", "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(command, cwd=RESULTS, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
