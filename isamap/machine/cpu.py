"""Which processor this is: what profiles of measured figures belong to.

`this_cpu().describe()` is `AMD EPYC (family 26, model 2, stepping 1)`.
"""

from __future__ import annotations

import hashlib
import platform
from dataclasses import asdict, dataclass
from functools import lru_cache

from isamap.machine import detect

_NAMES = ("model name", "CPU implementer")
_FAMILY = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")
_KEYS = ("vendor_id", "cpu family", "model", "stepping", "CPU part", "CPU variant", "CPU revision")


@dataclass(frozen=True, slots=True)
class Cpu:
    """A processor: its name, the numbers that tell it apart, its microcode, and what may be used of it."""

    name: str
    numbers: tuple[tuple[str, str], ...]
    microcode: str
    features: tuple[str, ...]

    @property
    def key(self) -> str:
        """A digest of all of it."""
        return hashlib.sha256(repr(asdict(self)).encode()).hexdigest()

    @property
    def family(self) -> str:
        """What processors of one design have in common, as `GenuineIntel-6-207`."""
        return "-".join(value for key, value in self.numbers if key in _FAMILY)

    def describe(self) -> str:
        """The processor in a few words."""
        numbers = ", ".join(f"{key.split()[-1]} {value}" for key, value in self.numbers if key != "vendor_id")
        return f"{self.name} ({numbers})" if numbers else self.name

    def differences(self, other: Cpu) -> tuple[str, ...]:
        """In what two processors differ, in words."""
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
    """This computer's first processor, as the kernel describes it."""
    facts = cpu_facts()
    name = next((facts[key] for key in _NAMES if facts.get(key)), platform.machine() or "unknown")
    numbers = tuple((key, facts[key]) for key in _KEYS if key in facts)
    return Cpu(name, numbers, facts.get("microcode", ""), tuple(sorted(detect.detect_features())))


def cpu_facts() -> dict[str, str]:
    """What the kernel says of the first processor, by its names; nothing where it says nothing."""
    facts: dict[str, str] = {}
    try:
        text = detect.CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    return facts
