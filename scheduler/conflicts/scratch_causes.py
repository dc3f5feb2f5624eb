"""Explain that scratchpads are too small: the least bytes that an option needs, with their parts.

statement 0 has no schedule: 4608 bytes of `spad` are needed at least, and there are 4096
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isamap.plan.cost import evaluate
from isamap.plan.problem import TileOperand
from isamap.scheduler.deciding.scratch import scratch_bytes
from isamap.scheduler.deciding.scratch_least import least_assignments
from isamap.scheduler.deciding.space import Assignment, Space
from isamap.source import Diagnostic
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class MissingBytes:
    """The bytes that an assignment needs of each scratchpad that is too small for it. Units: bytes."""

    space: Space
    made: Assignment
    needed: Mapping[str, int]

    @property
    def most_missing(self) -> int:
        return max(size - self.space.scratchpads[memory] for memory, size in self.needed.items())


def too_small_scratchpads(spaces: Sequence[Space]) -> Diagnostic | None:
    """Return the error that names the mapping nearest to fitting, or None if one fits or lacks registers."""
    lack = least_lack(spaces)
    if lack is None:
        return None
    space, made = lack.space, lack.made
    parts = {o.name: size for o, size in _parts(space, made) if o.staging.homes[0] in lack.needed}
    there = " and ".join(str(space.scratchpads[memory]) for memory in lack.needed)
    fixed = ", ".join(f"{name} = {value}" for name, value in sorted(space.fixed.items()))
    blocks = ", ".join(f"{axis.name} by {made[space.block(axis)]}" for axis in space.axes)
    return Diagnostic(
        "scratchpad-too-small",
        (f"{fixed}: " if fixed else f"statement {space.statement} has no schedule: ")
        + f"{relief_bytes(lack)} are needed at least, and there are {there}",
        notes=(
            ", ".join(f"`{name}`: {size} bytes" for name, size in parts.items()) + f" in blocks of {blocks}",
            f"with mapping `{space.option.mapping}`",
        ),
        help=f"relieved by {relief_bytes(lack)} in the machine's description",
    )


def relief_bytes(lack: MissingBytes) -> str:
    """Return the missing capacity as text: `512 bytes of `spad` and 64 bytes of `acc``."""
    return " and ".join(f"{size} bytes of `{memory}`" for memory, size in lack.needed.items())


def least_lack(spaces: Sequence[Space]) -> MissingBytes | None:
    """Return the smallest overflow over all register blocks, or None if one fits or none has registers."""
    found: list[MissingBytes] = []
    for space in spaces:
        for block in space.register_blocks():
            for made in least_assignments(space, block):
                lack = _lack(space, made)
                if lack is None:
                    return None
                found.append(lack)
    return min(found, key=lambda lack: lack.most_missing, default=None)


def _lack(space: Space, made: Assignment) -> MissingBytes | None:
    needed: dict[str, int] = {}
    for operand, size in _parts(space, made):
        needed[operand.staging.homes[0]] = needed.get(operand.staging.homes[0], 0) + size
    over = {memory: size for memory, size in needed.items() if size > space.scratchpads[memory]}
    return MissingBytes(space, made, dict(sorted(over.items()))) if over else None


def _parts(space: Space, made: Assignment) -> list[tuple[TileOperand, int]]:
    """Return the operands that are staged in scratchpads, with the bytes of their buffers."""
    here = [o for o in space.option.operands if o.staging.homes[0] and made[space.stage(o)]]
    return [(operand, int(evaluate(scratch_bytes(space, operand), made))) for operand in here]
