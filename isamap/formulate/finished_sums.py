"""Find how finished sums leave their accumulators, and which accesses fused statements save and add.

    s[m] += a[m, k] * b[k]; y[m] = i8(s[m])     y is written once, s is not

`lower` emits fused statements by `finish_of`. Access counts and the objective `energy` read `fused_accesses`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest

from isamap.ir import Index, Kernel
from isamap.ir.walk import distinct_reads
from isamap.match.moves.epilogue_moves import held_way_out, stored_way_out
from isamap.match.moves.transfers import copy_by_axes
from isamap.match.operand_loads.load_request import MoveSearch
from isamap.match.tiles.operand_tiles import OFFSET, OperandTile, Tile, in_tiles
from isamap.match.tiles.sum_starts import find_zeroing, initial_load
from isamap.match.tiles.written_values import Written, get_own_sum, start_of_sum, written_value
from isamap.plan.loop_nest import FusedAccesses, FusedRead, NestFacts
from isamap.plan.problem import Energies, Fusion, NestOption
from isamap.plan.schedule import CountedLoop, NestSchedule, Stage
from isamap.source.records import dataclass, replace
from isamap.transform import symbols
from isamap.transform.companions import fused_result


@dataclass(frozen=True, slots=True)
class Finish:
    """The values that a nest writes from its tiles: `partial` sums, and finished (`whole`) ones.

    `first` is the accumulator with the initial value of a fused statement, and that value written to the
    sum's array. `beginning` is the instruction that starts the sum from 0 by itself, "" for none. For sums
    in registers whose backing memory is a scratchpad, `begins_held` says that these registers are set to
    the initial value, and `ends_held` that the epilogue is computed from registers.
    """

    partial: tuple[Written, ...]
    whole: tuple[Written, ...]
    first: tuple[OperandTile, Written] | None = None
    beginning: str = ""
    begins_held: bool = False
    ends_held: bool = False


def finish_of(kernel: Kernel, tile: Tile, nest: NestSchedule, search: MoveSearch) -> Finish:
    """Return how the sums of a nest and of its fused statements are initialised and stored."""
    own = (get_own_sum(tile),)
    if not nest.fused:
        return Finish(own, own)
    found, acc = fused_result(kernel, nest.statement, nest.fused), tile.accumulator
    whole = written_value(tile, found)
    assert whole is not None, "planning has checked that every value has a place in the tile"
    assert acc is not None, "what sums has an accumulator"
    first = start_of_sum(tile, found)
    beginning = find_zeroing(first[0], tile, search) if first is not None else ""
    home = next((stage.memory for stage in nest.stages if stage.operand == acc.name), "")
    if not home or search.is_addressable(acc.memory):
        return Finish(own, whole, first, beginning)
    is_cut = any(tile.axis(loop.axis).is_reduction for loop in nest.loops[: nest.hold])
    begins_held = first is not None and not is_cut and initial_load(first[0], search) is not None
    ways = [held_way_out(acc, w, tile, home, search) for w in whole]
    return Finish(own, whole, first, beginning, begins_held, None not in ways)


def fused_accesses(kernel: Kernel, tile: Tile, nest: NestSchedule, search: MoveSearch) -> FusedAccesses:
    """Return the effect of a nest's fused statements on the accesses of its sums."""
    finish = finish_of(kernel, tile, nest, search)
    results = tuple((w.target_at.buffer, w.target_at.dtype.size_bytes) for w in finish.whole)
    inside = finish.begins_held or bool(finish.beginning)
    found = _find_scratchpads(tile, nest, finish, search)
    return FusedAccesses(
        results, finish.first is not None, inside, finish.ends_held,
        through=tuple(memory for memory, _ in found),
        reads=tuple(chain(_first_reads(tile, finish), *(read for _, read in found))),
    )  # fmt: skip


def _first_reads(tile: Tile, finish: Finish) -> Iterator[FusedRead]:
    """Yield the arrays that initialise sums."""
    acc = tile.accumulator
    if finish.first is not None and not finish.beginning and acc is not None:
        for read in distinct_reads(finish.first[1].value_at):
            yield FusedRead(read.buffer, read.dtype.size_bytes, frozenset(acc.axes))


def _find_scratchpads(
    tile: Tile, nest: NestSchedule, finish: Finish, search: MoveSearch
) -> list[tuple[str, tuple[FusedRead, ...]]]:
    """Return for each finished result the scratchpad on its way out ("": none), and the arrays read there."""
    acc, found = tile.accumulator, list[tuple[str, tuple[FusedRead, ...]]]()
    assert acc is not None, "what fuses has an accumulator"
    home = next((stage.memory for stage in nest.stages if stage.operand == acc.name), "")
    position = {a.name: Index.of(f"@{a.name}") for a in tile.axes}
    for written in finish.whole:
        find_way = held_way_out if finish.ends_held else stored_way_out
        way = find_way(acc, written, tile, home, search) if home else None
        buffers = () if way is None else way.buffers
        cells = in_tiles(acc, search, home).buffer
        copy = copy_by_axes(acc, cells, Index.of(OFFSET), tile, position, back=written)
        others = [read for read in distinct_reads(copy.value) if read.buffer != cells]
        reads_of = (
            FusedRead(
                read.buffer, read.dtype.size_bytes,
                frozenset(a for a in acc.axes if {f"@{a}", f"~{a}"} & symbols(read)),
                "" if buffer is None else buffer.memory, buffer is not None and buffer.kept,
            )
            for read, buffer in zip_longest(others, buffers[1 : 1 + len(others)])
        )  # fmt: skip
        found.append((buffers[0].memory if buffers else "", tuple(reads_of)))
    return found


def with_energy_of_fusions(
    fusions: tuple[Fusion, ...],
    option: NestOption,
    tile: Tile,
    kernel: Kernel,
    number: int,
    energies: Energies,
    search: MoveSearch,
) -> tuple[Fusion, ...]:
    """Return the fusions with the energy that each adds.

    The counts are those of a nest that sums each tile at once. They are the same in any nest, but for sums in
    registers that are initialised there.
    """
    from isamap.plan.access_counts import (  # few machines state energies
        CONVENTIONS,
        count_statement,
        with_energy,
    )

    acc = next(o for o in option.operands if o.is_accumulator)
    axes = sorted(option.axes, key=lambda axis: axis.name not in acc.axes)
    depth = sum(axis.name in acc.axes for axis in axes)
    stages = tuple(Stage(acc.name, depth, memory=home) for home in acc.staging.homes[:1])
    loops = tuple(CountedLoop(axis.name, axis.tile) for axis in axes)
    bare = NestSchedule(number, option.mapping, option.choose, loops, stages, depth)
    alone = replace(option, operands=(acc,))
    files = frozenset(m.name for m in search.machine.memories.values() if m.kind == "registers")

    def counted_pj(fused: tuple[int, ...]) -> float:
        nest = replace(bare, fused=fused)
        effect = fused_accesses(kernel, tile, nest, search) if fused else None
        known = NestFacts(True, {}, effect, files=files)
        found = count_statement(nest, alone, CONVENTIONS["isamap"], energies.home, known)
        energy = with_energy(found, alone, energies, 1, 0.0).energy
        assert energy is not None, "it has just been counted"
        return energy.total_pj

    return tuple(
        replace(f, extra_pj=counted_pj((*f.needs, f.statement)) - counted_pj(f.needs)) for f in fusions
    )
