"""What this processor and operating system really allow, and the shipped machine that fits them best.

`detect_features()` holds `avx2` when code may use AVX2 here: the kernel lists a flag only where it also saves
the registers that belong to it. AMX is listed wherever the processor has it, but a process has to ask for it.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.hw_specs import shipped_machines
from isamap.machine import allowed
from isamap.machine.chain import read_chain
from isamap.machine.findings import Findings
from isamap.machine.listing import HEADER_END
from isamap.machine.spec import read_target
from isamap.machine.tree import read_tree
from isamap.source import Diagnostic, MissingTool

if TYPE_CHECKING:
    from isamap.machine.model import Machine

CPUINFO = Path("/proc/cpuinfo")

_PERMITTED_BY: dict[str, str] = {"amx_tile_data": "amx_tile"}
"""The feature without which there is no use in asking for a permission."""

# Asking is done in a child: a granted permission enlarges the signal frames of the process for good.
# 158 is arch_prctl on x86-64 and 0x1023 ARCH_REQ_XCOMP_PERM (Linux, Documentation/arch/x86/xstate.rst).
_ASK = "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(158, 0x1023, {component}) != 0)"
_ASK_SECONDS = 10


@lru_cache(maxsize=1)
def detect_features() -> frozenset[str]:
    """Names of the features and granted permissions of this computer, as descriptions write them."""
    flags = _processor_flags()
    granted = (name for name, needed in _PERMITTED_BY.items() if needed in flags and is_granted(name))
    return frozenset(flags & set(allowed.FEATURES)) | frozenset(granted)


def missing_features(machine: Machine) -> tuple[str, ...]:
    """The features and permissions that a machine needs and this computer lacks, in the machine's order."""
    here = detect_features()
    return tuple(f for f in (*machine.target.features, *machine.target.permissions) if f not in here)


@lru_cache(maxsize=1)
def detect_machine() -> str:
    """The shipped machine that fits this computer best: the longest chain, then the most features.

    Raises: MissingTool when none fits.
    """
    here = detect_features()
    fitting: list[tuple[int, int, str]] = []
    for name in shipped_machines():
        depth, needed, run = _needs(name)
        if run == "native" and needed <= here:
            fitting.append((depth, len(needed), name))
    if not fitting:
        said = f"no shipped machine fits this {platform.machine()} processor"
        raise MissingTool(Diagnostic("no-machine-fits", said, help="name one with --hw"))
    return max(fitting)[2]


def _needs(name: str) -> tuple[int, frozenset[str], str]:
    """Length of the chain, features and permissions, and the way to run, of a shipped machine."""
    # Only what stands above the instructions is read: detection looks at every shipped machine.
    trees = [read_tree(f.source, HEADER_END) for f in read_chain(name, HEADER_END)]
    targets = [read_target(tree.get("target"), Findings()) for tree in trees]
    needed = frozenset(f for target in targets for f in (*target.features, *target.permissions))
    return len(trees), needed, next((t.run for t in targets if t.run is not None), "native")


def _processor_flags() -> frozenset[str]:
    """The flags of the first processor; none where there is no /proc/cpuinfo."""
    try:
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def is_granted(permission: str) -> bool:
    """Whether the operating system grants a permission to a process that asks."""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        return False
    command = [sys.executable, "-I", "-S", "-c", _ASK.format(component=allowed.PERMISSIONS[permission])]
    try:
        return subprocess.run(command, timeout=_ASK_SECONDS, capture_output=True, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
