"""Detect the features and caches of this processor, and the shipped machine that fits it best.

`detect_features()` contains `avx2` if code may use AVX2 here: the kernel lists a flag only if it also saves
the registers that belong to it. AMX is listed wherever the processor has it, but a process has to request
it.

`system_caches()` is `(SystemCache(49152, 12, 64), SystemCache(1310720, 20, 64))` for two caches, as the
operating system reports them.

`this_cpu().describe()` is `AMD EPYC (family 26, model 2, stepping 1)`. Profiles of measured parameters
belong to one such processor.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.hw_specs import machine_path, shipped_machines
from isamap.machine import allowed
from isamap.machine.target_fields import read_target
from isamap.machine.tree import Findings, MappingNode, ScalarNode, decode, read_entries
from isamap.source import MissingTool, asdict, dataclass, is_digits
from isamap.source.cache import digest, program_state, recall_or_make
from isamap.source.codec import read_value, write
from isamap.source.process import run_process

if TYPE_CHECKING:
    from isamap.machine.model import Machine


CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class SystemCache:
    """A cache that holds data. Units: bytes. `ways` and `line_bytes` are None if they are not reported."""

    size_bytes: int
    ways: int | None
    line_bytes: int | None


def system_caches(cpus: Path = CPUS) -> tuple[SystemCache, ...]:
    """Return the caches between memory and the first core that this process may use, the nearest one first.

    The result is None if the system does not describe them, as in some containers, and except on Linux.
    Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu.
    """
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    found: list[tuple[int, SystemCache]] = []
    for folder in (cpus / f"cpu{core}" / "cache").glob("index*"):
        level, size = _number(folder / "level"), _number(folder / "size")
        if _text(folder / "type") in ("Data", "Unified") and level and size:
            ways, line = _number(folder / "ways_of_associativity"), _number(folder / "coherency_line_size")
            found.append((level, SystemCache(size, ways, line)))
    return tuple(cache for _, cache in sorted(found, key=lambda pair: pair[0]))


def _number(path: Path) -> int | None:
    """Return a positive number from a system file, where `48K` means 49152. Return None if there is none."""
    text = _text(path)
    digits, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    return int(digits) * unit or None if is_digits(digits) else None


def _text(path: Path) -> str:
    """Return the text of a system file, or "" if it does not exist or is not readable."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


CPUINFO = Path("/proc/cpuinfo")

_PERMITTED_BY: dict[str, str] = {"amx_tile_data": "amx_tile"}
"""The feature without which there is no use in asking for a permission."""

# Asking is done in a child: a granted permission enlarges the signal frames of the process for good.
# 158 is arch_prctl on x86-64 and 0x1023 ARCH_REQ_XCOMP_PERM (Linux, Documentation/arch/x86/xstate.rst).
_ASK = "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(158, 0x1023, {component}) != 0)"
_ASK_SECONDS = 10
# Drivers bring whole compilers, which stay in the process that loads them.
_COUNT = """
import ctypes, sys
count = ctypes.c_uint32(0)
refused = ctypes.CDLL("{library}")["{counted_by}"](0, None, ctypes.byref(count))
sys.exit(refused != 0 or count.value == 0)
"""


@lru_cache(maxsize=1)
def detect_features() -> frozenset[str]:
    """Return the names of this computer's features and granted permissions, as descriptions spell them."""
    flags = _processor_flags()
    granted = (name for name, needed in _PERMITTED_BY.items() if needed in flags and is_granted(name))
    return frozenset(flags & set(allowed.features())) | frozenset(granted)


def missing_features(machine: Machine) -> tuple[str, ...]:
    """Return the features and permissions that a machine needs and this computer lacks, in the machine's order."""
    return features_lacking((*machine.target.features, *machine.target.permissions))


def features_lacking(needed: Iterable[str]) -> tuple[str, ...]:
    """Return the needed features and permissions that this computer lacks, in the same order."""
    here = detect_features()
    return tuple(f for f in needed if f not in here and not has_device(f))


@lru_cache(maxsize=1)
def detect_machine() -> str:
    """Return the shipped machine that fits this computer best: the longest chain of files, then the most features.

    Raises: MissingTool if none fits.
    """
    here = detect_features()
    fitting = [
        (len(found.chain), len(found.needed), name)
        for name, found in shipped_headers().items()
        if found.run == "native" and here.issuperset(found.needed)
    ]
    if not fitting:
        said = f"no shipped machine fits this {platform.machine()} processor"
        raise MissingTool.of("no-machine-fits", said, help="name one with --hw")
    return max(fitting)[2]


def detect_device_machine(tensors: str, capability: list[int]) -> str:
    """Return the shipped machine for a device by torch's word for it and its capability. Raises: MissingTool."""
    fitting: list[tuple[list[int], int, str]] = []
    for name, found in shipped_headers().items():
        device = allowed.device_of(found.needed)
        least = [*device.capability] if device is not None and device.tensors == tensors else []
        if least and least[:1] == capability[:1] and least <= capability:
            fitting.append((least, len(found.chain), name))
    if not fitting:
        said = f"no shipped machine is for a `{tensors}` device of capability {capability}"
        raise MissingTool.of("no-machine-fits", said, help="name its description: options={'machine': ...}")
    return max(fitting)[2]


@dataclass(frozen=True, slots=True)
class MachineHeader:
    """The part of a shipped machine's description above its instructions.

    `needed` are its features, then its permissions, those of the files that it extends first.
    """

    summary: str
    chain: tuple[str, ...]
    needed: tuple[str, ...]
    run: str
    emulator: str | None


@lru_cache(maxsize=1)
def shipped_headers() -> dict[str, MachineHeader]:
    """Return the header of each shipped machine by name. Detection and lists need no instructions."""
    key = digest(program_state(), "shipped")
    return recall_or_make("headers", key, read_value, _read_headers, lambda found: write(found).encode())


def _read_headers() -> dict[str, MachineHeader]:
    trees: dict[str, MappingNode] = {}
    for name in shipped_machines():
        source = decode(f"{name}.yaml", machine_path(name).read_bytes())
        trees[name] = read_entries(source, ("summary:", "extends:", "target:"))
    targets = {name: read_target(tree.get("target"), Findings()) for name, tree in trees.items()}
    found: dict[str, MachineHeader] = {}
    for name, tree in trees.items():
        chain = [name]
        while isinstance(parent := trees[chain[-1]].get("extends"), ScalarNode):
            chain.append(parent.text)
        own, summary = [targets[one] for one in chain], tree.get("summary")
        features = [f for target in reversed(own) for f in target.features]
        permissions = [p for target in reversed(own) for p in target.permissions]
        found[name] = MachineHeader(
            summary.text.strip() if isinstance(summary, ScalarNode) else "",
            tuple(chain),
            tuple(dict.fromkeys((*features, *permissions))),
            next((target.run for target in own if target.run is not None), "native"),
            next((target.emulator for target in own if target.emulator is not None), None),
        )
    return found


def _processor_flags() -> frozenset[str]:
    """Return the flags of the first processor, or none if there is no /proc/cpuinfo."""
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
    """Return whether the operating system grants a permission to a process that asks."""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        return False
    return _succeeds(_ASK.format(component=allowed.permission_numbers()[permission]))


@lru_cache(maxsize=16)
def has_device(feature: str) -> bool:
    """Return whether a feature belongs to a device and this computer has a working driver for it."""
    device = allowed.devices().get(feature)
    if device is None or not device.library:
        return False
    return _succeeds(_COUNT.format(library=device.library, counted_by=device.counted_by))


def _succeeds(program: str) -> bool:
    """Return whether a Python program exits without an error in a process of its own."""
    command = [sys.executable, "-I", "-S", "-c", program]
    try:
        return run_process(command, _ASK_SECONDS).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


_NAMES = ("model name", "CPU implementer")
_FAMILY = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")
_KEYS = ("vendor_id", "cpu family", "model", "stepping", "CPU part", "CPU variant", "CPU revision")


@dataclass(frozen=True, slots=True)
class Cpu:
    """A processor: its name, its identifying numbers, its microcode, and its usable features."""

    name: str
    numbers: tuple[tuple[str, str], ...]
    microcode: str
    features: tuple[str, ...]

    @property
    def key(self) -> str:
        """A digest of all fields."""
        return hashlib.sha256(repr(asdict(self)).encode()).hexdigest()

    @property
    def family(self) -> str:
        """The common name of processors of one microarchitecture, such as `GenuineIntel-6-207`."""
        return "-".join(value for key, value in self.numbers if key in _FAMILY)

    def describe(self) -> str:
        """Return a short description of the processor, with family, model and stepping."""
        numbers = ", ".join(f"{key.split()[-1]} {value}" for key, value in self.numbers if key != "vendor_id")
        return f"{self.name} ({numbers})" if numbers else self.name

    def differences(self, other: Cpu) -> tuple[str, ...]:
        """Return the differences between two processors as sentences."""
        mine, theirs = set(self.features), set(other.features)
        pairs = (
            ("processor", self.describe(), other.describe()),
            ("microcode", self.microcode, other.microcode),
            (
                "features",
                " ".join(sorted(mine - theirs)) or "none",
                " ".join(sorted(theirs - mine)) or "none",
            ),
        )
        return tuple(f"{what}: {ours}; here {here}" for what, ours, here in pairs if ours != here)


@lru_cache(maxsize=1)
def this_cpu() -> Cpu:
    """Return this computer's first processor, as the operating system describes it."""
    facts = cpu_facts()
    name = next((facts[key] for key in _NAMES if facts.get(key)), platform.machine() or "unknown")
    numbers = tuple((key, facts[key]) for key in _KEYS if key in facts)
    return Cpu(name, numbers, facts.get("microcode", ""), tuple(sorted(detect_features())))


def cpu_facts() -> dict[str, str]:
    """Return what the operating system states about the first processor, by name, or {} if it states nothing."""
    facts: dict[str, str] = {}
    try:
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    return facts
