"""Report bytes moved per memory level, from the simulation if there is one, else from the model.

level  read     written  of
dram   8 KiB    4 KiB    A 4 KiB, B 4 KiB, Y 4 KiB
spad   16 KiB   12 KiB   …
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from isamap.lower.program import LoweredProgram
from isamap.machine import Machine, home_of
from isamap.plan.access_counts import StatementAccesses
from isamap.plan.problem import Problem
from isamap.report.columns import Row, bytes_text, energy_text
from isamap.report.page.timeline import route_of
from isamap.report.roofline import Roofline, Slope
from isamap.simulate.recording import CarriedBytes, Recorded
from isamap.source.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class LevelBytes:
    """The bytes read from a level and written to it. `arrays` has both together by name. Units: bytes.

    For a cache the model knows the bytes read from it, but not which of them are written back.
    """

    level: str
    read_bytes: float
    written_bytes: float
    arrays: tuple[tuple[str, float], ...]

    @property
    def total_bytes(self) -> float:
        return self.read_bytes + self.written_bytes


def memory_of_arrays(program: LoweredProgram, machine: Machine) -> Mapping[str, str]:
    """Return the memory of each tensor and each buffer, by name."""
    home = home_of(machine)
    found = {tensor.name: tensor.memory or home for tensor in program.tensors}
    return found | {buffer.name: buffer.memory or home for buffer in program.buffers}


def levels_by_program(
    recorded: Recorded, program: LoweredProgram, machine: Machine
) -> tuple[LevelBytes, ...]:
    """Return the bytes that all issues read and write in each memory, the memory of tensors first."""
    memory = memory_of_arrays(program, machine)
    found: dict[str, dict[str, list[int]]] = {home_of(machine): {}}
    for carried in recorded.carried:
        both = found.setdefault(memory[carried.array], {}).setdefault(carried.array, [0, 0])
        both[0] += carried.read_bytes
        both[1] += carried.written_bytes
    return tuple(
        LevelBytes(
            level,
            sum(read for read, _ in arrays.values()),
            sum(written for _, written in arrays.values()),
            tuple((name, read + written) for name, (read, written) in arrays.items()),
        )
        for level, arrays in found.items()
    )


def levels_by_model(
    roofs: Iterable[Roofline], counted: Sequence[StatementAccesses], problem: Problem, machine: Machine
) -> tuple[LevelBytes, ...]:
    """Return the bytes of each level: counted for the nearest cache, modelled for the others."""
    nearest = problem.caches[0].name if problem.caches else home_of(machine)
    return (*_count_far_levels(roofs), _nearest(nearest, counted, machine))


def _nearest(level: str, counted: Sequence[StatementAccesses], machine: Machine) -> LevelBytes:
    """Return the traffic between registers and memory, and between tensors and their copies."""
    read, written, by = 0, 0, dict[str, float]()
    for statement in counted:
        for a in statement.accesses:
            known = machine.memories.get(a.level)
            if known is not None and known.kind == "registers":
                continue
            read += a.element_bytes * (a.reads + a.drains)
            written += a.element_bytes * (a.updates + a.fills)
            by[a.tensor] = by.get(a.tensor, 0.0) + a.element_bytes * (
                a.reads + a.drains + a.updates + a.fills
            )
    return LevelBytes(level, read, written, tuple(by.items()))


def _count_far_levels(roofs: Iterable[Roofline]) -> Iterator[LevelBytes]:
    """Yield the modelled bytes of each level beyond the nearest cache, the farthest first."""
    found: dict[str, dict[str, float]] = {}
    for roof in roofs:
        for slope in roof.slopes:
            of = f"statement {roof.statement}"
            found.setdefault(slope.level, {})[of] = slope.moved_bytes
    for level, by in reversed(found.items()):
        yield LevelBytes(level, sum(by.values()), 0.0, tuple((of, size) for of, size in by.items() if size))


def with_links(
    roof: Roofline, note: str, recorded: Recorded, program: LoweredProgram, machine: Machine
) -> Roofline:
    """Return the roofline, if it has no caches with a slope for each link. `note` names the block of the bytes."""
    if roof.slopes:
        return roof
    memory = memory_of_arrays(program, machine)
    own = [c for c in recorded.carried if c.block == note]
    slopes = [
        Slope(
            f"{link.source_memory} – {link.target_memory}",
            link.bandwidth_bytes_per_ns,
            _crossing_bytes(own, (link.source_memory, link.target_memory), memory, machine),
        )
        for link in machine.links
    ]
    return replace(roof, slopes=tuple(slopes))


def _crossing_bytes(
    carried: Sequence[CarriedBytes], link: tuple[str, str], memory: Mapping[str, str], machine: Machine
) -> float:
    """Return the bytes of a link's farther memory that instructions move along the link, in both directions."""
    ways = (f"{link[0]} → {link[1]}", f"{link[1]} → {link[0]}")
    return float(
        sum(
            c.read_bytes + c.written_bytes
            for c in carried
            if route_of(c.instruction, machine) in ways and memory[c.array] == link[0]
        )
    )


ACCESS_HEAD: Row = ("statement", "level", "operand", "tensor", "reads", "fills", "updates", "drains")


def access_rows(counted: Sequence[StatementAccesses]) -> tuple[Row, ...]:
    """Return the counts of `isamap accesses` in bytes, with the element sizes of each level."""
    has_energy = any(statement.energy is not None for statement in counted)
    rows: list[Row] = [(*ACCESS_HEAD, "energy") if has_energy else ACCESS_HEAD]
    for statement in counted:
        for a in statement.accesses:
            sizes = (bytes_text(a.element_bytes * n) for n in (a.reads, a.fills, a.updates, a.drains))
            spent = () if a.energy_pj is None else (energy_text(a.energy_pj),)
            rows.append((str(statement.statement), a.level, a.operand, a.tensor, *sizes, *spent))
    return tuple(rows)


def level_rows(levels: Sequence[LevelBytes]) -> list[Row]:
    """Return the levels as table rows, the header first."""
    rows: list[Row] = [("level", "read", "written", "of")]
    for level in levels:
        of = ", ".join(f"{name} {bytes_text(round(size))}" for name, size in level.arrays)
        both = (bytes_text(round(size)) for size in (level.read_bytes, level.written_bytes))
        rows.append((level.level, *both, of))
    return rows
