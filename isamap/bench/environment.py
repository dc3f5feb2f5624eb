"""Where a benchmark ran, so that its figures can be read later."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from isamap.machine.processor import cpu_facts, system_caches, this_cpu
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
