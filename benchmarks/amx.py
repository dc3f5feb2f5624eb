"""All that is to be measured on a processor with a tile unit, by one command into one folder.

    python benchmarks/amx.py -o FOLDER                            30 minutes; goes on where it was stopped
    python benchmarks/amx.py -o FOLDER --hw MACHINE --minutes 5   any other machine that runs here
    python benchmarks/amx.py -o FOLDER --read                     what a folder says, on any computer

It tries every instruction (`check.txt`), calibrates twice (`profile.json`, `profile-again.json`), times
blocks of two by two tiles out of each level of memory (`blocks.jsonl`), measures a store of schedules anew
with what the model chooses first by these figures, or others where the store has none for the machine
(`schedules.jsonl`), and rows of DeepBench beside the libraries that are installed (`bench-DTYPE`). The
product instructions are those that the description has. Leave the machine alone meanwhile: what neighbours of
a shared host do, and slow states of a unit, show as the share of calls that took half as long again as the
least.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from ranking import candidates
from ranking_cases import Case
from ranking_report import judge, report
from ranking_times import Loaded, arrays_of, measure_schedules

from isamap.bench.campaign import mapped_tile
from isamap.bench.cases import BF16_F32, F32, S8S8, Types
from isamap.bench.product_cases import FORMS_OF_DTYPE, GemmCase, kernel_text
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.machine import detect_machine, load_machine
from isamap.machine.processor import system_caches, this_cpu
from isamap.plan.text import parse_schedule
from isamap.run.runner import pack_in_process
from isamap.source import IsamapError, Source
from isamap.tune.overlay import compare, lay_over
from isamap.tune.profile import Profile, parse_profile

STORE = Path(__file__).with_name("stores") / "emerald-rapids-small-batch.jsonl"
DEPTHS = (512, 2048)
BLOCK = 2  # tiles of a block along rows, and along columns
SLOW = 1.5  # times the least
REPEATS = 1.05  # what a figure of two calibrations may differ by
ROWS, ROW_S = "0..247/12", "2"  # of DeepBench, and seconds of turns of each
Row = dict[str, Any]


# --- steps ------------------------------------------------------------------------------------------------


def check(folder: Path, machine: str, seconds: float) -> None:
    """Every instruction tried on this processor."""
    (folder / "check.txt").write_text(_isamap(["hw", "check", machine, "--run"]))


def calibrate(folder: Path, machine: str, seconds: float) -> None:
    """Two calibrations, one after the other."""
    for name in ("profile.json", "profile-again.json"):
        if not (folder / name).exists():
            _isamap(["hw", "calibrate", machine, "--budget", f"{seconds / 4:.0f}", "-o", str(folder / name)])


def blocks(folder: Path, machine: str, seconds: float) -> None:
    """Two-by-two blocks of each product, by depth and by how large the packed operand is."""
    path, forms = folder / "blocks.jsonl", (F32, BF16_F32, S8S8)
    done = {(row["form"], row["k"], row["asked_bytes"]) for row in _lines(path)}
    asked = [(form, depth, size) for size in _sizes() for depth in DEPTHS for form in forms]
    stop, each = time.monotonic() + seconds, seconds / 2 / len(asked)  # half of it for compiling
    with path.open("a") as file:
        for form, depth, size in asked:
            if (form.name, depth, size) not in done and time.monotonic() < stop:
                file.write(json.dumps(_block(form, machine, depth, size, each)) + "\n")
                file.flush()


def schedules(folder: Path, machine: str, seconds: float) -> None:
    """The cases of the store, with the model's first choice by these figures, as far as the time goes."""
    path, stop = folder / "schedules.jsonl", time.monotonic() + seconds
    done = {entry["case"] for entry in _lines(path)}
    profile = _profile(folder / "profile.json")
    with path.open("a") as file:
        for entry in _lines(STORE):
            if entry["case"] in done or time.monotonic() > stop:
                continue
            case = Case.named(entry["case"])
            asked = replace(case.request(machine, "none"), profile=profile, heuristic="cpsat")
            made = compile_kernel(asked, "check")
            assert made.schedule
            known = [parse_schedule(Source("stored", text)) for text in entry["schedules"]]
            fitting = [s for s in known if s.machine == made.schedule.machine]
            assert made.problem
            others = fitting or candidates(made.problem, limit_s=2.0)
            chosen = [made.schedule, *(s for s in others if s.nests != made.schedule.nests)]
            file.write(json.dumps(measure_schedules(case, made, chosen, seconds / 30)) + "\n")
            file.flush()


def bench(folder: Path, machine: str, seconds: float) -> None:
    """Rows of DeepBench in each type, with a third of the time for each: as many as that is enough for."""
    seconds = max(seconds, 60.0)  # where all before took longer than it should
    for dtype in FORMS_OF_DTYPE:
        words = ["--rows", ROWS, "--dtype", dtype, "--seconds", ROW_S, "--hw", machine, "--resume"]
        words += ["--minutes", f"{seconds / len(FORMS_OF_DTYPE) / 60:.2f}"]
        words += ["--profile", str(folder / "profile.json"), "-o", str(folder / f"bench-{dtype}")]
        _isamap(["bench", "deepbench", "gemm", *words])


STEPS: tuple[tuple[Callable[[Path, str, float], None], float], ...] = (
    (check, 0.0),
    (calibrate, 0.25),
    (blocks, 0.2),
    (schedules, 0.4),
    (bench, 1.0),
)
"""What is done in which order, and the share that each may take of the time that is left."""


# --- blocks -----------------------------------------------------------------------------------------------


def _sizes() -> tuple[int, ...]:
    """Bytes of an operand that lies in each level, in the nearer ones in parts."""
    near, *others = [cache.size_bytes for cache in system_caches()]
    parts = [part * size // 4 for size in others[:1] for part in (1, 2, 4, 8, 32)]
    return tuple(sorted({near // 2, *parts}))


def _block(form: Types, machine: str, depth: int, size: int, seconds: float) -> Row:
    """Return the ns of each issue in blocks of two by two tiles with one operand packed before."""
    row: Row = {"form": form.name, "k": depth, "asked_bytes": size}
    try:
        whole = _prepared(form, machine, GemmCase(0, "blocks", 512, 128, depth, False, False), {})
        tiles = {axis.name: axis.tile for axis in mapped_tile(whole.program.compilation).axes}
        step = BLOCK * tiles["n"]
        columns = max(step, size // (depth * form.element_bytes("B")) // step * step)
        case = GemmCase(0, "blocks", columns, BLOCK * tiles["m"], depth, False, False)
        made = _prepared(form, machine, case, {"nest0.unroll.m": BLOCK, "nest0.unroll.n": BLOCK})
    except IsamapError as error:
        return {**row, "left_out": error.diagnostics[0].message}
    program = _loaded(made)
    program()
    times, stop = [program()], time.perf_counter() + seconds
    while time.perf_counter() < stop:
        times.append(program())
    extents = {"m": case.n, "n": case.m, "k": depth}
    issues = prod(-(-extents[axis] // tiles[axis]) for axis in extents)
    least = min(times)
    slow = sum(ns > SLOW * least for ns in times) / len(times)
    mapping = made.program.compilation.schedule.nests[0].mapping if made.program.compilation.schedule else ""
    return {**row, "mapping": mapping, "issues": issues, "ns": least / issues,
            "median_ns": statistics.median(times) / issues, "slow": slow}  # fmt: skip


def _prepared(form: Types, machine: str, case: GemmCase, fixed: Mapping[str, int]) -> PreparedKernel:
    sizes = {"M": case.n, "N": case.m, "K": case.k}
    source = Source("blocks.ir", kernel_text(case, form, beta=1))
    return prepare(Request(source, machine, sizes, fixed=fixed, packed=("B",)))


def _loaded(made: PreparedKernel) -> Loaded:
    """Return the program with random operands, those packed that it takes so."""
    arrays = arrays_of(made.program.compilation)
    for packer in made.packers:
        arrays[packer.target.name] = pack_in_process(packer, arrays.pop(packer.source), {})
    return Loaded(made.compiled, arrays)


# --- reading ----------------------------------------------------------------------------------------------


def read(folder: Path) -> Iterator[str]:
    """Yield what a folder says."""
    where = json.loads((folder / "where.json").read_text())
    yield f"{where['cpu']}, {where['machine']}, {where['when']}"
    if (folder / "check.txt").exists():
        yield from ("", *(folder / "check.txt").read_text().splitlines()[-1:])
    if (folder / "profile-again.json").exists():
        yield from ("", *_repeated(folder, where["machine"]))
    yield from ("", *_blocks_table(_lines(folder / "blocks.jsonl")))
    entries = _lines(folder / "schedules.jsonl")
    if entries:
        profile = str(folder / "profile.json")
        judged = [judge(e, where["machine"], profile, folder / "problems") for e in entries]
        yield from ("", *report(judged, profile))
    for table in sorted(folder.glob("bench-*/table.txt")):
        yield from ("", *table.read_text().splitlines())


def _repeated(folder: Path, machine: str) -> Iterator[str]:
    """Yield which figures of two calibrations are not the same."""
    first, again = (_profile(folder / name) for name in ("profile.json", "profile-again.json"))
    found = compare(lay_over(load_machine(machine), first), again)
    apart = sorted((a for a in found if a.factor > REPEATS), key=lambda a: -a.factor)
    yield f"{len(found)} figures measured twice, {len(apart)} more than {REPEATS - 1:.0%} apart"
    yield from (f"  {one}".replace("stated", "first").replace("measured", "then") for one in apart[:20])


def _blocks_table(rows: Sequence[Row]) -> Iterator[str]:
    yield f"{'form':10} {'k':>5} {'operand bytes':>13} {'ns an issue':>11} {'median':>7} {'slow':>5}"
    for row in rows:
        start = f"{row['form']:10} {row['k']:5} {row['asked_bytes']:13}"
        if "left_out" in row:
            yield f"{start} {row['left_out']}"
        else:
            yield f"{start} {row['ns']:11.2f} {row['median_ns']:7.2f} {row['slow']:5.0%}"


# --- the command ------------------------------------------------------------------------------------------


def _isamap(words: Sequence[str]) -> str:
    """Return what the command prints. Raises: SystemExit with what it said where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "isamap", *words], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"isamap {' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def _lines(path: Path) -> list[Row]:
    """Return the rows of a file, without one that a kill has cut off."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _profile(path: Path) -> Profile:
    return parse_profile(Source(str(path), path.read_text()))


def main() -> None:
    """Measures what the folder lacks, then says what it holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", required=True, type=Path, help="the folder")
    parser.add_argument("--hw", help="a machine that runs here; the one that fits this processor best")
    parser.add_argument("--minutes", type=float, default=30.0, help="for all of it, compiling included")
    parser.add_argument("--read", action="store_true", help="measure nothing")
    options = parser.parse_args()
    folder, machine = options.o, options.hw or detect_machine()
    if not options.read:
        folder.mkdir(parents=True, exist_ok=True)
        where = {"cpu": this_cpu().describe(), "machine": machine, "when": time.strftime("%F %T")}
        (folder / "where.json").write_text(json.dumps(where) + "\n")
        stop = time.monotonic() + 60 * options.minutes
        for step, share in STEPS:
            if (folder / f"{step.__name__}.done").exists():
                continue
            started = time.monotonic()
            step(folder, machine, max(0.0, stop - started) * share)
            (folder / f"{step.__name__}.done").touch()
            print(f"{step.__name__}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    text = "\n".join(read(folder)) + "\n"
    if not options.read:
        (folder / "report.txt").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
