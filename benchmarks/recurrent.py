"""DeepBench's recurrent layers on whatever processor runs this, in one command and one file.

    python benchmarks/recurrent.py -o recurrent            # 25 minutes: 12 rows of GRU and LSTM, f32 and bf16
    python benchmarks/recurrent.py -o recurrent --all      # hours: every distinct row, of vanilla layers, too

Runs `isamap bench deepbench gru|lstm|rnn` for each type, in folders below the one that is named, and puts all
rows with where they ran into `recurrent.json`, all tables into `recurrent.txt`. What was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from isamap.bench.cells import CellCase, cell_cases

SHAPES = {
    "gru": ((512, 32), (1024, 32), (1536, 32), (2816, 32), (1536, 1), (2560, 2)),
    "lstm": ((512, 16), (512, 64), (1024, 32), (2048, 32), (1024, 1), (2048, 4)),
    "rnn": (),
}
"""Units and sequences of the rows that stand for all."""


def main() -> None:
    """Measure, merge, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="folder", type=Path, required=True)
    parser.add_argument("--all", action="store_true", help="every row with other units or sequences")
    parser.add_argument("--steps", default="8")
    parser.add_argument("--seconds", default="4")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--dtype", default="f32,bf16")
    parser.add_argument("--packed", action="store_true", help="weights packed before, outside the clock")
    parser.add_argument("--minutes", type=float, help="for all of it, an equal share for each cell and type")
    options = parser.parse_args()
    dtypes = options.dtype.split(",")
    cells = [cell for cell in SHAPES if SHAPES[cell] or options.all]
    more = ["--minutes", f"{options.minutes / len(cells) / len(dtypes):.2f}"] if options.minutes else []
    more += ["--packed"] if options.packed else []
    found: list[object] = []
    tables: list[str] = []
    for cell in cells:
        rows = ",".join(str(case.position) for case in _distinct(cell, options.all))
        for dtype in dtypes:
            folder = options.folder / f"{cell}-{dtype}{'-packed' if options.packed else ''}"
            words = ["--rows", rows, "--dtype", dtype, "--steps", options.steps, "--seconds", options.seconds]
            words += ["--threads", options.threads, "-o", str(folder), "--resume", "--json", *more]
            made = subprocess.run(
                [sys.executable, "-m", "isamap", "bench", "deepbench", cell, *words],
                stdout=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
            found.append(json.loads(made.stdout))
            tables.append((folder / "table.txt").read_text(encoding="utf-8"))
            print(tables[-1], flush=True)
    (options.folder / "recurrent.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (options.folder / "recurrent.txt").write_text("\n".join(tables), encoding="utf-8")


def _distinct(cell: str, every: bool) -> list[CellCase]:
    """Return the first row of each number of units and sequences: rows that differ in steps alone are one."""
    first: dict[tuple[int, int], CellCase] = {}
    for case in cell_cases(cell, None):
        first.setdefault((case.hidden, case.batch), case)
    return [case for shape, case in first.items() if every or shape in SHAPES[cell]]


if __name__ == "__main__":
    main()
