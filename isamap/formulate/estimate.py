"""Estimate the utilisation and the time of a mapping without a search for a schedule.

    fma_zmm_f32 { i: n } of gemm_f32, M = N = K = 100:  utilisation 100 / (7 * 16) = 0.89, 70000 issues

The time is that of all issues one after another at their interval, plus one movement of every tile of every
operand by its chain. A schedule is slower if it moves a tile twice, and faster if units work in parallel.
The estimate ranks mappings. It is not a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingType
from math import inf, prod

from isamap.ir import Axis, Index
from isamap.machine import Machine, MachineInstruction, cost_params, cost_value
from isamap.match import Mapping, Movement, Pattern, choose_params, pattern_of
from isamap.plan.problem import TileAxis
from isamap.source import add_up, dataclass, replace
from isamap.transform import Statement, symbols

Sizes = MappingType[str, int]
ENOUGH = 2**20  # of iterations along an axis left open: what is cut off its end does not count


@dataclass(frozen=True, slots=True)
class Walk:
    """The loop axes of a mapping as numbers: kernel axes, iterations, and iterations per issue."""

    axes: tuple[str, ...]
    extent: int
    tile: int

    @property
    def trips(self) -> int:
        return -(-self.extent // self.tile)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The utilisation of an instruction by a mapping. Units: `compute_ns` for all issues together.

    `walks` are the loops. `lanes` is the number of kernel iterations that one issue could perform.
    """

    walks: tuple[Walk, ...]
    lanes: int
    compute_ns: float

    @property
    def issues(self) -> int:
        return prod(w.trips for w in self.walks)

    @property
    def utilisation(self) -> float:
        """The share of lanes, over all issues, that perform an iteration of the kernel."""
        return prod(w.extent for w in self.walks) / (self.issues * self.lanes)

    def tiles_of(self, axes: frozenset[str]) -> int:
        """Return the number of different tiles of an operand that depends on these kernel axes."""
        return prod(w.trips for w in self.walks if axes & set(w.axes))


def number_extents(statement: Statement, sizes: Sizes, open_extent: int | None = None) -> Statement | None:
    """Return the statement with numeric extents. Open ones are `open_extent`, or the result is None."""

    def fixed(axis: Axis) -> Axis | None:
        value = axis.extent.substitute(sizes).value
        value = open_extent if value is None else value
        return None if value is None else replace(axis, extent=Index.of(value))

    axes = [fixed(a) for a in statement.axes]
    sequence = [fixed(a) for a in statement.sequence]
    if None in axes or None in sequence:
        return None
    return replace(statement, axes=tuple(a for a in axes if a), sequence=tuple(a for a in sequence if a))


def estimate(statement: Statement, mapping: Mapping, pattern: Pattern, machine: Machine) -> Estimate | None:
    """Return the estimate for a statement with numeric extents, or None if it has no iteration."""
    params = choose_params(statement, mapping, pattern, {})
    lengths = _lengths(pattern, params, machine)
    grouped = {a for g in mapping.groups for a in g.kernel_axes}
    loops = [a for a in statement.axes + statement.sequence if a.name not in grouped]
    walks = [Walk((a.name,), a.extent.value or 0, 1) for a in loops]
    for group in mapping.groups:
        extent = prod(statement.axis(a).extent.value or 0 for a in group.kernel_axes)
        walks.append(Walk(group.kernel_axes, extent, _length(group.instruction_axes, lengths) or extent))
    if not all(w.extent > 0 for w in walks):
        return None
    lanes = prod(w.tile for w in walks) * (_length(mapping.empty, lengths) or 1)
    issues = prod(w.trips for w in walks)
    item = machine.instructions[mapping.instruction]
    return Estimate(tuple(walks), lanes, issues * interval_ns(item, machine, params))


def bound_of_utilisation(mapping: Mapping, pattern: Pattern) -> float | None:
    """Return an upper bound on the share of busy lanes, such as 1/16 if an axis of length 16 is unused, or None."""
    lengths = [a.extent.value for a in pattern.axes if a.name in mapping.empty]
    return 1 / prod(n for n in lengths if n) if any(lengths) else None


def interval_ns(item: MachineInstruction, machine: Machine, params: MappingType[str, int]) -> float:
    """Return the time for which one issue occupies its unit, divided by the unit's copies."""
    count = max(1, machine.units[item.cost.unit].count)
    return cost_value(item.cost.interval_ns, cost_params(item, machine, params)) / count


def issue_lengths(
    params: Iterable[tuple[str, int]], axes: Iterable[TileAxis], lengths: MappingType[str, str]
) -> list[tuple[dict[str, int], float]]:
    """Return the parameters of issues, each with the share of issues that use them.

    `lengths` has the parameter of each axis that is the number of elements of an issue: at the end of the axis,
    the remainder.
    """
    found = [(dict(params), 1.0)]
    for axis in axes:
        name = lengths.get(axis.name, "")
        if found[0][0].get(name) == axis.tile:
            whole, left = divmod(axis.extent, axis.tile)
            pieces = [(axis.tile, whole), (left, 1)] if left else [(axis.tile, whole)]
            issues = max(1, whole + (left > 0))
            found = [({**p, name: n}, part * k / issues) for p, part in found for n, k in pieces if k]
    return found


def moves_ns(
    movement: Movement, statement: Statement, mapping: Mapping, made: Estimate, machine: Machine
) -> float:
    """Return the time of moving all tiles of an operand once, including copies into a buffer."""
    # The kernel axes on which an operand's element depends.
    bound = [symbols(b.subject) for b in mapping.bindings if b.name == movement.operand]
    target = frozenset(s for i in statement.assign.target.index for s in i.symbols)
    tiles = made.tiles_of(frozenset[str]().union(*bound) if bound else target)
    if movement.packing_ns is not None:
        return tiles * (movement.cost_ns + movement.packing_ns)
    packing = [machine.instructions[name] for name in movement.packing]
    one = add_up(interval_ns(item, machine, {}) for item in packing) / len(packing) if packing else 0.0
    return tiles * (movement.cost_ns + movement.packing_moves * one)


def _lengths(pattern: Pattern, params: MappingType[str, int], machine: Machine) -> dict[str, int]:
    """Return the lengths of instruction axes, with machine constants at typical values and masks at full length."""
    known = {c.name: Index.of(c.default) for c in machine.constants if c.default is not None}
    masks = {p.name: p.high for p in pattern.instruction.params if p.kind == "scalar" and p.high is not None}
    extents = ((a.name, a.extent.substitute(params).substitute(masks)) for a in pattern.axes)
    numbers = ((name, extent.substitute(known).value) for name, extent in extents)
    return {name: number for name, number in numbers if number is not None}


def _length(axes: Sequence[str], lengths: MappingType[str, int]) -> int | None:
    """Return the product of the axes' lengths, or None if one of them has no upper bound."""
    return prod(lengths[a] for a in axes) if all(a in lengths for a in axes) else None


def open_compute_ns(statement: Statement, mapping: Mapping, machine: Machine) -> float:
    """Return the time of a mapping's instructions, with open axes assumed long, or infinity if unknown."""
    pattern = pattern_of(machine.instructions[mapping.instruction].instruction)
    fixed = number_extents(statement, {}, ENOUGH)
    found = estimate(fixed, mapping, pattern, machine) if pattern is not None and fixed is not None else None
    return found.compute_ns if found is not None else inf
