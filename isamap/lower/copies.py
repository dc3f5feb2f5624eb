"""Expand copies between arrays and buffers to loops with the widest available moves, else by elements.

Scratchpads in a program: tiles moved by instructions that reach both memories, and set to zero.

In main memory a buffer is cleared by the language that is emitted; in a scratchpad only instructions write.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import DType, Expr, Index
from isamap.ir.index import elements_of
from isamap.lower.load_issues import Emitter
from isamap.lower.program import Fill, For, Issue, MemoryRef, Names, Node
from isamap.match import Location, find_block
from isamap.match.moves.scratch_buffers import Clearing, Dma, find_clearing, find_dma, no_clearing
from isamap.match.moves.transfers import Copy, Transfer, find_transfer
from isamap.match.operand_loads.load_request import BlockMove, MoveSearch
from isamap.source import NoMapping
from isamap.transform import reads

Nodes = tuple[Node, ...]


def dma_loops(
    copy: Copy, counts: Mapping[str, Index], search: MoveSearch, names: Names
) -> tuple[Node, ...] | None:
    """Return the loops of a copy to or from a scratchpad, or None if no instruction performs it."""
    buffers = {copy.target.buffer, *(r.buffer for r in reads(copy.value))}
    if not buffers & search.homes.keys():
        return None
    found = find_dma(copy, counts, search)
    if found is None:
        return None
    return mover_loops(found, found.trips, names)


def mover_loops(found: Dma | BlockMove, trips: Mapping[str, Index], names: Names) -> tuple[Node, ...]:
    """Return loops with these trip counts around a memory-to-memory move."""
    variables: list[tuple[str, Index]] = []
    bindings: dict[str, Index] = {}
    for counter, reach in trips.items():
        count = reach.substitute(bindings)  # as far as an outer counter leaves of it
        if count.value == 1:
            bindings[counter] = Index.of(0)
            continue
        variable = names.fresh(counter.strip("~+/"))
        variables.append((variable, count))
        bindings[counter] = Index.of(variable)
    refs = tuple((name, _reference(place, bindings)) for name, place in found.places)
    given = found.params if isinstance(found, Dma) else ()
    params = tuple((name, _as_argument(value, bindings)) for name, value in given)
    body: tuple[Node, ...] = (Issue(found.instruction, refs, params),)
    for variable, count in reversed(variables):
        body = (For(variable, count, body),)
    return body


def _as_argument(value: Index | Expr, bindings: Mapping[str, Index]) -> Index | Expr | int:
    """Return the value of a parameter as an argument of an issue, as a number if it is constant."""
    if not isinstance(value, Index):
        return value
    here = value.substitute(bindings)
    return here if here.value is None else here.value


def _reference(place: Location, bindings: Mapping[str, Index]) -> MemoryRef:
    strides = tuple(stride.substitute(bindings) for stride in place.strides)
    return MemoryRef(place.buffer, place.offset.substitute(bindings), strides)


def clear(
    buffer: str, dtype: DType, offset: Index, elements: int, search: MoveSearch, names: Names
) -> tuple[Node, ...]:
    """Return nodes that set a part of a buffer to zero. Raises: NoMapping if no instruction does this."""
    home = search.homes.get(buffer)
    if home is None:
        return (Fill(buffer, offset, Index.of(elements)),)
    found = find_clearing(search, home, dtype.name)
    if found is None:
        raise no_clearing(dtype, home, f"`{buffer}` is", search)
    whole, rest = divmod(elements, found.most)
    nodes: list[Node] = []
    if whole == 1:
        nodes.append(_clear_buffer(found, buffer, offset, found.most))
    elif whole:
        variable = names.fresh("part")
        here = offset + Index.of(variable) * found.most
        nodes.append(For(variable, Index.of(whole), (_clear_buffer(found, buffer, here, found.most),)))
    if rest:
        nodes.append(_clear_buffer(found, buffer, offset + whole * found.most, rest))
    return tuple(nodes)


def _clear_buffer(found: Clearing, buffer: str, offset: Index, elements: int) -> Issue:
    place = MemoryRef(buffer, offset, (Index.of(1),))
    return Issue(found.instruction, ((found.operand, place),), ((found.param, elements),))


def copy_loops(copy: Copy, counts: Mapping[str, Index], search: MoveSearch, names: Names) -> tuple[Node, ...]:
    """Return the loops of a copy. Raises: NoMapping if the machine cannot move a single element."""
    if any(count.value is not None and count.value <= 0 for count in counts.values()):
        return ()  # what would be filled ahead of the last block
    moved = dma_loops(copy, counts, search, names)
    if moved is not None:
        return moved
    block = block_of(copy, counts, search)
    if block is not None:
        return block_loops(block, counts, names)
    found = transfer_of(copy, counts, search)
    order = [c for c in copy.counters if c != found.counter]
    trips = {c: counts[c] for c in order}
    if found.counter is not None:
        trips[found.counter] = counts[found.counter].floordiv(found.width)
    steps = {found.counter: found.width} if found.counter is not None else {}
    return group_loops(found, trips, steps, {}, names)


def block_of(copy: Copy, counts: Mapping[str, Index], search: MoveSearch) -> BlockMove | None:
    """Return the block move for a copy, or None if other moves cost no more."""
    known = {c: n.value for c, n in counts.items() if n.value is not None}
    block = find_block(copy, known, search)
    other = find_transfer(copy, counts, search) if block is not None else None
    return None if block is None or (other is not None and other.cost_ns <= block.cost_ns) else block


def block_loops(block: BlockMove, counts: Mapping[str, Index], names: Names) -> tuple[Node, ...]:
    """Return the loops of a copy that moves blocks. Counters outside `counts` have one block."""
    sizes = dict(block.sizes)
    trips = {c: Index.of(1) for c in sizes} | {c: n.floordiv(sizes.get(c, 1)) for c, n in counts.items()}
    return mover_loops(block, trips, names)


def transfer_of(copy: Copy, counts: Mapping[str, Index], search: MoveSearch) -> Transfer:
    """Return the transfer for a copy. Raises: NoMapping if the machine cannot move a single element."""
    found = find_transfer(copy, counts, search)
    if found is None:
        dtype, value = copy.value.dtype, _name_expression(copy.value)
        said = f"{value} cannot be brought to {_name_expression(copy.target)} one element at a time"
        if any(any(elements_of(i)) for r in reads(copy.value) for i in r.index):
            said = f"data decides the address of {value}"
        raise NoMapping.of(
            "no-move",
            f"{search.machine.name} has no instructions that move one {dtype}: {said}",
            copy.value.span or copy.target.span,
            help=f"give {search.machine.name} an instruction that loads one {dtype} into a "
            "register and one that stores it from there, or choose sizes that its wider moves divide",
        )
    return found


def _name_expression(e: Expr) -> str:
    """Return the text of an expression, or the name of the value that it reads if it has no text."""
    if e.span is not None:
        return f"`{' '.join(e.span.text.split())}`"
    names = dict.fromkeys(r.buffer for r in reads(e))
    return ", ".join(f"`{name}`" for name in names) or "a value"


def group_loops(
    transfer: Transfer,
    trips: Mapping[str, Index],
    steps: Mapping[str, int],
    around: Mapping[str, Index],
    names: Names,
) -> tuple[Node, ...]:
    """Return loops with these trip counts, in order. A counter advances by its step in `steps`, else by 1."""
    bindings: dict[str, Index] = dict(around)
    variables: list[tuple[str, Index]] = []
    for counter, count in trips.items():
        if count.value == 1:
            bindings[counter] = Index.of(0)
            continue
        variable = names.fresh(counter.strip("~"))
        variables.append((variable, count))
        bindings[counter] = Index.of(variable) * steps.get(counter, 1)
    emitter = Emitter(names)
    emitter.deliver(transfer.store, bindings)
    body: tuple[Node, ...] = tuple(emitter.nodes)
    for variable, count in reversed(variables):
        body = (For(variable, count, body),)
    return body
