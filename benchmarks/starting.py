"""Seconds that one compilation takes: with an empty cache, of a known machine at new sizes, and repeated.

    python benchmarks/starting.py [KERNEL] [--hw MACHINE] [--runs N]

Each run is a process of its own, greedy, with byte code that is written already, as an installed package has
it. Of N runs the least processor time and the least wall time are told. Exits 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from isamap.source.process import run_process

TARGETS_S = {"empty cache": 2.0, "known machine": 0.8, "repeated": 0.4}
"""The most processor time of each case."""
IMPORTS_S = 0.25
COUNT = """
import sys, time
from isamap.cli import main
before = set(sys.modules)
main(sys.argv[1:])
names = set(sys.modules) - before
print("modules", len(sys.modules), sum(name.startswith("isamap") for name in sys.modules))
print(*sorted(names - {"__mp_main__"}))
"""
LOAD = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"


def run(words: list[str], cache: Path) -> tuple[float, float, str]:
    """Return the processor time and the wall time of a process, in seconds, and its output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["ISAMAP_CACHE_DIR"] = str(cache)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = run_process([sys.executable, *words], 600, env=environment, text=True)
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    if done.returncode:
        raise SystemExit(done.stderr)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, end - start, done.stdout


def main() -> int:
    """Print a line for each case; return 1 where one takes longer than its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernel", nargs="?", default="gemm_f32")
    parser.add_argument("--hw", default="x86-avx2")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    times: dict[str, list[tuple[float, float]]] = {case: [] for case in TARGETS_S}
    with tempfile.TemporaryDirectory() as folder:

        def words(size: int) -> list[str]:
            sizes = ["-D", f"M={size}", "N=64", "K=64"]
            place = ["-o", f"{folder}/out", "--force"]
            return ["compile", given.kernel, "--hw", given.hw, *sizes, "--heuristic", "greedy", *place]

        run(["-m", "isamap", *words(64)], Path(folder, "warm"))
        cache = Path(folder, "warm")
        for number in range(given.runs):
            cache = Path(folder, f"cache{number}")
            for case, size in (("empty cache", 64), ("known machine", 96), ("repeated", 96)):
                spent, wall, _ = run(["-m", "isamap", *words(size)], cache)
                times[case].append((spent, wall))
        said = run(["-c", COUNT, *words(128)], cache)[2].splitlines()
        names = said[-1].split()
        imports = [
            run(["-c", LOAD, *names], cache)[0] - run(["-c", LOAD], cache)[0] for _ in range(given.runs)
        ]
    missed = False
    for case, found in times.items():
        spent, wall = min(s for s, _ in found), min(w for _, w in found)
        missed |= spent > TARGETS_S[case]
        print(
            f"{case:14} {spent:5.2f} s of processor time, {wall:5.2f} s of wall, target {TARGETS_S[case]} s"
        )
    _, modules, own = said[-2].split()
    print(f"{'imports':14} {min(imports):5.2f} s of processor time, target {IMPORTS_S} s: {modules} modules,")
    print(f"{'':14} {own} of them of isamap")
    return int(missed or min(imports) > IMPORTS_S)


if __name__ == "__main__":
    sys.exit(main())
