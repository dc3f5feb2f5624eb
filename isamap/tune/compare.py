"""What a description states beside what was measured, and which of its entries are far from it.

fma_zmm_f32 interval: 0.14 ns stated, 0.12 ns measured, 1.2 times apart
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from isamap.codegen.spread import Spread
from isamap.machine import Machine, cost_params, cost_value
from isamap.report.columns import bytes_text
from isamap.source import Diagnostic
from isamap.tune.overlay import measured_link
from isamap.tune.profile import Profile

FAR = 2.0  # what other clocks, compilers and neighbours explain stays below
LEAST_NS = 0.1  # nor is it worth a warning that something is free instead of nearly so
SHOWN = 6


@dataclass(frozen=True, slots=True)
class Apart:
    """A stated figure and the measured one. Units: `unit`; of instructions ns, on all units together."""

    subject: str
    what: str
    stated: float
    measured: float
    unit: str = "ns"

    @property
    def factor(self) -> float:
        """How many times larger the larger one is."""
        least, most = sorted((self.stated, self.measured))
        return most / least if least > 0 else float("inf")

    @property
    def is_far(self) -> bool:
        """Whether the description misleads."""
        tiny = self.unit == "ns" and abs(self.stated - self.measured) < LEAST_NS
        return self.factor >= FAR and not tiny

    def __str__(self) -> str:
        free = [word for word, ns in (("stated", self.stated), ("measured", self.measured)) if ns <= 0]
        times = f"{free[0]} as free" if free else f"{self.factor:.1f} times apart"
        numbers = f"{self._shown(self.stated)} stated, {self._shown(self.measured)} measured"
        return f"{self.subject} {self.what}: {numbers}, {times}"

    def _shown(self, value: float) -> str:
        return bytes_text(value) if self.unit == "bytes" else f"{value:.3g} {self.unit}"


def compare(machine: Machine, profile: Profile) -> tuple[Apart, ...]:
    """Every measured figure of instructions, caches and links beside the stated one."""
    found: list[Apart] = []
    for figure in profile.instructions:
        entry = machine.instructions.get(figure.instruction)
        if entry is None:
            continue
        units, params = (
            max(1, machine.units[entry.cost.unit].count),
            cost_params(entry, machine, dict(figure.params)),
        )
        name = " ".join((entry.name, *(f"{n}={v}" for n, v in figure.params)))
        pairs: tuple[tuple[str, float, Spread | None], ...] = (
            ("interval", cost_value(entry.cost.interval_ns, params) / units, figure.interval),
            ("latency", cost_value(entry.cost.latency_ns, params), figure.latency),
        )
        found += [Apart(name, what, stated, m.least) for what, stated, m in pairs if m is not None]
    for cache in profile.caches:
        stated_bytes = machine.memories[cache.memory].capacity_bytes
        if cache.size_bytes is not None and stated_bytes is not None:
            found.append(Apart(cache.memory, "capacity", stated_bytes, cache.size_bytes, "bytes"))
    for link in machine.links:
        if profile.bandwidth(link.source_memory) is not None:
            measured = measured_link(machine, link, profile).bandwidth_bytes_per_ns
            name = f"{link.source_memory} → {link.target_memory}"
            found.append(Apart(name, "bandwidth", link.bandwidth_bytes_per_ns, measured, "bytes/ns"))
    stated_ns = {link.source_memory: link.rows.start_ns for link in machine.links if link.rows.start_ns}
    found += [
        Apart(f"rows of {row.memory}", "start", stated_ns[row.memory], row.start_ns)
        for row in profile.rows
        if row.memory in stated_ns
    ]
    if profile.thread_start is not None:
        found.append(Apart("threads", "start", machine.thread_start_ns, profile.thread_start.least))
    return tuple(found)


def warnings(machine: Machine, profile: Profile) -> tuple[Diagnostic, ...]:
    """A warning for each entry of which a figure is far off, and one for all caches and links."""
    far = [a for a in compare(machine, profile) if a.is_far]
    groups: dict[object, list[Apart]] = {}
    for apart in far:
        entry = machine.instructions.get(apart.subject.partition(" ")[0])
        span = entry.span if entry is not None else None
        groups.setdefault((span.source.name, span.start) if span is not None else None, []).append(apart)
    return tuple(_warning(machine, group, profile) for group in groups.values())


def _warning(machine: Machine, group: Iterable[Apart], profile: Profile) -> Diagnostic:
    worst = sorted(group, key=lambda a: -a.factor)
    entry = machine.instructions.get(worst[0].subject.partition(" ")[0])
    more = (f"and {len(worst) - SHOWN} more of its family",) if len(worst) > SHOWN else ()
    return Diagnostic(
        "cost-differs",
        f"{worst[0]} on this processor",
        entry.span if entry is not None else None,
        severity="warning",
        notes=(*(str(a) for a in worst[1:SHOWN]), *more),
        help=f"scheduling uses the measured figures of profile {profile.digest[:12]}; "
        "correct the description for others",
    )
