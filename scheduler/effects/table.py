"""The table of effects of the analytic model.

For C[m, n] += A[m, k] * B[k, n], with register blocks of um x un issues and cache blocks of bm x bn x bk:

    the longest of  all issues, or the latency of dependent sums if there are few accumulators
                    loads of a and b, each tile once
                    misses of all caches / bandwidths, and the starts of rows
                    …
    + the exposed part of these, by which the overlap is imperfect
    + moves of accumulators + packing and its reads + pages + loop overhead + …

A new effect is a module with its formula, a line here, and one in docs/effects.md; the price, its parts,
reports, floors and the docs' test read the table.

Known errors: halos of convolutions are read once (too cheap). Caches hold three quarters of their size,
shared ones half of that, and only rows read in place fall into too few sets. Moves of different units do not
overlap (too expensive). Columns read from memory are up to ten times too cheap where the processor does not
recognise them (docs/decisions/0010-order-of-schedules.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from isamap.machine.timings import RowTimes
from isamap.plan.cost import Cost, largest, total
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.scheduler.effects import copying
from isamap.scheduler.effects import effect as effects
from isamap.scheduler.effects.accumulators import in_and_out, least_in_and_out
from isamap.scheduler.effects.bursts import exposed_loads
from isamap.scheduler.effects.cores_and_lanes import idle_cores, lane_waits, work_of_residents
from isamap.scheduler.effects.least import StorageChoice, list_ways
from isamap.scheduler.effects.levels import buffers_filled, one_after_another
from isamap.scheduler.effects.overlapping import exposed_parts, least_leak
from isamap.scheduler.effects.register_blocks import chains, loops_ns
from isamap.scheduler.effects.register_loads import least_loads, pages
from isamap.scheduler.effects.residence import revisits
from isamap.scheduler.effects.results import results_begun
from isamap.scheduler.effects.row_pieces import pieces_and_computing, pieces_at_least
from isamap.scheduler.effects.store_conflict_misses import store_conflict_ns
from isamap.scheduler.effects.streams import exposed_stream
from isamap.scheduler.effects.time_parts import Counts, TimePart, total_time
from isamap.source import add_up, dataclass

# --- figures that a machine may state ---------------------------------------------------------------------


def _of_rows(words: str, stated: Callable[[RowTimes], float]) -> effects.EffectParameter:
    """Return the parameter of that name which links may state in `rows`."""
    return effects.EffectParameter(
        f"{words} of `rows`", lambda problem: any(map(stated, problem.rows_behind))
    )


CACHES = effects.EffectParameter("a cache", lambda problem: bool(problem.caches))
ALONE = effects.EffectParameter(
    "a unit that has its registers to itself",
    lambda problem: (
        not problem.nests  # mappings are not found yet: floors ask each operand
        or any(
            o.staging.is_concurrent
            for nest in problem.nests
            for option in nest.options
            for o in option.operands
        )
    ),
)
FLOWS = effects.EffectParameter(
    "a unit that moves what is in a scratchpad",
    lambda problem: any(
        o.staging.flow is not None or o.staging.arrives_ns
        for nest in problem.nests
        for option in nest.options
        for o in option.operands
    ),
)
STREAMS = effects.EffectParameter("`streams`", lambda problem: problem.memory_streams is not None)
TRANSLATION = effects.EffectParameter("`tlb`", lambda problem: problem.tlb.miss_ns > 0)
LOOPS = effects.EffectParameter(
    "`turn_ns`, `unrolled_ns` or `unrolled_issue_ns` of `loops`",
    lambda problem: any((problem.loops.turn_ns, problem.loops.unrolled_ns, problem.loops.unrolled_issue_ns)),
)
FILLED = effects.EffectParameter(
    "`fill_count` of `rows` of the link into the nearest cache",
    lambda problem: any(rows.fill_count for rows in problem.rows_behind[:1]),
)
UNEVEN = effects.EffectParameter(
    "`sector_bytes` or `interleave_bytes` of a memory that lanes access",
    lambda problem: problem.barrier_ns > 0 or bool(problem.private),
)
RESIDENTS = effects.EffectParameter("`residents` of a level", lambda problem: problem.residents > 1)
CORES = effects.EffectParameter("`at_once` of a level", lambda problem: bool(problem.private))
BARRIERS = effects.EffectParameter("`barrier_ns` of a level", lambda problem: problem.barrier_ns > 0)
WITH_ROWS = _of_rows("`computing_factor`", lambda rows: rows.computing_factor)
BEGUN = _of_rows("`start_ns` or `swept_ns`", lambda rows: rows.start_ns + rows.swept_ns)
BEGUN_AGAIN = _of_rows("`again_ns`", lambda rows: rows.again_ns)
EVICTED = effects.EffectParameter(
    "`crowded_piece_ns` of `rows` of the link into the nearest cache",
    lambda problem: any(rows.crowded_piece_ns for rows in problem.rows_behind[:1]),
)
CROWDED = effects.EffectParameter(
    "`crowded_ns` of `rows` of the link into the nearest cache",
    lambda problem: any(rows.crowded_ns for rows in problem.rows_behind[:1]),
)

# --- formulas of what several effects have together -------------------------------------------------------


def _traffic(context: effects.Context) -> Iterator[effects.EffectTime]:
    """Yield the time of cache misses, for each memory that serves them."""
    for level in context.missed:
        for operand, cost in zip(context.option.operands, level.costs, strict=True):
            yield effects.EffectTime(cost, operand.name, level.source)


def _copy_parts(context: effects.Context) -> Iterator[effects.EffectTime]:
    """Yield the time of units that copy concurrently."""
    for unit, costs in context.moved:
        for operand, cost in zip(context.option.operands, costs, strict=True):
            yield effects.EffectTime(cost, operand.name, unit)


def _streams_and_computing(context: effects.Context) -> Cost:
    from_memory = total(cost for level in context.missed[-1:] for cost in level.costs)
    computing = total([context.computing, context.loaded])
    return exposed_stream(context.tiling, from_memory, computing, context.problem)


def _filled_and_computing(context: effects.Context) -> Cost:
    filled = buffers_filled(context.tiling.space, context.missed, context.problem)
    return total([largest([context.computing, context.loaded]), *filled])


def _leaks(context: effects.Context) -> Iterator[effects.EffectTime]:
    hidden = total([context.loaded, *context.concurrent, *(total(costs) for _, costs in context.moved)])
    return map(effects.EffectTime, exposed_parts(context.tiling, hidden, context.missed, context.problem))


# --- the table --------------------------------------------------------------------------------------------

EFFECTS: tuple[effects.Effect, ...] = (
    effects.Effect(
        "issues", "the {units}", Counts.LONGEST, effects.whole(lambda c: c.computing),
        least=lambda way: way.computing_ns,
    ),
    effects.Effect(
        "latency", "sums that wait for one {instruction} after the other", Counts.WITHIN,
        effects.whole(lambda c: chains(c.tiling)),
    ),
    effects.Effect("operand loads", "loads into registers", Counts.LONGEST, lambda c: c.brought, least=least_loads),
    effects.Effect(
        "coalescing {by}", "sectors of {by} of which lanes use a part", Counts.WITHIN,
        lambda c: lane_waits(c, at_banks=False), (UNEVEN,),
    ),
    effects.Effect(
        "conflicts {by}", "lanes that wait for each other at a bank of {by}", Counts.WITHIN,
        lambda c: lane_waits(c, at_banks=True), (UNEVEN,),
    ),
    effects.Effect(
        "waves", "cores that wait for the last parts", Counts.WITHIN, effects.whole(idle_cores), (CORES,),
    ),
    effects.Effect("from {by}", "traffic from {by}", Counts.WITHIN, _traffic, (CACHES,)),
    effects.Effect("by {by}", "data movement by {by}", Counts.LONGEST, _copy_parts),
    effects.Effect(
        "loads and copies", "loads into registers, and copies in parallel with the sums", Counts.BEYOND,
        effects.whole(lambda c: total([c.loaded, *c.concurrent])), (ALONE,), least=copying.least_loads_and_copies,
    ),
    effects.Effect(
        "levels", "transfers from one level that wait for those from another", Counts.BEYOND,
        effects.whole(lambda c: one_after_another(c.missed)), (CACHES,),
    ),
    effects.Effect(
        "blocks", "loads and chains that the sums of their own block do not hide", Counts.BEYOND,
        effects.whole(lambda c: c.blocks),
    ),
    effects.Effect(
        "waits", "sums, and their waits for data movement by other units", Counts.BEYOND,
        effects.whole(lambda c: copying.waits(c.tiling, largest([c.computing, c.blocks]), c.loaded)), (FLOWS,),
    ),
    effects.Effect(
        "residents", "the work of all parts that share a core", Counts.BEYOND, effects.whole(work_of_residents),
        (RESIDENTS,),
    ),
    effects.Effect(
        "bursts", "exposed loads from far memory", Counts.BEYOND,
        effects.whole(lambda c: total([c.computing, exposed_loads(c.tiling, c.problem, c.missed)])), (CACHES,),
    ),
    effects.Effect(
        "fill buffers", "prefetched rows that occupy fill buffers, and the loads that wait",
        Counts.BEYOND, effects.whole(_filled_and_computing), (FILLED,),
    ),
    effects.Effect(
        "stream overlap", "computing that does not overlap with streams from memory", Counts.BEYOND,
        effects.whole(_streams_and_computing), (STREAMS,),
    ),
    effects.Effect(
        "row overlap", "computing that does not overlap with loads from far memory", Counts.BEYOND,
        effects.whole(lambda c: pieces_and_computing(c.tiling, c.missed, c.blocks, c.problem)), (WITH_ROWS,),
    ),
    effects.Effect(
        "row conflicts", "pieces of rows that evict each other from their sets", Counts.BEYOND,
        effects.whole(lambda c: pieces_at_least(c.tiling, c.problem)), (EVICTED,),
    ),
    effects.Effect(
        "imperfect overlap", "overlap inefficiency", Counts.ON_TOP, _leaks, least=least_leak
    ),
    effects.Effect(
        "loops", "counting of loops", Counts.ON_TOP,
        effects.whole(lambda c: loops_ns(c.tiling.space, c.problem.loops)), (LOOPS,),
    ),
    effects.Effect(
        "accumulators", "results in and out of registers", Counts.ON_TOP, effects.each_result(in_and_out),
        least=least_in_and_out,
    ),
    effects.Effect(
        "packing", "packing", Counts.ON_TOP, effects.each_operand(copying.packing_time),
        least=copying.least_packing,
    ),
    effects.Effect(
        "barriers", "lanes that wait for each other around copies", Counts.ON_TOP,
        effects.whole(lambda c: copying.barriers(c.tiling, c.problem)), (BARRIERS,),
    ),
    effects.Effect("pages", "address translation", Counts.ON_TOP, effects.each_input(pages), (TRANSLATION,)),
    effects.Effect(
        "revisits", "rows started again, in far caches", Counts.ON_TOP, effects.each_input(revisits), (BEGUN_AGAIN,)
    ),
    effects.Effect(
        "results", "pieces of results that start in far memory", Counts.ON_TOP, effects.each_result(results_begun),
        (BEGUN,),
    ),
    effects.Effect(
        "store conflicts", "pieces of rows that wait for results stored into the same sets", Counts.ON_TOP,
        effects.whole(lambda c: store_conflict_ns(c.tiling, c.problem)), (CROWDED,),
    ),
)  # fmt: skip
"""All effects that take time, in the order in which reports list effects of equal time."""


# --- analytic -------------------------------------------------------------------------------------------

# The analytic cost model: the time of a statement as an expression over its decisions.
#
# All of it is read from the table of effects: the price, its parts with names, and the floor.


# Rounding: sums of floats in another order may differ by this.
ROUNDED = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class AnalyticModel:
    """The analytic cost model, which is built in."""

    name: str = "analytic"

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        """Return the time of a statement under one option. Units: nanoseconds."""
        return total_time(self.shares(problem, nest, option))

    def shares(self, problem: Problem, nest: NestProblem, option: NestOption) -> tuple[TimePart, ...]:
        """Return the cost as named parts. Parts whose machine parameter is not stated are left out."""
        context = effects.Context.of(problem, nest, option)
        return tuple(
            TimePart(
                effect.name.format(by=part.by),
                part.operand,
                effect.counts,
                part.cost,
                effect.words.replace("{by}", part.by),
            )
            for effect in EFFECTS
            if effect.is_known(problem)
            for part in effect.parts(context)
        )

    def least_ns(self, problem: Problem, option: NestOption) -> float:
        """Return a lower bound of `expression`. It takes some tens of microseconds."""
        return min(_least_ns(way) for way in list_ways(problem, option)) * ROUNDED


def _least_ns(way: StorageChoice) -> float:
    """Return the lower bound: the longest of the overlapping effects, plus the effects that add up."""
    hides: list[float] = []
    on_top: list[float] = []
    for effect in EFFECTS:
        if effect.least is not None and effect.is_known(way.problem):
            (on_top if effect.counts is Counts.ON_TOP else hides).append(effect.least(way))
    return max(hides) + add_up(on_top)
