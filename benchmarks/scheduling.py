"""How long schedules take: every shape of the suites on two machines, stage by stage, with gap and cost.

python benchmarks/scheduling.py --store /tmp/scheduling.jsonl --output scheduling.txt
python benchmarks/scheduling.py --store /tmp/some.jsonl --suite resnet50-conv --every 4
python benchmarks/scheduling.py --store /tmp/alone.jsonl --sample 105 --alone

Each case that is finished is one line of the store; started again, only what it lacks is done. `first` is
from the kernel's text to greedy's schedule, `final` from the text to CP-SAT's, in seconds of wall clock and
of processor time, that of the solver's process not counted. One process does all cases, as a service or a
tuning run would; the machine is loaded before, and full searches for cycles come between cases. No hardware
is needed, and the cache is not used. `--sample` draws so many cases by a seed, in proportion to the kinds,
machines and types, and two of each at least; with `--alone` CP-SAT gets the floors only, and no boxes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from scheduling_cases import Case, all_cases

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.machine import load_machine
from isamap.scheduler import cpsat
from isamap.scheduler.search import splitting
from isamap.source.process import full_collection_put_off
from isamap.version import solver_version

FIRST_S, FINAL_S, GAP = 1.0, 10.0, 0.05  # what is asked for
WORST = 12
Row = dict[str, Any]


def main() -> None:
    """Run what the store lacks, then prints the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--suite", nargs="+")
    parser.add_argument("--kind", nargs="+")
    parser.add_argument("--every", type=int, default=1, help="one case of so many")
    parser.add_argument("--sample", type=int, help="so many cases, drawn by --seed")
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--alone", action="store_true", help="CP-SAT without the cuts of boxes")
    parser.add_argument("--limit", type=float, default=FINAL_S)
    options = parser.parse_args()
    cases = [
        case
        for case in all_cases()
        if case.suite in (options.suite or [case.suite]) and case.kind in (options.kind or [case.kind])
    ][:: options.every]
    if options.sample:
        cases = _drawn(cases, options.sample, options.seed)
    if options.alone:
        splitting.MOST_BOXES = 0
        cpsat.GLANCE = 1.0
    done = _stored(options.store)
    started = time.perf_counter()
    with options.store.open("a", encoding="utf-8") as store:
        for number, case in enumerate(cases):
            if case.name not in done:
                done[case.name] = _measure(case, options.limit)
                store.write(json.dumps(done[case.name]) + "\n")
                store.flush()
                print(f"{number + 1}/{len(cases)} {_line(done[case.name])}", flush=True)
    lines = _summary([done[case.name] for case in cases], time.perf_counter() - started)
    print("\n".join(lines))
    if options.output:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _drawn(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Return a sample in which each kind on each machine in each type has its share."""
    rng, groups = random.Random(seed), dict[tuple[str, str, str], list[Case]]()
    for case in cases:
        groups.setdefault((case.kind, case.machine, case.dtype), []).append(case)
    shares = {key: max(2, round(count * len(own) / len(cases))) for key, own in groups.items()}
    return [case for key, own in groups.items() for case in rng.sample(own, min(shares[key], len(own)))]


def _stored(path: Path) -> dict[str, Row]:
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    return {row["name"]: row for row in rows}


@full_collection_put_off()  # between cases, and in none's seconds
def _measure(case: Case, limit_s: float) -> Row:
    load_machine(case.machine)
    request = Request(case.kernel, case.machine, case.sizes, limit_s=limit_s, cache=False)
    clocks = [_clocks()]
    first = compile_kernel(replace(request, heuristic="greedy"), "schedule").schedule
    clocks.append(_clocks())
    made = compile_kernel(request, "schedule")
    clocks.append(_clocks())
    problem, final = made.problem, made.schedule
    assert first is not None
    assert problem is not None
    assert final is not None
    walls, cpus = zip(*clocks, strict=True)
    return {
        "name": case.name,
        "kind": case.kind,
        "machine": case.machine,
        "dtype": case.dtype,
        "sizes": case.sizes,
        "options": [len(nest.options) for nest in problem.nests],
        "parse_s": made.stage_seconds["parse"],
        "problem_s": made.stage_seconds["match"] + made.stage_seconds["formulate"],
        "solver_s": made.stage_seconds["schedule"],
        "first_s": walls[1] - walls[0],
        "final_s": walls[2] - walls[1],
        "first_cpu_s": cpus[1] - cpus[0],
        "final_cpu_s": cpus[2] - cpus[1],
        "status": final.status,
        "found_by": final.found_by,
        "proved_by": final.proved_by,
        "gap": final.gap,
        "cost_ns": final.cost_ns,
        "greedy_ns": first.cost_ns,
        "reproducible": final.reproducible,
    }


def _clocks() -> tuple[float, float]:
    """Wall clock, and processor time of this process and its children. Units: seconds."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(u.ru_utime + u.ru_stime for u in used)


# --- what is said about it --------------------------------------------------------------------------------


def _line(row: Row) -> str:
    sizes = " ".join(f"{name}={value}" for name, value in row["sizes"].items())
    first, final = (f"{row[f'{w}_s']:5.2f} s (cpu {row[f'{w}_cpu_s']:5.2f})" for w in ("first", "final"))
    gap, ratio = f"{100 * row['gap']:5.2f} %", f"{row['greedy_ns'] / row['cost_ns']:.3f}"
    answer = f"{row['status']:8} gap {gap} greedy/best {ratio}"
    return f"{row['name']:34} first {first}  final {final}  {answer}  {sizes}"


def _summary(rows: Sequence[Row], seconds: float) -> list[str]:
    computer = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    versions = f"Python {platform.python_version()}, OR-Tools {solver_version()}"
    head = ("cases", "first in", "by cpu", "gap in", "proved")
    times = ("first median", "worst", "final median", "worst", "greedy/best")
    lines = [
        f"command: python benchmarks/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}".rstrip(),
        f"{computer}, {versions}; {seconds:.0f} s in this run",
        "",
        "wall seconds, processor seconds in brackets; in: first <= 1 s, gap <= 5 % within 10 s",
        f"{'kind':10} {'machine':11} {'type':5} "
        + " ".join([f"{w:>8}" for w in head] + [f"{w:>14}" for w in times]),
    ]
    keys = list(dict.fromkeys((row["kind"], row["machine"], row["dtype"]) for row in rows))
    lines += [_of(key, [r for r in rows if (r["kind"], r["machine"], r["dtype"]) == key]) for key in keys]
    lines.append(_of(("all", "", ""), rows))
    stages = [f"{s} {sum(r[f'{s}_s'] for r in rows):.0f} s" for s in ("first", "parse", "problem", "solver")]
    lines += ["", f"where the time goes, all cases: {', '.join(stages)}"]
    for key in ("found_by", "proved_by"):
        counts = Counter(row[key] for row in rows)
        lines.append(f"{key.replace('_', ' ')}: {', '.join(f'{by} {n}' for by, n in counts.most_common())}")
    for title, key in (("first", "first_cpu_s"), ("final", "final_cpu_s"), ("gap", "gap")):
        lines += ["", f"worst by {title}:"]
        lines += [_line(row) for row in sorted(rows, key=lambda r: -r[key])[:WORST]]
    missed = [row for row in rows if not _is_in(row)]
    lines += ["", f"above {100 * GAP:.0f} % after {FINAL_S:.0f} s: {len(missed)}", *map(_line, missed)]
    return lines


def _of(key: tuple[str, str, str], rows: Sequence[Row]) -> str:
    kind, machine, dtype = key
    first_in = sum(row["first_s"] <= FIRST_S for row in rows)
    first_cpu_in = sum(row["first_cpu_s"] <= FIRST_S for row in rows)
    within, proved = sum(map(_is_in, rows)), sum(row["status"] == "OPTIMAL" for row in rows)
    shares = [_share(part, len(rows)) for part in (first_in, first_cpu_in, within, proved)]
    times = [_both(rows, what, of) for what in ("first", "final") for of in (median, max)]
    times.append(f"{max(r['greedy_ns'] / r['cost_ns'] for r in rows):.3f}")
    columns = [f"{w:>8}" for w in (str(len(rows)), *shares)] + [f"{w:>14}" for w in times]
    return f"{kind:10} {machine:11} {dtype:5} " + " ".join(columns)


def _is_in(row: Row) -> bool:
    return row["gap"] <= GAP and row["final_s"] <= FINAL_S * 1.1 + 0.5


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def _both(rows: Iterable[Row], what: str, of: Any) -> str:
    return f"{of([r[f'{what}_s'] for r in rows]):.2f} ({of([r[f'{what}_cpu_s'] for r in rows]):.2f})"


if __name__ == "__main__":
    main()
