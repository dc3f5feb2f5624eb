"""What is said where scratchpads are too small: the least that an option needs, with its parts.

statement 0 has no schedule: 4608 bytes of `spad` are needed at least, and there are 4096
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isamap.scheduler.space import Assignment, RegisterBlock, Space
from isamap.source import Diagnostic


def too_small_scratchpads(spaces: Sequence[Space]) -> Diagnostic | None:
    """The mapping that comes nearest to fitting; None where one fits, or lacks registers."""
    least = [found for space in spaces if (found := _least(space)) is not None]
    if not least or any(over <= 0 for over, _, _, _ in least):
        return None
    _, memory, space, made = min(least, key=lambda found: found[0])
    parts = {o.name: size for o, size in space.scratch_parts(made) if o.homes[0] == memory}
    needed = sum(parts.values())
    fixed = ", ".join(f"{name} = {value}" for name, value in sorted(space.fixed.items()))
    blocks = ", ".join(f"{axis.name} by {made[space.block(axis)]}" for axis in space.axes)
    return Diagnostic(
        "scratchpad-too-small",
        (f"{fixed}: " if fixed else f"statement {space.statement} has no schedule: ")
        + f"{needed} bytes of `{memory}` are needed at least, and there are {space.scratchpads[memory]}",
        notes=(
            ", ".join(f"`{name}`: {size} bytes" for name, size in parts.items()) + f" in blocks of {blocks}",
            f"with mapping `{space.option.mapping}`",
        ),
        help=f"relieved by {needed} bytes of `{memory}` in the machine's description",
    )


def _least(space: Space) -> tuple[int, str, Space, Assignment] | None:
    """The smallest overflow of any register block, its blocks as small as they get; None where none is."""
    found: list[tuple[int, str, Space, Assignment]] = []
    for block in space.register_blocks():
        for made in _smallest(space, block):
            needed: dict[str, int] = {}
            for operand, size in space.scratch_parts(made):
                needed[operand.homes[0]] = needed.get(operand.homes[0], 0) + size
            over = {memory: size - space.scratchpads[memory] for memory, size in needed.items()}
            if over:
                memory = max(over, key=lambda m: over[m])
                found.append((over[memory], memory, space, made))
    return min(found, key=lambda least: least[0], default=None)


def _smallest(space: Space, block: RegisterBlock) -> Iterator[Assignment]:
    """All cache blocks as small as they may be, everything staged per block where it may."""
    made: dict[str, int] = {space.unroll(axis): block[axis.name] for axis in space.register_axes}
    for axis in space.axes:
        sizes = space.blocks(axis, block.get(axis.name, 1))
        if not sizes:
            return
        made[space.block(axis)] = sizes[-1]
    for operand in space.option.operands:
        values = space.stage_values(operand)
        if not values:
            return
        made[space.stage(operand)] = values[0]
    yield made
