"""Choose the data movement of each operand: the instructions that load it into its register or store it.

    movements(gemm_bf16, its statement, tdpbf16ps { m: m, n: n, k: k, p: k }, x86-amx)

    a  strided   tileload_bf16                                  at the distance of A's rows
    b  packed    interleave1_lo_zmm_bf16 …, tileload_bf16       copied in order of use, then loaded
    c  packed    tileload_f32, tilestore_f32                    widened into a buffer, rounded on the way back

Kinds, from the cheapest:

- `in place`: no move, or a chain that reads (writes) one place whose elements follow each other without a
  gap. One element for all lanes counts as in place.
- `strided`: the same with gaps: rows at the distance of the array's own, a column at a stride.
- `gathered`: elements come from several places. The chain has more than one load of an array, or a copy
  fills a buffer element by element, for example if several axes are fused onto one (im2col).
- `packed`: groups of elements are copied into a workspace buffer in the order of their use, and
  loaded from there.
- `none`: no chain exists, and `why` says what is missing.

The default movement is in place if a chain exists, and through a buffer if none does or if loading from a
buffer takes fewer moves than gathering. `load_search.py` and `store_search.py` find all
chains; none is known by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from isamap.ir import Expr, Index, Instruction, Kernel, Read
from isamap.ir.walk import map_reads
from isamap.machine import Machine
from isamap.match.mappings.mapping import Mapping
from isamap.match.moves.chains import MoveKind, Movement, is_dense, kind_of, moved_by, steps_of, with_copy
from isamap.match.moves.missing_moves import array_of, explain_missing_move
from isamap.match.moves.scratch_buffers import explain_uncleared, homes_of, through_scratchpad
from isamap.match.moves.transfers import (
    Transfer,
    copy_by_axes,
    copy_by_cells,
    fills_all,
    find_packing,
    find_transfer,
    shown_axes,
)
from isamap.match.operand_loads.load_request import MoveSearch
from isamap.match.operand_loads.load_search import find_operand_load
from isamap.match.operand_loads.store_search import find_operand_store
from isamap.match.patterns.address import Location
from isamap.match.patterns.pattern import digits_of, pattern_of
from isamap.match.patterns.reach import coordinate_names, extents_of
from isamap.match.patterns.unify import read_twice
from isamap.match.tiles.operand_tiles import (
    OFFSET,
    OperandTile,
    Tile,
    accumulator_store,
    apply_mapping,
    bring,
    in_tiles,
    move_search_of,
    profile_sizes,
)
from isamap.match.tiles.walks import choose_params
from isamap.match.tiles.written_values import get_own_sum
from isamap.source.records import replace
from isamap.transform import Statement, reads


def movements(
    kernel: Kernel,
    statement: Statement,
    mapping: Mapping,
    machine: Machine,
    *,
    search: MoveSearch | None = None,
) -> tuple[Movement, ...]:
    """Return the default movement of every operand of a mapping, inputs first.

    A `search` of the same kernel and machine caches results across many mappings.
    """
    search = search or move_search_of(kernel, machine)
    return tuple(ways[0] for ways in _choices(statement, mapping, search, every=False))


def choices(
    kernel: Kernel,
    statement: Statement,
    mapping: Mapping,
    machine: Machine,
    *,
    search: MoveSearch | None = None,
) -> tuple[tuple[Movement, ...], ...]:
    """Return all ways to move each operand. The first one is used without other decisions."""
    return _choices(statement, mapping, search or move_search_of(kernel, machine), every=True)


def _choices(
    statement: Statement, mapping: Mapping, search: MoveSearch, *, every: bool
) -> tuple[tuple[Movement, ...], ...]:
    """Return the default movement of each operand. With `every`, return all movements."""
    tile = tile_of(statement, mapping, search.machine)
    if tile is None:
        instruction = search.machine.instructions[mapping.instruction].instruction
        return tuple((m,) for m in _not_issued(instruction, statement, mapping))
    if tile.accumulator is None:
        return _assignment_moves(tile, search)
    filled = {b.name: _filled_arrays(b.subject) for b in mapping.bindings}
    inputs = [_after_padding(_input_ways(o, tile, search, every), filled[o.name]) for o in tile.inputs]
    return (*inputs, _held_ways(tile, tile.accumulator, search, every))


def tile_of(statement: Statement, mapping: Mapping, machine: Machine) -> Tile | None:
    """Return the tile of one issue of an executable mapping, or None."""
    pattern = pattern_of(machine.instructions[mapping.instruction].instruction)
    if pattern is None:
        return None
    assign = replace(statement.assign, value=_plain(statement.assign.value), guard=None)
    plain = replace(statement, assign=assign)
    bare = replace(mapping, bindings=tuple(replace(b, subject=_plain(b.subject)) for b in mapping.bindings))
    return apply_mapping(plain, bare, pattern, profile_sizes(plain), machine)


def _plain(expr: Expr) -> Expr:
    """Return the expression without fills, as the reads of an array that is copied with its padding."""
    return map_reads(expr, lambda read: replace(read, fill=None))


def _filled_arrays(expr: Expr) -> tuple[str, ...]:
    """Return the arrays that an expression reads beyond their edges."""
    return tuple(dict.fromkeys(r.buffer for r in reads(expr) if r.fill is not None))


def _after_padding(ways: tuple[Movement, ...], arrays: tuple[str, ...]) -> tuple[Movement, ...]:
    """Return the movements after some arrays are copied into padded ones. Padded arrays are not read in place."""
    if not arrays:
        return ways
    said = f"{', '.join(arrays)} is copied into a padded array first, for reads beyond its edge"
    kinds: dict[MoveKind, MoveKind] = {"in place": "packed", "strided": "packed"}
    return tuple(
        replace(m, kind=kinds.get(m.kind, m.kind), why="; ".join(filter(None, (said, m.why)))) for m in ways
    )


# --- inputs -----------------------------------------------------------------------------------------------


def _input_ways(operand: OperandTile, tile: Tile, search: MoveSearch, every: bool) -> tuple[Movement, ...]:
    """Return the ways to read an input, in place or through a buffer. The preferred one is first."""
    direct = _direct(operand, tile, search)
    if direct is not None and direct.kind != "gathered" and not every:
        return (direct,)
    staged = _through_buffer(operand, tile, search)
    if direct is None and staged is None:
        return (Movement(operand.name, "none", (), explain_missing_move(operand, tile, search)),)
    if direct is None or staged is None:
        (only,) = (m for m in (direct, staged) if m is not None)
        why = f"no chain of moves reads {array_of(operand)} in place" if direct is None else ""
        return (replace(only, why=why),)
    if direct.kind == "gathered" and staged.moves_per_issue < direct.moves_per_issue:
        return (replace(staged, why=f"in place it takes {direct.moves_per_issue} moves an issue"), direct)
    return (direct, staged)


def _direct(operand: OperandTile, tile: Tile, search: MoveSearch) -> Movement | None:
    """Return the movement of an operand from its array to its register, or None."""
    found = bring(search, tile, operand, operand.request({}))
    if found is None:
        return None
    if isinstance(found, Location):
        owner = tile.pattern.instruction
        kind: MoveKind = "in place" if is_dense(found, owner, operand.name, dict(tile.params)) else "strided"
        return moved_by(operand, kind, ())
    chain = steps_of(found)
    return moved_by(operand, kind_of(chain, len(set(reads(operand.subject))), search), chain)


def _through_buffer(operand: OperandTile, tile: Tile, search: MoveSearch) -> Movement | None:
    """Return the movement of an operand that is copied into a buffer of tiles and loaded from there, or None."""
    if len(reads(operand.subject)) > 1 and not search.is_addressable(operand.memory):
        return None  # what is computed from several arrays is computed where it is used
    loaded = bring(search, tile, operand, operand.request({}, expr=in_tiles(operand, search)))
    copied = _copy_tile(operand, tile, search, back=False)
    if loaded is None:
        return through_scratchpad(operand, tile, search)
    if copied is None:
        return None
    chain = () if isinstance(loaded, Location) else steps_of(loaded)
    single = prod(operand.cell_shape) == 1
    moved = moved_by(operand, "packed" if single or copied.width > 1 else "gathered", chain)
    return with_copy(moved, operand, copied)


def _copy_tile(operand: OperandTile, tile: Tile, search: MoveSearch, *, back: bool) -> Transfer | None:
    """Return how a whole tile is copied into its buffer, or back."""
    buffer, offset = in_tiles(operand, search).buffer, Index.of(OFFSET)
    position = {a.name: Index.of(f"@{a.name}") for a in tile.axes}
    copy = copy_by_axes(operand, buffer, offset, tile, position, back=get_own_sum(tile) if back else None)
    counts = {f"~{a.name}": Index.of(a.tile) for a in shown_axes(operand, tile)}
    found = find_transfer(copy, counts, search)
    cells = copy_by_cells(operand, buffer, offset) if fills_all(operand, tile) and not back else None
    packed = find_packing(cells, operand.shape, search) if cells is not None else None
    if packed is not None and (found is None or packed.cost_ns < found.cost_ns):
        return packed
    return found


# --- outputs ----------------------------------------------------------------------------------------------


def _held_ways(tile: Tile, acc: OperandTile, search: MoveSearch, every: bool) -> tuple[Movement, ...]:
    """Return the movements of the accumulator: loaded and stored in place, or through a buffer."""
    if search.is_addressable(acc.memory):
        kept = through_scratchpad(acc, tile, search, back=True)
        if kept is not None:
            return (kept,)
        comes_in = any(homes_of(tile, acc, search))
        held = f"no instruction moves {acc.dtype} of {array_of(acc)} out of {acc.memory} unchanged"
        is_known = comes_in and explain_uncleared(tile, search) is None
        return (
            Movement(acc.name, "none", (), held if is_known else explain_missing_move(acc, tile, search)),
        )
    target, value = accumulator_store(tile)
    first = find_operand_load(search, acc.request({}))
    back = find_operand_store(search, target, value, "", None, acc.request({}))
    found: list[Movement] = []
    if first is not None and back is not None:
        chain = (*steps_of(first), *steps_of(back))
        found.append(moved_by(acc, kind_of(chain, 1, search), chain))
        if not every:
            return tuple(found)
    cell = in_tiles(acc, search)
    loaded = find_operand_load(search, acc.request({}, expr=cell))
    stored = find_operand_store(search, cell, acc.held, acc.memory, acc.dtype, acc.request({}))
    copies = [_copy_tile(acc, tile, search, back=b) for b in (False, True)]
    into, out = copies
    if loaded is not None and stored is not None and into is not None and out is not None:
        kind: MoveKind = "packed" if min(into.width, out.width) > 1 else "gathered"
        moved = moved_by(acc, kind, (*steps_of(loaded), *steps_of(stored)))
        why = "" if found else f"no chain of moves brings it from {array_of(acc)} and back"
        found.append(replace(with_copy(moved, acc, into, out), why=why))
    kept = None if found else through_scratchpad(acc, tile, search, back=True)
    if kept is not None:
        return (kept,)
    return tuple(found) or (
        Movement(acc.name, "none", (), explain_missing_move(acc, tile, search, back=True)),
    )


def _assignment_moves(tile: Tile, search: MoveSearch) -> tuple[tuple[Movement, ...], ...]:
    """Return the movements of an assignment's instruction, for its reads and its writes."""
    result, target, value = tile.result, tile.target_elements, tile.value_elements
    assert result is not None
    assert target is not None
    assert value is not None
    fixed = {a.name: a.extent for a in tile.axes if a.name.startswith("_") and a.tile > 1}
    output = tile.pattern.output.name
    found = find_operand_store(search, target, value, result.memory, result.dtype, result.request(fixed))
    if found is None or found.instruction != tile.mapping.instruction:
        said = f"{found.instruction} writes {target.buffer} sooner" if found is not None else None
        if said is None and not search.is_addressable(tile.pattern.output.memory or ""):
            return _moves_at_registers(tile, result, target, search)
        if said is None and search.is_addressable(result.memory) and not search.holds_arrays(result.memory):
            said = explain_missing_move(result, tile, search)
        said = said or f"{tile.mapping.instruction} does not write {target.buffer} in place"
        missing = Movement(output, "none", (), said)
        return ((replace(missing, operand=result.name),), (missing,))
    chain = tuple(s for s in steps_of(found) if s != found)
    kind = kind_of(chain, len(set(reads(result.subject))), search)
    assert found.target is not None
    params = {n: v.value for n, v in found.params if isinstance(v, Index) and v.value is not None}
    dense = is_dense(found.target, tile.pattern.instruction, output, params)
    size = prod(result.cell_shape) * target.dtype.size_bytes
    written = Movement(output, "in place" if dense else "strided", (), bytes_per_issue=size)
    return ((moved_by(result, kind, chain),), (written,))


def _moves_at_registers(
    tile: Tile, result: OperandTile, target: Read, search: MoveSearch
) -> tuple[tuple[Movement, ...], ...]:
    """Return the loads before, or the stores after, an instruction between registers."""
    output = tile.pattern.output
    brought = find_operand_load(search, result.request({}))
    read = Movement(result.name, "none", (), explain_missing_move(result, tile, search))
    if brought is not None:
        chain = steps_of(brought)
        read = moved_by(result, kind_of(chain, len(set(reads(result.subject))), search), chain)
    why = f"{tile.mapping.instruction} does not write {target.buffer} in place"
    written = Movement(output.name, "none", (), why)
    held = Read(
        f"$value:{output.memory}",
        tuple(Index.of(d) for d in coordinate_names(len(result.shape))),
        output.dtype,
    )
    back = find_operand_store(search, target, held, output.memory or "", output.dtype, result.request({}))
    if brought is None and back is not None:
        chain = steps_of(back)
        written = replace(moved_by(result, kind_of(chain, 1, search), chain), operand=output.name)
    return ((read,), (written,))


# --- where there is none ----------------------------------------------------------------------------------


def _not_issued(instruction: Instruction, statement: Statement, mapping: Mapping) -> Iterator[Movement]:
    """Yield a movement of kind `none`, with the reason, for each operand of a mapping that cannot be issued."""
    operands = [o.name for o in instruction.operands]
    pattern = pattern_of(instruction)
    if pattern is None or read_twice(mapping.bindings):
        which = "of several statements" if pattern is None else "that read an operand at two subscripts"
        yield from (Movement(n, "none", (), f"instructions {which} are not issued") for n in operands)
        return
    params = choose_params(statement, mapping, pattern, profile_sizes(statement))
    lengths, masked = extents_of(pattern, params)
    accesses = {b.name: b.pattern for b in mapping.bindings} | {pattern.target.buffer: pattern.target.index}
    windows = {
        name: next((str(i) for i in subscripts if digits_of(i, lengths) is None and i.symbols), None)
        for name, subscripts in accesses.items()
    }
    first = next((f"`{n}[… {w} …]`" for n, w in windows.items() if w), None)
    for name in operands:
        window = windows.get(name)
        if masked:
            why = (
                f"how long it may be ({', '.join(masked.values())}) is not a number: only moves are issued so"
            )
        elif window:
            why = f"neighbouring iterations share its element `{window}`: such windows are not loaded"
        elif first:
            why = f"the instruction is not issued, for {first} is a window"
        else:
            why = "its elements in one issue do not determine the kernel iteration"
        yield Movement(name, "none", (), why)
