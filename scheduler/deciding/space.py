"""The decisions about one option of a statement: register blocks, cache blocks, loop orders, stages.

    register_blocks(option, {"zmm": 32})  ->  ({"m": 6, "n": 4}, {"m": 5, "n": 5}, ...)

The first axes of a pair in `order` and `sweep` are those that the problem lists first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, permutations
from math import prod

from isamap.plan.decisions import block_of, fuse_of, order_of, parallel_of, stage_of, sweep_of, unroll_of
from isamap.plan.problem import NestOption, TileAxis, TileOperand
from isamap.scheduler.deciding.orders import order_clauses
from isamap.scheduler.deciding.per_operand import constraints_of, open_values, staged_by
from isamap.scheduler.deciding.scratch import capacities
from isamap.scheduler.deciding.sums import sum_constraints, sweeping_axis
from isamap.scheduler.translation.constraints import OptionConstraints, is_met
from isamap.source.records import dataclass, field

# --- fitting --------------------------------------------------------------------------------------------

# Find the register blocks that fit into the registers, once for all options with equal register needs.
#
# fit_unroll_factors((RegisterNeed("zmm", 1, (True, False)), RegisterNeed("zmm", 1, (False, True)),
#          RegisterNeed("zmm", 1, (True, True), True)),
#         (("zmm", 32),), (64, 4), 64)  ->  ((2, 2), (2, 3), (2, 4), (3, 2), …)


@dataclass(frozen=True, slots=True)
class RegisterNeed:
    """The registers that an operand needs: registers per tile, and the unrolled axes that it depends on."""

    memory: str
    registers: int
    follows: tuple[bool, ...]
    is_accumulator: bool = False


@lru_cache(maxsize=4096)
def fit_unroll_factors(
    takers: tuple[RegisterNeed, ...],
    registers: tuple[tuple[str, int], ...],
    limits: tuple[int, ...],
    most: int,
) -> tuple[tuple[int, ...], ...]:
    """Return the unroll factors of at most two axes that fit the registers, `limits` and the product `most`."""
    found: list[tuple[int, ...]] = []
    first, second = (*limits, 1, 1)[:2]
    for i in range(2, first + 1) if limits else (1,):
        for j in range(2, second + 1) if len(limits) > 1 else (1,):
            factors = (i, j)[: len(limits)]
            if prod(factors) > most or not _fits(takers, dict(registers), factors):
                break  # a larger factor takes more
            found.append(factors)
    return tuple(found)


def _fits(takers: Sequence[RegisterNeed], registers: dict[str, int], factors: tuple[int, ...]) -> bool:
    """Return whether the live tiles fit into the registers in some order of the unrolled axes."""
    return any(_fits_in_order(takers, registers, factors, o) for o in permutations(range(len(factors))))


def _fits_in_order(
    takers: Sequence[RegisterNeed],
    registers: dict[str, int],
    factors: tuple[int, ...],
    order: tuple[int, ...],
) -> bool:
    needed: dict[str, int] = {}
    for taker in takers:
        follows = [taker.follows[i] for i in order]
        tiles = count_live(follows, [factors[i] for i in order], is_accumulator=taker.is_accumulator)
        needed[taker.memory] = needed.get(taker.memory, 0) + tiles * taker.registers
    return all(count <= registers.get(memory, count) for memory, count in needed.items())


def count_live(follows: Sequence[bool], factors: Sequence[int], *, is_accumulator: bool) -> int:
    """Return the number of live tiles. All tiles of an accumulator live, and of an input those that are reused.

    Both arguments are given per unrolled axis, outer to inner: whether the operand follows it, and its
    factor.
    """
    if is_accumulator:
        return prod(factor for follow, factor in zip(follows, factors, strict=True) if follow)
    tiles = 1
    reused = False
    for follow, factor in zip(follows, factors, strict=True):
        reused = reused or not follow
        tiles *= factor if reused and follow else 1
    return tiles


# --- space ----------------------------------------------------------------------------------------------


Assignment = Mapping[str, int]
RegisterBlock = Mapping[str, int]

# Limit of the search: more issues in one loop body exceed instruction caches, and C compilers take long.
MAX_UNROLLED = 64
# Limit of the search: register blocks along more axes take more registers for the same reuse of operands.
MAX_UNROLLED_AXES = 2
# Limit of the search: into how many cache blocks an axis may be cut. Source: benchmarks/block_counts.py, by which all
# numbers are worth less than a per cent.
BLOCK_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80)
# Limit of the search: a summing loop in a register block that runs less often spends its time on the block's ends.
MIN_SUMMING_TRIPS = 8
# Limit of the search: with fewer rows side by side, fewer loads are in flight.
LEAST_SWEPT = 4


@dataclass(frozen=True, slots=True)
class Space:
    """The decisions about one option. `fixed` are decisions that a user has made.

    `kept` caches the rules, and `sizes` by its name an operand with its bytes.
    """

    statement: int
    option: NestOption
    registers: Mapping[str, int]
    fixed: Assignment
    scratchpads: Mapping[str, int] = field(default_factory=dict[str, int])
    kept: list[OptionConstraints] = field(
        init=False, repr=False, compare=False, default_factory=list["OptionConstraints"]
    )
    sizes: dict[str, tuple[TileOperand, tuple[int, int]]] = field(
        init=False,
        repr=False,
        compare=False,
        default_factory=dict[str, "tuple[TileOperand, tuple[int, int]]"],
    )

    @property
    def axes(self) -> tuple[TileAxis, ...]:
        """The axes with more than one tile. Only their loops have decisions."""
        return tuple([axis for axis in self.option.axes if axis.extent > axis.tile])

    @property
    def register_axes(self) -> tuple[TileAxis, ...]:
        return tuple([axis for axis in self.axes if not axis.is_reduction])

    @property
    def splits_sum(self) -> bool:
        """Return whether a sum is divided among threads."""
        dealt = {name for name, _ in self.option.parts}
        return any(axis.is_reduction and axis.name in dealt for axis in self.option.axes)

    def unroll(self, axis: TileAxis) -> str:
        return unroll_of(self.statement, axis.name)

    def block(self, axis: TileAxis) -> str:
        return block_of(self.statement, axis.name)

    def stage(self, operand: TileOperand) -> str:
        return stage_of(self.statement, operand.name)

    def order_pairs(self) -> tuple[tuple[str, TileAxis, TileAxis], ...]:
        """Return the decisions about the order of cache-block loops: name, outer axis if it is 1, other axis."""
        pairs = combinations(self.axes, 2)
        return tuple((order_of(self.statement, a.name, b.name), a, b) for a, b in pairs)

    def sweep_pairs(self) -> tuple[tuple[str, TileAxis, TileAxis], ...]:
        """Return the decisions about the order of register-block loops: name, outer axis if it is 1, other axis."""
        pairs = combinations(self.register_axes, 2)
        return tuple((sweep_of(self.statement, a.name, b.name), a, b) for a, b in pairs)

    def stage_values(self, operand: TileOperand) -> tuple[int, ...]:
        """Return how an operand may be staged: 0 in place, 1 per block, 2 as a whole."""
        values: list[int] = [] if operand.costs.direct_ns is None else [0]
        if operand.is_accumulator and self.splits_sum:
            values = []  # each part sums into a buffer of its own
        if operand.costs.staged_ns is not None:
            values += [1] if operand.is_accumulator else [2] if operand.staging.is_packed else [1, 2]
        return self.allowed(self.stage(operand), staged_by(self, operand, values))

    def allowed(self, name: str, values: list[int]) -> tuple[int, ...]:
        """Return the values of a decision with which the fixed decisions agree."""
        return tuple(value for value in values if self.fixed.get(name, value) == value)

    @property
    def rules(self) -> OptionConstraints:
        """The constraints among decisions, built once."""
        if not self.kept:
            constraints = (*sum_constraints(self), *constraints_of(self))
            self.kept.append(
                OptionConstraints(constraints, tuple(order_clauses(self)), tuple(capacities(self)))
            )
        return self.kept[0]

    def is_allowed(self, assignment: Assignment) -> bool:
        """Return whether decisions satisfy all constraints other than those of scratchpads."""
        return all(is_met(constraint.facts, assignment) for constraint in self.rules.constraints)

    def fits_scratchpads(self, assignment: Assignment) -> bool:
        """Return whether all buffers fit into their scratchpads."""
        return all(is_met((capacity,), assignment) for capacity in self.rules.capacities)

    def is_feasible(self, assignment: Assignment) -> bool:
        """Return whether the decisions form a valid schedule. Orders must be acyclic."""
        return self.is_allowed(assignment) and self.fits_scratchpads(assignment)

    def axes_of(self, operand: TileOperand) -> list[TileAxis]:
        """Return the axes with a loop on which an operand depends."""
        return [axis for axis in self.axes if axis.name in operand.axes]

    def names(self) -> tuple[str, ...]:
        """Return the names of all decisions of this option."""
        return (
            *(unroll_of(self.statement, axis.name) for axis in self.option.axes),
            *(block_of(self.statement, axis.name) for axis in self.option.axes),
            *(name for name, _, _ in self.order_pairs()),
            *(name for name, _, _ in self.sweep_pairs()),
            *(self.stage(operand) for operand in self.option.operands),
            *open_values(self),
            *(parallel_of(self.statement, axis.name) for axis in self.option.axes),
            *(fuse_of(self.statement, fusion.statement) for fusion in self.option.fusions),
        )

    def register_blocks(self) -> tuple[RegisterBlock, ...]:
        """Return the unroll factors of axes that fit into the registers, smallest blocks first."""
        found: set[tuple[int, ...]] = set()
        axes = self.register_axes
        for count in range(min(MAX_UNROLLED_AXES, len(axes)) + 1):
            for chosen in combinations(range(len(axes)), count):
                found |= set(self._blocks_along(chosen))
        allowed = [b for b in sorted(found) if self._agrees(b)] or self._fixed_block()
        return tuple({axis.name: factor for axis, factor in zip(axes, b, strict=True)} for b in allowed)

    def _blocks_along(self, chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Yield the unroll factors that are above 1 on exactly the chosen axes."""
        axes = self.register_axes
        names = [axes[position].name for position in chosen]
        limits = tuple(min(issues_along(axes[position]), MAX_UNROLLED) for position in chosen)
        takers = tuple(
            RegisterNeed(memory, registers, tuple(name in o.axes for name in names), o.is_accumulator)
            for o in self.option.operands
            for memory, registers in o.takes
        )
        takers += tuple(RegisterNeed(m, count, (False,) * len(names)) for m, count in self.option.between)
        for along in fit_unroll_factors(takers, tuple(sorted(self.registers.items())), limits, MAX_UNROLLED):
            factors = [1] * len(axes)
            for position, factor in zip(chosen, along, strict=True):
                factors[position] = factor
            yield tuple(factors)

    def _agrees(self, factors: tuple[int, ...]) -> bool:
        pairs = zip(self.register_axes, factors, strict=True)
        return all(self.fixed.get(self.unroll(axis), factor) == factor for axis, factor in pairs)

    def _fixed_block(self) -> list[tuple[int, ...]]:
        """Return the fixed register block, if it unrolls more axes than the search does."""
        limits = [min(issues_along(axis), MAX_UNROLLED) for axis in self.register_axes]
        block = tuple(self.fixed.get(self.unroll(axis), 1) for axis in self.register_axes)
        inside = all(1 <= factor <= limit for factor, limit in zip(block, limits, strict=True))
        return [block] if inside and prod(block) <= MAX_UNROLLED and self._fits(block) else []

    def _fits(self, factors: tuple[int, ...] | list[int]) -> bool:
        block = {axis.name: factor for axis, factor in zip(self.register_axes, factors, strict=True)}
        return self._needs(block, self.unroll_order(block))[0] <= 0

    def unroll_order(self, block: RegisterBlock) -> tuple[str, ...]:
        """Return the unrolled axes in the order that needs the fewest registers, the outermost first."""
        orders = list(permutations([name for name, factor in block.items() if factor > 1]))
        return min(orders, key=lambda order: (self._needs(block, order), orders.index(order)))

    def _needs(self, block: RegisterBlock, order: tuple[str, ...]) -> tuple[int, int]:
        """Return how many registers the fullest memory lacks, and how many are needed in total."""
        needed = dict(self.option.between)
        for operand in self.option.operands:
            live = live_tiles(operand, block, order)
            for memory, registers in operand.takes:
                needed[memory] = needed.get(memory, 0) + live * registers
        missing = [count - self.registers.get(memory, count) for memory, count in needed.items()]
        return max(missing, default=0), sum(needed.values())

    def blocks(self, axis: TileAxis, unroll: int) -> tuple[int, ...]:
        """Return the possible cache-block sizes of an axis in elements, largest first. The extent is no blocking."""
        step = unroll * axis.tile
        fixed = self.fixed.get(self.block(axis))
        if fixed is not None and fixed < axis.extent:
            return (fixed,) if fixed >= step and fixed % axis.tile == 0 else ()
        if fixed is not None:
            return (axis.extent,)
        if any(axis.name == window.tap for o in self.option.operands for window in o.staging.windows):
            return (axis.extent,)  # taps share what they read
        trips = -(-axis.extent // step)
        # Where blocks have to fit into a scratchpad, short summing loops are better than none.
        least = MIN_SUMMING_TRIPS if axis.is_reduction and not self.scratchpads else 1
        # A long axis has small blocks, too: its counts double until no more are left.
        counts = (*BLOCK_COUNTS, *(1 << n for n in range(7, max(13, trips.bit_length()))))
        sizes = {-(-trips // count) * step for count in counts if -(-trips // count) * unroll >= least}
        if unroll >= LEAST_SWEPT and axis == sweeping_axis(self.option):
            sizes.add(step)  # no loop inside the register block
        return tuple(sorted({axis.extent, *(size for size in sizes if size < axis.extent)}, reverse=True))


def issues_along(axis: TileAxis) -> int:
    """Return the number of issues along an axis."""
    return -(-axis.extent // axis.tile)


def issues_of(option: NestOption) -> int:
    """Return the number of issues of the whole statement."""
    return prod(map(issues_along, option.axes))


def live_tiles(operand: TileOperand, block: RegisterBlock, order: tuple[str, ...]) -> int:
    """Return the number of live tiles. All tiles of an accumulator live, and of an input those that are reused."""
    follows = [axis in operand.axes for axis in order]
    return count_live(follows, [block[axis] for axis in order], is_accumulator=operand.is_accumulator)
