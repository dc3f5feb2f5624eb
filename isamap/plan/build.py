"""Kernel × machine → Problem: the mappings that can be carried out, with what operands cost to supply."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from isamap.ir import Cast, Index, Kernel, Range, Read
from isamap.ir.index import ZERO
from isamap.machine import Machine, cost_params, cost_value, held_between
from isamap.match import (
    Leaf,
    Location,
    LoopAxis,
    OperandTile,
    Suppliers,
    Supply,
    Tile,
    accumulator_delivery,
    apply_mapping,
    bring,
    find_delivery,
    find_supply,
    homes_of,
    in_tiles,
    is_lane,
    is_read_of,
    least_copy_ns,
    pattern_of,
    profile_sizes,
    scratch_move,
    standing,
    statement_mappings,
    tiles_apart,
)
from isamap.match import Mapping as Mapped
from isamap.match.reducing import BLOCK, JOINABLE, find_joining
from isamap.plan.access import lay_out
from isamap.plan.apart import lanes_ns
from isamap.plan.ends import with_ends
from isamap.plan.frame import Frame
from isamap.plan.fusing import fusions
from isamap.plan.hinting import with_hints, with_late
from isamap.plan.movers import with_mover
from isamap.plan.packed import packed_options, require_packable
from isamap.plan.packing import SLOW_MOVE_NS, can_copy, pack_held_ns, pack_ns, register_value
from isamap.plan.problem import NestOption, NestProblem, Problem, TileAxis, TileOperand
from isamap.plan.schedule import NestSchedule
from isamap.plan.streaming import with_streams
from isamap.plan.unmatched import no_mapping
from isamap.source import Diagnostic, UsageProblem
from isamap.transform import Statement, reads, statements, symbols


def find_tiles(
    statement: Statement, number: int, suppliers: Suppliers, named: Collection[str] | None = None
) -> tuple[Tile, ...]:
    """Mappings of a statement that can be carried out on the machine, applied; only those that are named."""
    profile = profile_sizes(statement)
    found: list[Tile] = []
    for mapping in statement_mappings(statement, number, suppliers.machine):
        if named is not None and mapping.ident not in named:
            continue
        pattern = pattern_of(suppliers.machine.instructions[mapping.instruction].instruction)
        assert pattern is not None
        tile = apply_mapping(statement, mapping, pattern, profile)
        if tile is not None and sums_can_be_padded(tile):
            found.append(tile)
    apart = tiles_apart(statement, number, suppliers.machine, profile)
    return (*found, *(tile for tile in apart if named is None or tile.mapping.ident in named))


def chosen_tile(tiles: Iterable[Tile], nest: NestSchedule) -> Tile:
    """The tile that a schedule names. Raises: UsageProblem when there is none."""
    known = {t.mapping.ident: t for t in tiles}
    if nest.mapping not in known:
        raise UsageProblem(
            Diagnostic(
                "unknown-mapping",
                f"statement {nest.statement} has no mapping `{nest.mapping}`",
                notes=tuple(f"there is `{m}`" for m in list(known)[:8]),
                help="run `isamap match` to see all of them",
            )
        )
    return known[nest.mapping]


def build_problem(
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    threads: int = 1,
    packed: Sequence[str] = (),
    named: Collection[str] | None = None,
) -> Problem:
    """Everything a scheduler needs to know to have a kernel performed by so many threads.

    `packed` are inputs that the caller passes packed. Where mappings are `named`, others are left out, and a
    statement may have none. Raises: NoMapping when a statement cannot be performed;
    UsageProblem for what cannot be packed.
    """
    require_packable(kernel, packed)
    frame = Frame.of(kernel, machine, sizes, threads)
    nests: list[NestProblem] = []
    for number, statement in enumerate(statements(kernel)):
        options: list[NestOption] = []
        for tile in find_tiles(statement, number, frame.suppliers, named):
            option = whole_option(tile, number, frame)
            if option is not None:
                options.append(option)
        if not options and named is None:
            raise no_mapping(kernel, number, machine)
        known = tuple(packed_options(options, packed, statement, machine.name))
        nests.append(NestProblem(number, known, turns=frame.turns[number]))
    return frame.problem(nests)


def whole_option(tile: Tile, number: int, frame: Frame) -> NestOption | None:
    """The option of a tile of statement `number`, with what it can take along; None where there is none."""
    option = option_of(tile, frame.suppliers, frame.kernel, frame.profile)
    if option is None or (frame.kernel.strict and reorders(tile)):
        return None
    taken = fusions(frame.kernel, number, tile, frame.suppliers, frame.profile, frame.memories)
    turns = frame.turns[number]
    taken = tuple(replace(fusion, extra_ns=turns * fusion.extra_ns) for fusion in taken)
    cold = tuple(replace(o, cold=frame.is_cold(number, o.tensor)) for o in option.operands)
    known = with_streams(replace(option, operands=cold), frame.memories)
    return replace(with_late(known, frame.memories), fusions=taken)


def reorders(tile: Tile) -> bool:
    """Whether a floating-point sum would not run term by term in the order of the text, each term rounded.

    One summing axis outside the instruction keeps its order however it is blocked; several do not.
    """
    if tile.accumulator is None or not tile.accumulator.dtype.is_float:
        return False
    summing = [a for a in tile.axes if a.is_reduction]
    inexact = {"reordered", "unrounded", "truncated", "round_to_odd"} & set(tile.pattern.instruction.numerics)
    return bool(inexact) or len(summing) > 1 or any(a.tile > 1 for a in summing)


def sums_can_be_padded(tile: Tile) -> bool:
    """Padded lanes are filled with zero, which only a sum is indifferent to."""
    if tile.statement.assign.op in (None, "add"):
        return True
    return all(_fills_lanes(axis) for axis in tile.axes if axis.is_reduction)


def _fills_lanes(axis: LoopAxis) -> bool:
    """Whether an axis is a whole number of tiles."""
    return axis.tile == 1 or (axis.extent.value is not None and axis.extent.value % axis.tile == 0)


def option_of(
    tile: Tile,
    suppliers: Suppliers,
    kernel: Kernel,
    profile: Mapping[str, int],
    *,
    prices_copies: bool = True,
) -> NestOption | None:
    """The mapping with its costs; None when an operand can be supplied neither in place nor from a buffer.

    Without `prices_copies`, copying into buffers costs no more than it does: to find what moves most at once
    takes most of the time.
    """
    operands: list[TileOperand] = []
    for operand in tile.inputs:
        described = input_of(operand, tile, suppliers, kernel, prices_copies=prices_copies)
        if described is None:
            return None
        if prices_copies:
            described = with_ends(described, operand, tile, suppliers, profile)
        operands += _with_reads(described, operand, tile, kernel)
    held = _held(tile, suppliers, kernel, prices_copies=prices_copies)
    if held is None:
        return None
    if prices_copies and tile.accumulator is not None and tile.held is None:
        held = with_ends(held, tile.accumulator, tile, suppliers, profile)
    operands.append(held)
    held_tile = tile.held or tile.accumulator or tile.result
    subjects = {o.name: o.subject for o in (*tile.inputs, *((held_tile,) if held_tile else ()))}
    subjects |= {f"{o.name}.{n}": r for o in tile.inputs for n, r in enumerate(reads(o.subject))}
    bare = bare_option(tile.mapping, tile.params, tile.axes, suppliers.machine, profile)
    return replace(
        bare,
        operands=tuple(
            with_hints(lay_out(o, subjects.get(o.name), kernel, profile), suppliers.machine) for o in operands
        ),
        interval_ns=bare.interval_ns if tile.accumulator else 0.0,
        latency_ns=bare.latency_ns if tile.accumulator else 0.0,
        can_split_sums=prices_copies and can_split_sums(tile, suppliers, is_strict=kernel.strict),
    )


def bare_option(
    mapping: Mapped,
    params: Iterable[tuple[str, int]],
    loops: Iterable[LoopAxis],
    machine: Machine,
    profile: Mapping[str, int],
) -> NestOption:
    """A mapping with its loops and what its instruction takes, nothing about operands."""
    item, known = machine.instructions[mapping.instruction], dict(params)
    numbers = cost_params(item, machine, known)
    count = max(1, machine.units[item.cost.unit].count)
    axes = tuple(
        TileAxis(
            a.name, a.extent.substitute(profile).value or 1, a.tile, a.is_reduction, a.extent.value is None
        )
        for a in loops
    )
    interval_ns = cost_value(item.cost.interval_ns, numbers) / count
    latency_ns = cost_value(item.cost.latency_ns, numbers)
    between = held_between(item, machine)
    return NestOption(mapping.ident, tuple(params), axes, (), interval_ns, latency_ns, between=between)


def can_split_sums(tile: Tile, suppliers: Suppliers, *, is_strict: bool) -> bool:
    """Whether parts of a sum may be taken apart from each other, and the machine can join them."""
    acc, op = tile.accumulator, tile.statement.assign.op
    if acc is None or op not in JOINABLE or (is_strict and acc.dtype.is_float):
        return False
    buffer = in_tiles(acc, suppliers).buffer
    return find_joining(acc, buffer, op, ZERO, Index.of(BLOCK), suppliers) is not None


def _fixed_parts(tile: Tile, operand: OperandTile) -> dict[str, Index]:
    """Axes that are never a whole tile: instruction axes that stay empty."""
    return {a.name: a.extent for a in tile.axes if a.name.startswith("_") and a.tile > 1}


def input_of(
    operand: OperandTile,
    tile: Tile,
    suppliers: Suppliers,
    kernel: Kernel,
    *,
    prices_copies: bool = True,
) -> TileOperand | None:
    """An input with what supplying it costs; None when nothing brings it from a buffer."""
    direct = bring(suppliers, tile, operand, operand.want({}, expr=standing(operand.elements, is_lane)))
    homes = homes_of(tile, operand, suppliers)
    if not homes:
        return None
    first, staged = next(iter(homes.items()))
    in_place = _described(operand, kernel, _cost(direct), None, is_accumulator=False)
    if not first and not can_copy(operand, tile, suppliers):
        return in_place if direct is not None else None
    described = replace(in_place, staged_ns=_cost(staged))
    if not prices_copies:
        least = 0.0 if first else min(SLOW_MOVE_NS, least_copy_ns(suppliers, operand.dtype))
        return replace(described, pack_ns_per_element=least, homes=tuple(homes))
    moved = _scratch_ns(operand, tile, first, suppliers) if first else pack_ns(operand, direct, suppliers)
    described = replace(described, pack_ns_per_element=moved, homes=tuple(homes))
    return with_mover(described, operand, tile, suppliers)


def _scratch_ns(
    operand: OperandTile, tile: Tile, home: str, suppliers: Suppliers, *, back: bool = False
) -> float:
    """Time to move one element into its scratchpad, or back."""
    moved = scratch_move(operand, tile, home, suppliers, back=back)
    assert moved is not None, "homes are those that something moves to"
    return moved.cost_ns


def _with_reads(
    described: TileOperand, operand: OperandTile, tile: Tile, kernel: Kernel
) -> tuple[TileOperand, ...]:
    """The operand; one computed from several arrays has their traffic beside it, and is never staged."""
    found = reads(operand.subject)
    if len(found) < 2 or described.direct_ns is None:
        return (described,)
    parts: list[TileOperand] = []
    for position, read in enumerate(found):
        axes = tuple(a.name for a in tile.axes if f"@{a.name}" in symbols(read))
        elements = prod(tile.axis(a).tile for a in axes)
        parts.append(
            replace(
                described,
                name=f"{operand.name}.{position}",
                tensor=read.buffer,
                axes=axes,
                registers=0,
                tile_elements=elements,
                tensor_bytes=read.dtype.size_bytes,
                direct_ns=0.0,
                staged_ns=None,
            )
        )
    return (replace(described, tensor_bytes=0, staged_bytes=0, staged_ns=None), *parts)


def _cost(supply: Supply | Leaf | Location | None) -> float | None:
    return None if supply is None else supply.cost_ns if isinstance(supply, Supply) else 0.0


def _described(
    operand: OperandTile,
    kernel: Kernel,
    direct: float | None,
    staged: float | None,
    *,
    is_accumulator: bool,
    stage_whole: bool = False,
) -> TileOperand:
    tensor = is_read_of(operand.subject) or operand.name
    dtype = next((o.dtype for o in kernel.operands if o.name == tensor), operand.dtype)
    return TileOperand(
        operand.name,
        tensor,
        tuple(a for a in operand.axes),
        is_accumulator,
        operand.memory,
        1,
        prod(operand.cell_shape),
        dtype.size_bytes,
        operand.dtype.size_bytes,
        direct,
        staged,
        SLOW_MOVE_NS,
        stage_whole,
    )


def _held(tile: Tile, suppliers: Suppliers, kernel: Kernel, *, prices_copies: bool) -> TileOperand | None:
    """The accumulator, or the register that is written: in and out in place, or through a buffer."""
    if tile.accumulator is None:
        assert tile.result is not None
        assert tile.target_elements is not None
        want = tile.result.want(_fixed_parts(tile, tile.result))
        found = find_delivery(
            suppliers, tile.target_elements, tile.result.elements, tile.result.memory, tile.result.dtype, want
        )
        if found is None or found.instruction != tile.mapping.instruction:
            return None
        return _described(tile.result, kernel, found.cost_ns, None, is_accumulator=True)
    acc = tile.accumulator
    if tile.held is not None:
        return _shares(tile, acc, tile.held, suppliers, kernel)
    homes = _accumulator_homes(tile, acc, suppliers)
    if not homes:
        return None
    target, expr = accumulator_delivery(tile)
    there = standing(target, is_lane)
    assert isinstance(there, Read)
    first = find_supply(suppliers, acc.want({}, expr=standing(acc.elements, is_lane)))
    back = find_delivery(suppliers, there, expr, "", None, acc.want({}))
    direct = None if first is None or back is None else (_cost(first) or 0.0) + back.cost_ns
    narrower = isinstance(acc.elements, Cast)
    home, staged = next(iter(homes.items()))
    described = _described(acc, kernel, direct, staged, is_accumulator=True, stage_whole=narrower)
    if not prices_copies:
        return replace(described, homes=tuple(homes), pack_ns_per_element=0.0)
    if not home:
        packed = pack_held_ns(acc, tile, suppliers)
        return replace(described, homes=tuple(homes), pack_ns_per_element=packed)
    moved = [_scratch_ns(acc, tile, home, suppliers, back=back) for back in (False, True)]
    described = replace(described, homes=tuple(homes), pack_ns_per_element=sum(moved) / 2)
    return with_mover(described, acc, tile, suppliers)


def _accumulator_homes(tile: Tile, acc: OperandTile, suppliers: Suppliers) -> dict[str, float]:
    """What bringing sums from a buffer and back costs, by where that buffer may lie. Units: nanoseconds."""
    found: dict[str, float] = {}
    for home, loaded in homes_of(tile, acc, suppliers).items():
        if home and scratch_move(acc, tile, home, suppliers, back=True) is None:
            continue
        if isinstance(loaded, Location):  # the instruction itself adds to what lies there
            found |= {home: 0.0} if home else {}
            continue
        cell = in_tiles(acc, suppliers, home)
        stored = find_delivery(suppliers, cell, register_value(acc), acc.memory, acc.dtype, acc.want({}))
        if stored is not None:
            found[home] = (_cost(loaded) or 0.0) + stored.cost_ns
    return found


def _shares(
    tile: Tile, acc: OperandTile, held: OperandTile, suppliers: Suppliers, kernel: Kernel
) -> TileOperand | None:
    """An accumulator whose lanes are shares of a sum."""
    direct = lanes_ns(tile, acc, suppliers)
    narrower = isinstance(held.subject, Cast)
    described = _described(held, kernel, direct, None, is_accumulator=True, stage_whole=narrower)
    return None if direct is None else described
