"""Several schedules of one kernel as one program: the sizes of a call choose.

if M <= 5  { … as the schedule for few rows says … }
if 6 <= M  { … as that for many rows says … }
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from isamap.ir import Index, Kernel, Range
from isamap.lower.assemble import names_of, program_of, temps_of
from isamap.lower.lower import lowering
from isamap.lower.names import Names
from isamap.lower.passes import State
from isamap.lower.program import Block, Buffer, Condition, If, LoweredProgram
from isamap.machine import Machine
from isamap.plan.schedule import Schedule
from isamap.posing.matches import Matches

Sizes = Mapping[str, int | Range]


@dataclass(frozen=True, slots=True)
class Version:
    """A schedule with the sizes that it is for, the kernel bound to these, its mappings where known."""

    kernel: Kernel
    schedule: Schedule
    sizes: Sizes
    matches: tuple[Matches, ...] = ()


def lower_versions(
    kernel: Kernel,
    machine: Machine,
    versions: Sequence[Version],
    sizes: Sizes,
    seen: Callable[[str, State], None] = lambda _name, _state: None,
) -> LoweredProgram:
    """The program of all versions; `kernel` is bound to `sizes`, which the versions share out among them.

    `seen` is told what each pass leaves of each version.
    """
    names = names_of(kernel)
    body: list[If | Block] = []
    temps: dict[str, Buffer] = {}
    for number, version in enumerate(versions, 1):
        state: State = ()
        for name, state in _lowering(version, machine, names):
            seen(f"version-{number}-{name}", state)
        assert isinstance(state, LoweredProgram), "the last pass leaves a program"
        inside = state.body
        for temp in (*temps_of(kernel, inside), *temps_of(version.kernel, inside)):
            temps.setdefault(temp.name, temp)
        shown = ", ".join(f"{name} = {value}" for name, value in version.schedule.sizes)
        block = Block(f"for {shown}", inside)
        conditions = tuple(_conditions(version.sizes, sizes))
        body.append(If(conditions, (block,)) if conditions else block)
    return program_of(kernel, machine, sizes, tuple(temps.values()), names, tuple(body))


def versions_behind(
    name: str, kernel: Kernel, machine: Machine, versions: Sequence[Version]
) -> tuple[State, ...]:
    """What a pass leaves of each version."""
    names = names_of(kernel)
    return tuple(
        next(state for own, state in _lowering(version, machine, names) if own == name)
        for version in versions
    )


def _lowering(version: Version, machine: Machine, names: Names) -> Iterator[tuple[str, State]]:
    known = version.kernel, machine, version.schedule, version.sizes
    return lowering(*known, matches=version.matches, names=names)


def _conditions(part: Sizes, whole: Sizes) -> Iterator[Condition]:
    """When the sizes of a call are those of a part."""
    for name, given in whole.items():
        if not isinstance(given, Range):
            continue
        size, own = Index.of(name), part[name]
        low, high = (own.low, own.high) if isinstance(own, Range) else (own, own)
        if low == high:
            yield (size, "==", Index.of(low))
            continue
        if low > given.low:
            yield (Index.of(low), "<=", size)
        if high < given.high:
            yield (size, "<=", Index.of(high))
