"""Access counts of scheduled statements, with the time that issues and one shared port take.

count_statement(nest, option, CONVENTIONS["timeloop"], home="buffer")
    StatementAccesses(statement=0, issues=48, compute_ns=48.0, port_ns=0.0, …)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from isamap.plan.access_counts import Accesses, Convention, count_accesses, count_issues
from isamap.plan.loop_nest import LoopNest, nest_of
from isamap.plan.problem import NestOption
from isamap.plan.schedule import NestSchedule


@dataclass(frozen=True, slots=True)
class StatementAccesses:
    """What a statement's schedule makes of its memories, once through its own loops, which `nest` has.

    Units: nanoseconds; `port_ns` that partial sums keep a shared port busy while issues run, `unload_ns` for
    the last of them behind the last issue; both 0 where the convention has a port for each.
    """

    statement: int
    issues: int
    compute_ns: float
    port_ns: float
    unload_ns: float
    accesses: tuple[Accesses, ...]
    nest: LoopNest

    @property
    def latency_ns(self) -> float:
        """Issues and the port side by side, each without a gap, then the last sums on their way out."""
        return max(self.compute_ns, self.port_ns) + self.unload_ns


def count_statement(
    nest: NestSchedule,
    option: NestOption,
    convention: Convention,
    home: str,
    bandwidths: Mapping[str, float] | None = None,
) -> StatementAccesses:
    """The counts of a statement under one of its options.

    `bandwidths` are those from `home` to the memory of that name. Units: bytes per nanosecond.
    """
    walked = nest_of(nest, option, home)
    counts = count_accesses(walked, convention)
    issues = count_issues(walked)
    busy, unload = _port_ns(option, convention, counts, bandwidths or {})
    return StatementAccesses(
        nest.statement, issues, issues * option.interval_ns, busy, unload, counts, walked
    )


def _port_ns(
    option: NestOption,
    convention: Convention,
    counts: tuple[Accesses, ...],
    bandwidths: Mapping[str, float],
) -> tuple[float, float]:
    """How long sums keep their port: all but the first read and the last write, and that write.

    Before the first issue there is nothing to wait for but a read that finds no sum; that is not counted.
    """
    busy, unload = 0.0, 0.0
    for operand in option.operands:
        bandwidth = bandwidths.get(operand.memory)
        if not (convention.shared_port and operand.is_accumulator and bandwidth):
            continue
        at_home = next(c for c in counts if c.operand == operand.name)
        tile = operand.tile_elements
        one = ceil(tile * operand.tensor_bytes / bandwidth)
        transfers = (at_home.reads + at_home.updates) // tile
        busy, unload = busy + max(0, transfers - 2) * one, unload + one
    return busy, unload
