"""Pack operands separately: the copy at the start of a nest becomes a program.

    gemm(A, B, C)  {                          gemm_pack_B(B, B_packed) { copy all of B's tiles }
      stage b: copy all of B's tiles    ->
      loops that read the buffer              gemm(A, B_packed, C)     { loops that read B_packed }
    }

A packed tensor starts with a header that identifies its layout: a caller may have stored it for a long time,
or received it from another program. The header has a digest of everything that determines the layout: the
machine, the mapping, the elements of a tile, the loops that count tiles, and constant sizes. Open sizes
follow the digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from isamap.ir import Index, Kernel, Range, print_expr
from isamap.ir.index import ONE
from isamap.lower.parallel_parts import distribute_loops, part_count
from isamap.lower.place import Place
from isamap.lower.program import Block, For, LoweredProgram, Names, Pack, PackedHeader, Tensor, tensor_of
from isamap.lower.staging import Staged, copy_tiles, stage_at
from isamap.machine import Machine
from isamap.match import MoveSearch, OperandTile, Tile, is_read_of, part_of
from isamap.plan.schedule import LoopStep, NestSchedule
from isamap.source.records import replace


def packed_tile(name: str, tile: Tile) -> OperandTile:
    """Return the tile of a packed input: of an operand, or of an array from which an operand is computed."""
    owner, _, position = name.partition(".")
    operand = next(o for o in tile.inputs if o.name == owner)
    part = part_of(tile, operand, int(position)) if position else operand
    assert part is not None, "planning has checked that a buffer may hold it"
    return part


def pack_apart(
    operand: OperandTile, tile: Tile, schedule: NestSchedule, place: Place, search: MoveSearch, names: Names
) -> tuple[Staged, Pack]:
    """Return the packed operand that the nest reads, and the program that packs it."""
    source = is_read_of(operand.subject)
    assert source is not None, "planning has checked that the operand is one of the kernel's"
    loops, claimed = schedule.loops, len(names.buffers)
    made = stage_at(operand, 0, tile, loops, search, names)
    name = names.reserve_name(f"{source}_packed")
    search.strides[name] = search.strides.pop(made.buffer)
    staged = replace(made, buffer=name)
    into = copy_tiles(staged, tile, loops, place, search, names)
    symbols = frozenset(s for a in tile.axes if a.name in operand.axes for s in a.extent.symbols)
    parts = part_count(tile, schedule)
    if not parts.symbols <= symbols and isinstance(into[0], For):
        parts = into[0].trips  # the nest's parts are cut by a size that packing is not given
    nodes = (Block(f"pack {source}", distribute_loops(into, parts, names)),)
    header = PackedHeader(source, layout_digest(operand, tile, loops, search.machine), tuple(sorted(symbols)))
    elements = made.size + header.size_bytes // operand.dtype.size_bytes
    target = Tensor(name, "out", operand.dtype, (elements,), (ONE,), header)
    extra = tuple(names.buffers[claimed + 1 :])  # the first one is the packed tensor itself
    del names.buffers[claimed:]
    return staged, Pack(source, target, nodes, extra, symbols)


def layout_digest(operand: OperandTile, tile: Tile, loops: tuple[LoopStep, ...], machine: Machine) -> str:
    """Return a hexadecimal digest that is equal for equal placements of elements.

    Loops that the operand does not follow, and sizes of axes that it does not have, are no part of it.
    """
    axes = [axis for axis in tile.axes if axis.name in operand.axes]
    parts = [
        f"machine {machine.name}",
        f"mapping {tile.mapping.ident}",
        f"tile {operand.dtype} {operand.cell_shape} {print_expr(operand.elements)}",
        *(f"axis {axis.name} {axis.extent} by {axis.tile}" for axis in axes),
        *(f"loop {loop.axis} by {loop.step}" for loop in loops if loop.axis in operand.axes),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[: PackedHeader.DIGITS]


def packing_program(
    pack: Pack, kernel: Kernel, machine: Machine, sizes: Mapping[str, int | Range]
) -> LoweredProgram:
    """Return the program that packs one operand of a kernel."""
    operand = kernel.operand(pack.source)
    known = {s for index in operand.shape for s in index.symbols} | pack.symbols
    params = tuple(p for p in kernel.params if p.name in known)
    name = f"{kernel.name}_pack_{pack.source}"
    own = Kernel(name, params, (operand,), (), span=kernel.span)
    return LoweredProgram(
        name,
        own,
        machine.name,
        tuple((n, v) for n, v in sorted(sizes.items()) if isinstance(v, int)),
        symbols_of(own),
        (tensor_of(operand), pack.target),
        pack.buffers,
        pack.nodes,
    )


def symbols_of(kernel: Kernel) -> tuple[tuple[str, int, int], ...]:
    """Return the sizes that a caller gives at run time: name, lowest and highest value."""
    sizes = [p for p in kernel.params if p.kind == "size"]
    return tuple((p.name, _bound_of(p.low, 1), _bound_of(p.high, 2**31)) for p in sizes)


def _bound_of(value: Index | None, otherwise: int) -> int:
    return value.value if value is not None and value.value is not None else otherwise
