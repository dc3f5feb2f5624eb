"""All rows of a benchmark, one after the other, kept as they come: what was stopped goes on where it was.

rows.jsonl          a line of JSON per row, written when the row is done
environment.json    where it ran

Where a benchmark ran, so that its figures can be read later.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from isamap.bench.cases import Form, GemmCase, Row
from isamap.bench.ceilings import Peaks, measure_bandwidths
from isamap.bench.contender import Contender
from isamap.bench.libraries import HOLDS
from isamap.bench.measure import Rules, measure_row
from isamap.bench.timed_loops import FLAGS, build_loops
from isamap.codegen.toolchain import find_compiler
from isamap.machine.processor import cpu_facts, system_caches, this_cpu
from isamap.source import Diagnostic, IsamapError, UsageProblem, replace_file
from isamap.tune.profile import Profile
from isamap.version import __version__

LIBRARIES = ("torch", "mkl", "numpy", "ortools")


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
    """All data caches of one core's way to memory, together."""
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


ROWS_FILE, ENVIRONMENT_FILE = "rows.jsonl", "environment.json"


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is to be measured. Units: `seconds` of a row's turns, `limit_s` of the solver per row.

    `hold` names an instruction set that the baselines are held to. `folder` keeps the rows. `packed` has
    every contender pack its weights before.
    """

    cases: Sequence[GemmCase]
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


def run_campaign(
    campaign: Campaign, watch: Callable[[str], None] = lambda _: None
) -> tuple[tuple[Row, ...], dict[str, object]]:
    """The rows, and where they were measured. Raises: UsageProblem, MissingTool."""
    cores = frozenset(sorted(os.sched_getaffinity(0))[: campaign.threads])
    if len(cores) < campaign.threads:
        raise UsageProblem(
            Diagnostic(
                "bench-threads", f"{campaign.threads} threads are asked for; {len(cores)} cores may be used"
            )
        )
    known = _open(campaign)
    loops = build_loops()
    digest = campaign.profile.digest if campaign.profile else None
    where = {"profile": digest} | environment(campaign.machine, find_compiler(FLAGS).version, cores)
    _keep_environment(campaign, where)
    rules = Rules(
        campaign.machine, campaign.threads, campaign.beta, campaign.cache, campaign.seconds,
        free_bytes() // 2, caches_bytes(), campaign.limit_s, loops, campaign.profile,
        campaign.packed,
    )  # fmt: skip
    watch("bandwidths")
    bandwidths, peaks = measure_bandwidths(loops), Peaks()
    held: Mapping[str, str] = HOLDS[campaign.hold] if campaign.hold else {}
    rows: list[Row] = []
    with ExitStack() as stack:
        contenders = [
            stack.enter_context(Contender(name, campaign.threads, held, cores))
            for name in ("isamap", *campaign.against)
        ]
        for number, (case, form) in enumerate(((c, f) for c in campaign.cases for f in campaign.forms), 1):
            done = known.get(_key(case, form, campaign))
            watch(f"row {number} of {len(campaign.cases) * len(campaign.forms)}: {case.label} {form.name}")
            row = done or _row(case, form, rules, contenders, peaks, bandwidths)
            if done is None:
                _append(campaign, row)
            rows.append(row)
    return tuple(rows), where


def _row(
    case: GemmCase, form: Form, rules: Rules, contenders: Sequence[Contender], peaks: Peaks, bandwidths: Any
) -> Row:
    """The row; one that cannot be compiled stays in the table with the reason."""
    try:
        return measure_row(case, form, rules, contenders, peaks, bandwidths)
    except IsamapError as error:
        said = "; ".join("; ".join((d.message, *d.notes[-2:])) for d in error.diagnostics)
        return Row(
            case.position, case.suite, case.label, case.class_name, case.m, case.n, case.k, form.name,
            rules.beta, rules.threads, rules.cache, case.operations, left_out=said, packed=rules.packed,
        )  # fmt: skip


def _key(case: GemmCase, form: Form, campaign: Campaign) -> str:
    return Row(
        case.position, case.suite, case.label, case.class_name, case.m, case.n, case.k, form.name,
        campaign.beta, campaign.threads, campaign.cache, case.operations, packed=campaign.packed,
    ).key  # fmt: skip


# --- files ------------------------------------------------------------------------------------------------


def _open(campaign: Campaign) -> dict[str, Row]:
    """The rows that an earlier run has kept, where it is resumed; else the folder has to be new."""
    if campaign.folder is None:
        return {}
    path = campaign.folder / ROWS_FILE
    if path.exists() and not campaign.resume:
        raise UsageProblem(
            Diagnostic(
                "output-exists",
                f"{path} exists already",
                help="go on with it by --resume, or name another folder with -o",
            )
        )
    campaign.folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return {}
    known: dict[str, Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):  # the last one may have been cut off by a kill
            row = Row.from_json(json.loads(line))
            known[row.key] = row
    _rewrite(path, known)
    return known


def _rewrite(path: Path, known: dict[str, Row]) -> None:
    """Without a line that was cut off."""
    replace_file(path, "".join(_line(row) for row in known.values()).encode(), durable=True)


def _append(campaign: Campaign, row: Row) -> None:
    if campaign.folder is not None:
        with (campaign.folder / ROWS_FILE).open("a", encoding="utf-8") as file:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())


def _line(row: Row) -> str:
    return json.dumps(row.as_json()) + "\n"


def _keep_environment(campaign: Campaign, where: dict[str, object]) -> None:
    if campaign.folder is not None:
        text = json.dumps(where, indent=2) + "\n"
        replace_file(campaign.folder / ENVIRONMENT_FILE, text.encode(), durable=True)
