"""Random scheduling problems: statements with several mappings, and costs far from those of real machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from plan_problems import LOOPS, MEMORY_ROWS, TLB, small_caches, tile_operand

from isamap.machine.timings import NO_ROWS
from isamap.plan.cost import Add, Cases, CeilDiv, Const, Cost, Decision, Max, Mul, OverBlocks, Threshold
from isamap.plan.problem import (
    NestOption,
    NestProblem,
    Problem,
    Staging,
    TileAxis,
    TileOperand,
    with_fields,
)

ISSUES = {2: 6, 3: 4}
"""How many issues the longest axis takes, after the number of axes: all schedules are to be tried."""


def random_problem(random: Random, statements: int = 2, options: int = 3) -> Problem:
    """Up to so many statements of up to so many mappings each; some machines state no row times."""
    nests = tuple(
        NestProblem(number, tuple(random_option(random, f"f{i}") for i in range(random.randint(1, options))))
        for number in range(random.randint(1, statements))
    )
    sizes = small_caches(random.choice([64, 256, 4096]))
    caches = tuple(replace(cache, kept_ns=random.choice([0, 0, 4, 40])) for cache in sizes)
    caches = (caches[0], replace(caches[1], cores=random.choice([1, 2])))
    registers = (("reg", random.choice([3, 4, 6, 16])), ("wide", random.choice([2, 4])))
    made = Problem("kernel", "machine", (), nests, registers, caches, 1.0)
    if random.random() < 0.2:
        plain = tuple(replace(cache, line_bytes=0, rows=NO_ROWS) for cache in caches)
        return replace(made, caches=plain)
    followed = {
        "swept_count": random.choice([0, 0, 1, 2, 4]),
        "computing_factor": random.choice([0.0, 0.0, 0.5, 1.0]),
        "traffic_factor": random.choice([1.0, 1.0, 0.4, 0.0]),
        "start_bytes": random.choice([0, 0, 8, 64]),
        "crowded_ns": random.choice([0.0, 3.0, 30.0]),
        "crowded_piece_ns": random.choice([0.0, 1.0, 8.0]),
        "swept_ns": random.choice([0.0, 1.0, 5.0]),
    }
    if caches[0].capacity_bytes == 64:  # few tensors fill the usual last cache: these are in memory
        caches = (caches[0], replace(caches[1], capacity_bytes=128))
    ways = random.choice([0, 1, 2])
    caches = tuple(replace(cache, ways=ways, rows=replace(cache.rows, **followed)) for cache in caches)
    rows = replace(MEMORY_ROWS, again_ns=12.0, **followed)
    return replace(made, caches=caches, memory_rows=rows, tlb=TLB, loops=LOOPS)


def random_option(random: Random, mapping: str) -> NestOption:
    """Return a product of two inputs over two or three axes of any roles."""
    count = random.choice([2, 2, 3])
    axes: list[TileAxis] = []
    for name in "mnk"[:count]:
        tile = random.choice([1, 1, 2, 4])
        extent = random.randint(1, ISSUES[count] * tile)
        if name == "k" and random.random() < 0.3:  # sums long enough to be cut
            extent = random.randint(16, 20) * tile
        is_open = random.random() < 0.15
        axes.append(TileAxis(name, extent, tile, name == "k", is_open))
    shared = ("m",) if random.random() < 0.5 else ()
    followed = {"a": ("m", "k"), "b": (*shared, "k", "n"), "c": ("m", "n")}
    present = [axis.name for axis in axes]
    operands = [
        _operand(random, name, tuple(axis for axis in own if axis in present))
        for name, own in followed.items()
    ]
    times_ns = [0.0, 0.5, 1.0, 3.0]
    return NestOption(
        mapping, (), tuple(axes), tuple(operands), random.choice(times_ns), random.choice(times_ns)
    )


def _operand(random: Random, name: str, axes: tuple[str, ...]) -> TileOperand:
    times_ns = [0.0, 0.5, 1.0, 3.0]
    direct = random.choice([*times_ns, None])
    staged = random.choice(times_ns if direct is None else [*times_ns, None])
    wide = name == "c" and staged is not None and random.random() < 0.5
    pack = random.choice([0.0, 0.2, 1.0])
    memory = random.choice(["reg", "reg", "wide"]) if name == "b" else "reg"
    operand = tile_operand(
        name,
        name.upper(),
        axes,
        memory,
        4,
        direct,
        staged,
        element_bytes=random.choice([2, 4]),
        staging=Staging(4, pack, stage_whole=wide),
        is_accumulator=name == "c",
    )
    if staged is not None and random.random() < (0.75 if name == "c" else 0.25):
        moved = random.choice([pack / 2, 2 * pack])
        operand = with_fields(operand, mover=random.choice(["dma", "other"]), moved_ns_per_element=moved)
    elif staged is not None and name != "c" and random.random() < 0.3:
        operand = with_fields(operand, is_concurrent=True)
    if random.random() < 0.2:
        operand = replace(operand, tile_elements=128)  # a tile of many rows
    if axes and random.random() < 0.5:
        operand = with_fields(operand, dense_axis=axes[-1], pitch_bytes=random.choice([64, 4096]))
        return with_fields(operand, is_late=name != "c" and axes[-1] != "k" and random.random() < 0.5)
    return operand


@dataclass(frozen=True, slots=True)
class RandomModel:
    """A cost that is any expression over the decisions: a cost model as a stranger may write one."""

    seed: int
    name: str = "random"

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        """Nothing that means anything, always the same for one option."""
        del problem
        random = Random(f"{self.seed} {nest.statement} {option.mapping}")
        return _Grown(random, nest.statement, option).cost(4)


@dataclass(slots=True)
class _Grown:
    random: Random
    statement: int
    option: NestOption

    def cost(self, depth: int) -> Cost:
        """Return an expression at most so deep."""
        if depth == 0:
            return self.leaf()
        match self.random.randrange(8):
            case 0 | 1:
                return Add(tuple(self.cost(depth - 1) for _ in range(self.random.randint(2, 3))))
            case 2:
                return Mul((self.cost(depth - 1), self.cost(depth - 2 if depth > 1 else 0)))
            case 3:
                return Max(tuple(self.cost(depth - 1) for _ in range(self.random.randint(2, 3))))
            case 4:
                below = self.cost(depth - 1)
                above = Add((below, self.cost(depth - 1)))
                return Threshold(self.whole(), self.random.choice([1, 4, 16, 64]), below, above)
            case 5:
                return self.cases(depth)
            case 6:
                return self.blocks(depth)
            case _:
                return self.whole()

    def leaf(self) -> Cost:
        return Const(self.random.choice([0, 1, 2, 7, 0.25, 1.5, 10.75]))

    def whole(self) -> Cost:
        """Return a whole number that the sizes of blocks decide."""
        axis = self.random.choice(self.option.axes)
        issues = -(-axis.extent // axis.tile)
        if issues < 2:
            return Const(issues)
        block = Decision(f"nest{self.statement}.block.{axis.name}")
        if axis.is_reduction or self.random.random() < 0.5:
            return self.random.choice([block, CeilDiv(Const(axis.extent), block)])
        unroll = Decision(f"nest{self.statement}.unroll.{axis.name}")
        step = Mul((Const(axis.tile), unroll))
        return self.random.choice([unroll, CeilDiv(Const(axis.extent), step), CeilDiv(block, step)])

    def blocks(self, depth: int) -> Cost:
        """Something for each register block, which its size or the placement of an operand decides."""
        running = [axis for axis in self.option.axes if not axis.is_reduction and axis.extent > axis.tile]
        axes = tuple((f"nest{self.statement}.unroll.{a.name}", -(-a.extent // a.tile)) for a in running)
        sizes = [Mul((self.leaf(), *(Decision(name) for name, _ in axes)))]
        return OverBlocks(axes, Max((*sizes, self.leaf(), self.placed(1)))) if axes else self.cost(depth - 1)

    def cases(self, depth: int) -> Cost:
        """Return one value per placement of an operand, or per order of two loops."""
        running = [axis for axis in self.option.axes if -(-axis.extent // axis.tile) > 1]
        if len(running) > 1 and self.random.random() < 0.5:
            return self.order(depth, running)
        return self.placed(depth)

    def placed(self, depth: int) -> Cost:
        """Return one value per placement of an operand."""
        operand = self.random.choice(self.option.operands)
        values = [] if operand.costs.direct_ns is None else [0]
        if operand.costs.staged_ns is not None:
            values += [1] if operand.is_accumulator else [1, 2]
        name = f"nest{self.statement}.stage.{operand.name}"
        return Cases(name, tuple((at, self.cost(depth - 1)) for at in values))

    def order(self, depth: int, running: list[TileAxis]) -> Cost:
        """More for one order of two loops than for the other, where both run more than once.

        Otherwise both orders are the same schedule, which has one cost.
        """
        first, second = (running[i] for i in sorted(self.random.sample(range(len(running)), 2)))
        name = f"nest{self.statement}.order.{first.name}.{second.name}"
        cost: Cost = Cases(name, tuple((at, self.cost(depth - 1)) for at in (0, 1)))
        for axis in (first, second):
            trips = CeilDiv(Const(axis.extent), Decision(f"nest{self.statement}.block.{axis.name}"))
            cost = Threshold(trips, 1, Const(0), cost)
        return cost
