"""The request of a compilation, and the digest of all inputs that its result depends on."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.machine import machine_digest
from isamap.source import Source
from isamap.version import __version__

if TYPE_CHECKING:
    from isamap.tune.profile import Profile

BEST_FORM = "best"
DEFAULT_COST_MODEL = "analytic"
MOST_FORMS = 999
MAX_THREADS = 256
# Each takes a compiler's time and half a second of measuring.
MOST_TUNED = 100
# Units: seconds of wall clock.
MIN_LIMIT_S, MAX_LIMIT_S = 0.1, 3600
Size = int | str
"""A number, the range `1..8192@512`, or one with several profile values: `1..8192@1,35,512`."""
_RANGE = re.compile(r"[0-9]{1,24}\.\.[0-9]{1,24}(@[0-9]{1,24}(,[0-9]{1,24}){0,15})?")


def is_range(text: str) -> bool:
    """Return whether a text is a range of sizes."""
    return _RANGE.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Request:
    """A compilation request: a kernel's text, a machine by name or path, sizes as written, and options.

    `schedule` is a text to replay. `fixed` are decisions that a person has made (None: as the text has
    them; with both, the others are solved). `profile` holds measured parameters that replace the machine's
    stated ones. `transform` names a rewrite of the kernel by number, or asks for the best. `evaluate` names
    the evaluator that chooses among the `best` cheapest schedules, "" for the cost model alone. `threads`
    is the number of threads that perform the kernel. `tune` is the number of schedules to measure, 0 for
    none; `tuned` uses the stored fastest one. `search` names the searcher that proposes them, "" for the
    model's list. `packed` are inputs that the caller passes packed, by a program that is emitted with the
    kernel's. `cold` says that no cache contains the operands of a call. `cache` allows cached results.
    Units: `limit_s` and `tune_limit_s` in seconds of wall clock.
    """

    kernel: Source
    machine: str
    sizes: Mapping[str, Size]
    schedule: Source | None = None
    heuristic: str = "cpsat"
    cost_model: str = DEFAULT_COST_MODEL
    limit_s: float = 10.0
    fixed: Mapping[str, int | None] = field(default_factory=dict[str, "int | None"])
    model: bool = False
    profile: Profile | None = None
    transform: str | None = None
    evaluate: str = ""
    best: int = 1
    threads: int = 1
    cache: bool = True
    tune: int = 0
    tune_limit_s: float = 120.0
    search: str = ""
    tuned: bool = False
    packed: tuple[str, ...] = ()
    cold: bool = False

    def options(self) -> dict[str, object]:
        """Return all of it that is neither kernel, machine nor sizes, as JSON."""
        found: dict[str, object] = {
            "heuristic": self.heuristic,
            "cost_model": self.cost_model,
            "limit_s": self.limit_s,
            "fixed": dict(sorted(self.fixed.items())),
            "schedule_sha256": sha256(self.schedule.text) if self.schedule else None,
            "model": self.model,
            "profile": self.profile.digest if self.profile else None,
            "transform": self.transform,
            "threads": self.threads,
            "packed": sorted(self.packed),
        }
        if self.evaluate:
            found |= {"evaluate": self.evaluate, "best": self.best}
        if self.tune:
            found |= {"tune": self.tune, "tune_limit_s": self.tune_limit_s}
        if self.search:
            found["search"] = self.search
        if self.cold:
            found["cold"] = True
        return found | ({"tuned": True} if self.tuned else {})

    @property
    def measures(self) -> bool:
        """Whether the answer depends on measurements, and so not on the request alone."""
        return bool(self.evaluate or self.tune or self.tuned)


def request_key(request: Request) -> str:
    """Return the sha256 of everything that the answer depends on. Raises: as `machine_digest`."""
    name = request.kernel.name
    sizes = dict(sorted(request.sizes.items()))
    parts = [program_state(), ortools_version(), machine_digest(request.machine), request.machine, name]
    parts += [request.kernel.text, json.dumps(sizes), json.dumps(request.options())]
    return sha256(json.dumps(parts))


def sha256(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def ortools_version() -> str:
    """Return the installed version of OR-Tools, which is not imported for that."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ortools")
    except PackageNotFoundError:
        return "none"


@lru_cache(maxsize=1)
def program_state() -> str:
    """Return a digest that changes when any file of this program does."""
    root = Path(__file__).resolve().parents[1]
    state = hashlib.sha256(f"{__version__} {sys.version}".encode())
    for folder in sorted(p for p in root.iterdir() if p.is_dir() and p.name != "__pycache__"):
        for path in sorted(folder.rglob("*")):  # packages have folders inside
            if path.suffix in (".py", ".lark", ".json", ".c", ".h"):
                status = path.stat()
                line = f"{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}\n"
                state.update(line.encode())
    return state.hexdigest()
