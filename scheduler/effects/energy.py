"""Cost models of energy: the accesses of a schedule as an expression over its decisions. Units: picojoules.

    issues        number of issues * energy of one
    home, a       elements loaded * energy to read them
    sram, a       fills to write, tiles to read
    leakage       time by the analytic model * leakage

The counts are those of `isamap accesses` by the convention `isamap`, for tensors without short tiles. A fused
statement adds `Fusion.extra_pj`, which is the difference of those counts with it and without.
"""

from __future__ import annotations

from math import prod

from isamap.plan.cost import Cases, Const, Cost, Threshold, times, total
from isamap.plan.problem import Energies, NestOption, NestProblem, Problem, TileAxis, TileOperand
from isamap.plan.protocols import CostModel
from isamap.scheduler.deciding.space import Space, issues_along, issues_of
from isamap.scheduler.deciding.tiling import Tiling, tile
from isamap.scheduler.deciding.window_buffers import reaches_of
from isamap.scheduler.effects.copying import copied_again
from isamap.scheduler.effects.table import ROUNDED, AnalyticModel
from isamap.source import UsageProblem, add_up, dataclass

TIME = AnalyticModel()
# Limit of the search: a schedule beyond a bound costs so many times the one that the bound is from.
DEAR = 4.0


def required_energies(problem: Problem) -> Energies:
    """Return the energies that the machine states. Raises: UsageProblem if it states none."""
    if problem.energies is None:
        said = f"{problem.machine} states no energies"
        help_ = "state `energy` of its memories and `energy_pj` of instructions, or leave out `--objective`"
        raise UsageProblem.of("objective-unavailable", said, help=help_)
    if problem.threads > 1:
        said = f"energy is counted of one thread, and {problem.threads} threads perform {problem.kernel}"
        raise UsageProblem.of("objective-unavailable", said, help="leave out `--threads`")
    return problem.energies


@dataclass(frozen=True, slots=True)
class EnergyModel:
    """The energy of a statement's schedule."""

    name: str = "energy"

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        """Return the energy of a statement under one option. Units: picojoules."""
        energies = required_energies(problem)
        tiling = tile(Space(nest.statement, option, problem.registers_of(option), {}))
        parts = [_operand_pj(tiling, o, energies, problem) for o in option.operands if o.layout.tensor_bytes]
        if energies.leakage_pj_per_ns:
            parts.append(times(energies.leakage_pj_per_ns, TIME.expression(problem, nest, option)))
        return total([Const(issues_of(option) * option.issue_pj), *parts])

    def least_ns(self, problem: Problem, option: NestOption) -> float:
        """Return a lower bound of `expression`: issues with their register accesses, and a store of each result."""
        energies = required_energies(problem)
        accessed = add_up(
            min(_issued_pj(option, o, energies.access_pj(o.memory), padded=p) for p in (False, True))
            for o in option.operands
            if o.layout.tensor_bytes and _is_file(o, problem)
        )
        written = add_up(
            _elements([a for a in option.axes if a.name in o.axes])
            * o.layout.tensor_bytes
            * sum(_access_energies(option, o, energies.access_pj(o.layout.main)))
            for o in option.operands
            if o.is_accumulator
        )
        return (issues_of(option) * option.issue_pj + accessed + written) * ROUNDED


@dataclass(frozen=True, slots=True)
class EdpModel:
    """The product of energy and time of a statement's schedule. Units: picojoules times nanoseconds."""

    name: str = "edp"

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        """Return the product of the expressions for energy and time."""
        energy = EnergyModel().expression(problem, nest, option)
        return times(energy, TIME.expression(problem, nest, option))

    def least_ns(self, problem: Problem, option: NestOption) -> float:
        """Return the product of the lower bounds of energy and time."""
        return EnergyModel().least_ns(problem, option) * TIME.least_ns(problem, option)


@dataclass(frozen=True, slots=True)
class WithinModel:
    """A cost model under a limit on another one. Schedules beyond the limit cost more than all others.

    `limits` are by statement. `price` is the cost of each unit of the limited model beyond the limit.
    """

    objective: CostModel
    bounded: CostModel
    limits: tuple[tuple[int, int], ...]
    price: float
    name: str

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        """Return the cost by the objective within the limit, and a higher cost than any such beyond the limit."""
        cost = self.objective.expression(problem, nest, option)
        load = self.bounded.expression(problem, nest, option)
        limit = dict(self.limits)[nest.statement]
        return Threshold(load, limit, cost, total([cost, times(self.price, load)]))


# --- accesses of one operand ------------------------------------------------------------------------------

Each = tuple[float, float]
"""The energy of a byte or a tile: of a read, and of a write."""


def _is_file(operand: TileOperand, problem: Problem) -> bool:
    """Return whether an operand is in registers when an instruction uses it."""
    files = {name for name, _ in problem.registers}
    return operand.memory in files and operand.memory not in operand.staging.homes and operand.registers > 0


def _issued_pj(option: NestOption, operand: TileOperand, each: Each, *, padded: bool) -> float:
    """Return the energy of all accesses by issues to an operand. `padded` counts whole tiles."""
    own = [axis for axis in option.axes if axis.name in operand.axes]
    others = prod(issues_along(axis) for axis in option.axes if axis not in own)
    elements = _tiled_elements(option, operand) if padded else _elements(own)
    return elements * others * operand.staging.staged_bytes * sum(_access_energies(option, operand, each))


def _tiled_elements(option: NestOption, operand: TileOperand) -> int:
    """Return the elements in all tiles of an operand. Tiles of a result are cut along `lengths`."""
    own = [axis for axis in option.axes if axis.name in operand.axes]
    ends = [axis for axis in own if operand.is_accumulator and axis.name in option.lengths]
    inside = prod(axis.tile for axis in ends)
    tiles = prod(issues_along(axis) for axis in own if axis not in ends)
    return _elements(ends) * tiles * operand.tile_elements // inside


def _elements(axes: list[TileAxis]) -> int:
    return prod(axis.extent for axis in axes)


def _held_elements(option: NestOption, operand: TileOperand) -> int:
    """Return the elements in all buffers of an operand. Each plane of a window counts once."""
    extents = {a.name: a.extent for a in option.axes if a.name in operand.axes}
    count = 1
    for window in operand.staging.windows:
        reaches = reaches_of(window, option)
        count *= extents.pop(window.along) * len(reaches) + sum(reaches)
        extents.pop(window.tap)
    return count * prod(extents.values())


def _access_energies(option: NestOption, operand: TileOperand, each: Each) -> Each:
    """Return the energies of one access to an operand: of a read, and of a write. Those that do not occur are 0."""
    reads = not operand.is_accumulator or option.is_sum
    return each[0] if reads else 0.0, each[1] if operand.is_accumulator else 0.0


def _operand_pj(tiling: Tiling, operand: TileOperand, energies: Energies, problem: Problem) -> Cost:
    """Return the energy of an operand's accesses, moves and transfers, by the memory that it is read from."""
    space, option = tiling.space, tiling.space.option
    is_file = _is_file(operand, problem)
    own = [axis for axis in option.axes if axis.name in operand.axes]
    if operand.is_accumulator:
        around = [tiling.blocks[axis.name] for axis in space.axes if axis.name not in operand.axes]
    else:
        around = [tiling.steps[axis.name] for axis in space.axes if axis.name not in operand.axes]

    counted = [o for o in option.operands if o.layout.tensor_bytes]
    is_copy = not option.is_sum and len(counted) == 2 and not operand.is_accumulator
    result = next((o.memory for o in counted if is_copy and o.is_accumulator), None)

    def carried_pj(outer: str, inner: str, outer_bytes: int, moves: Each) -> float:
        """Return the energy to move an element between two memories, in the directions in which it moves."""
        link = energies.link_pj(outer, inner)
        out, into = energies.access_pj(outer), energies.access_pj(inner)
        ways = (
            outer_bytes * (out[0] + link) + operand.staging.staged_bytes * into[1] + moves[0],
            outer_bytes * (out[1] + link) + operand.staging.staged_bytes * into[0] + moves[1],
        )
        return sum(_access_energies(option, operand, ways))

    def used_pj(home: str, home_bytes: int, moves: Each, *, padded: bool) -> Cost:
        """Return the energy to move tiles from a memory to all issues."""
        memory = operand.memory if is_file or operand.memory in operand.staging.homes else home
        read, written = energies.access_pj(memory)
        read += energies.link_pj(memory, result) if result is not None else 0.0
        if not is_file:
            return Const(_issued_pj(option, operand, (read, written), padded=padded))
        each = moves[0] / operand.tile_elements, moves[1] / operand.tile_elements
        count = _tiled_elements(option, operand) if padded else _elements(own)
        loads = times(count * carried_pj(home, operand.memory, home_bytes, each), *around)
        return total([loads, Const(_issued_pj(option, operand, (read, written), padded=padded))])

    main, values, costs = operand.layout.main, space.stage_values(operand), dict[int, Cost]()
    for value in values:
        if value == 0:
            direct = operand.costs.energy.direct
            costs[value] = used_pj(main, operand.layout.tensor_bytes, direct, padded=False)
            continue
        carried = carried_pj(
            main, operand.staging.homes[0], operand.layout.tensor_bytes, operand.costs.energy.copied
        )
        filled = _held_elements(option, operand) * carried
        again = copied_again(tiling, operand) if value == 1 else []
        used = used_pj(
            operand.staging.homes[0], operand.staging.staged_bytes, operand.costs.energy.staged, padded=True
        )
        costs[value] = total([times(filled, *again), used])
    if len(costs) == 1:
        return next(iter(costs.values()))
    return Cases(space.stage(operand), tuple(costs.items()))
