"""Run all rows of a benchmark one after the other, and store each, so that a stopped run can be resumed.

Where a benchmark ran, so that its figures can be read later.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic

from isamap.bench.cases import Form
from isamap.bench.ceilings import Peaks, measure_bandwidths
from isamap.bench.contender import Contender
from isamap.bench.kept_rows import cores_for, keep_environment, open_rows, rows_in_turn
from isamap.bench.kind import C, Kind, Rules
from isamap.bench.libraries import HOLDS
from isamap.bench.measure import Bench, empty_row, measure_row
from isamap.bench.stored_rows import Row
from isamap.bench.timed_loops import FLAGS, build_loops
from isamap.machine.processor import cpu_facts, system_caches, this_cpu
from isamap.run.toolchain import find_compiler
from isamap.source import IsamapError
from isamap.source.records import dataclass, replace
from isamap.tune.profile import Profile
from isamap.version import __version__

LIBRARIES = ("torch", "mkl", "onnxruntime", "numpy", "ortools")


def environment(machine: str, compiler: str, cores: frozenset[int]) -> dict[str, object]:
    """CPU, compiler, library versions, affinity, and whether the machine is a virtual one."""
    return {
        "isamap": __version__,
        "machine": machine,
        "cpu": this_cpu().name,
        "cores": sorted(cores),
        "caches_bytes": {f"l{n}": c.size_bytes for n, c in enumerate(system_caches(), 1)},
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "virtual_machine": "hypervisor" in cpu_facts().get("flags", "").split(),
        "load_average": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "compiler": compiler,
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def caches_bytes() -> int:
    """Return all data caches of one core's way to memory, together."""
    return sum(cache.size_bytes for cache in system_caches())


def free_bytes() -> int:
    """Memory that can be taken without swapping."""
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Campaign(Generic[C]):
    """The settings of a benchmark run. Units: `seconds` to time a row, `limit_s` of the solver per row.

    `hold` names an instruction set to which the baselines are limited. `folder` keeps the rows. `packed`
    lets every contender pack its weights before. No row is started after `minutes`.
    """

    kind: Kind[C]
    cases: Sequence[C]
    forms: Sequence[Form]
    machine: str
    against: Sequence[str]
    threads: int = 1
    beta: int = 0
    cache: str = "warm"
    seconds: float = 4.0
    limit_s: float = 10.0
    hold: str | None = None
    folder: Path | None = None
    resume: bool = False
    profile: Profile | None = None
    packed: bool = False
    minutes: float | None = None

    def rules(self, loops: str) -> Rules:
        """Return how its rows are measured, with the timed loops of that library."""
        return Rules(
            self.machine, self.threads, self.beta, self.cache, self.seconds, free_bytes() // 2,
            caches_bytes(), self.limit_s, loops, self.profile, self.packed,
        )  # fmt: skip


def run_campaign(
    campaign: Campaign[Any], watch: Callable[[str], None] = lambda _: None
) -> tuple[tuple[Row, ...], dict[str, object]]:
    """Return the rows, and where they were measured. Raises: UsageProblem, MissingTool.

    Rows that are not reached within `minutes` say so in `left_out`.
    """
    cores = cores_for(campaign.threads)
    known = open_rows(campaign.folder, campaign.resume, Row.from_json)
    loops = build_loops()
    digest = campaign.profile.digest if campaign.profile else None
    where = {"profile": digest} | environment(campaign.machine, find_compiler(FLAGS).version, cores)
    keep_environment(campaign.folder, where)
    rules = campaign.rules(loops)
    watch("bandwidths")
    bandwidths = measure_bandwidths(loops)
    held: Mapping[str, str] = HOLDS[campaign.hold] if campaign.hold else {}
    asked = [(case, form) for case in campaign.cases for form in campaign.forms]
    empty = [empty_row(campaign.kind, case, form, rules) for case, form in asked]
    with ExitStack() as stack:
        contenders = [
            stack.enter_context(Contender(name, campaign.threads, held, cores))
            for name in ("isamap", *campaign.against)
        ]
        bench = Bench(contenders, bandwidths, Peaks())
        rows = rows_in_turn(
            empty,
            known,
            lambda index: _row(campaign.kind, *asked[index], rules, bench),
            lambda row, said: replace(row, left_out=said),
            campaign.folder,
            campaign.minutes,
            watch,
        )
    return rows, where


def _row(kind: Kind[C], case: C, form: Form, rules: Rules, bench: Bench) -> Row:
    """Return the row; one that cannot be compiled stays in the table with the reason."""
    try:
        return measure_row(kind, case, form, rules, bench)
    except IsamapError as error:
        said = "; ".join("; ".join((d.message, *d.notes[-2:])) for d in error.diagnostics)
        return empty_row(kind, case, form, rules, said)
