"""Chains of instructions that move one operand: their steps, and the kind of data movement."""

from __future__ import annotations

from math import prod
from typing import Literal

from isamap.ir import Index, Instruction
from isamap.match.moves.transfers import Transfer
from isamap.match.operand_loads.load_request import MoveSearch, OperandMove, Present
from isamap.match.patterns.address import Location
from isamap.match.tiles.operand_tiles import OperandTile
from isamap.source import add_up, dataclass, replace
from isamap.transform import distinct_reads

MoveKind = Literal["in place", "strided", "gathered", "packed", "none"]


@dataclass(frozen=True, slots=True)
class Movement:
    """The data movement of one operand.

    `chain` are the instructions of one issue in execution order. `packing` are those of the copy into (or
    out of) a buffer, for one group of its elements. `why` says what is missing, or why nothing cheaper
    serves. Units: `moves_per_issue` counts instructions without those of the copy, `packing_moves`
    instructions for one tile of the copy. `bytes_per_issue` counts the array's bytes that one issue needs.
    `cost_ns` is for one issue, without the copy. `packing_ns` is for the copies of one tile, None if each
    of their moves takes its interval regardless of size.
    """

    operand: str
    kind: MoveKind
    chain: tuple[str, ...]
    why: str = ""
    packing: tuple[str, ...] = ()
    moves_per_issue: int = 0
    packing_moves: int = 0
    bytes_per_issue: int = 0
    cost_ns: float = 0.0
    packing_ns: float | None = None


def steps_of(found: OperandMove | Present) -> tuple[OperandMove, ...]:
    """Return the instructions of a chain in execution order. Equal instructions run once."""
    if isinstance(found, Present):
        return ()
    inner = [s for _, source in found.inputs if isinstance(source, OperandMove) for s in steps_of(source)]
    return tuple(dict.fromkeys((*inner, found)))


def issued_ns(found: OperandMove) -> float:
    """Return the time of a chain in which equal instructions run once. Units: nanoseconds."""
    return _issued_ns(steps_of(found)) if found.cost_ns else 0.0


def timed_steps(found: OperandMove) -> tuple[tuple[OperandMove, float], ...]:
    """Return the instructions of a chain, each with its own time. Units: nanoseconds."""
    return tuple((s, _own_ns(s)) for s in steps_of(found))


def _issued_ns(chain: tuple[OperandMove, ...]) -> float:
    return add_up(map(_own_ns, chain))


def _own_ns(step: OperandMove) -> float:
    return step.cost_ns - add_up(i.cost_ns for _, i in step.inputs if isinstance(i, OperandMove))


def kind_of(chain: tuple[OperandMove, ...], arrays: int, search: MoveSearch) -> MoveKind:
    """Return the kind of a chain that accesses `arrays` elements. A chain with accesses at several places gathers."""
    places: dict[Location, bool] = {}
    for step in chain:
        owner = search.machine.instructions[step.instruction].instruction
        params = {n: v.value for n, v in step.params if isinstance(v, Index) and v.value is not None}
        ends = [(n, p) for n, p in step.inputs if isinstance(p, Location)]
        if step.target is not None:
            ends.append((step.output, step.target))
        for name, place in ends:
            places[place] = is_dense(place, owner, name, params)
    if len({(p.buffer, p.offset) for p in places}) > arrays:
        return "gathered"
    return "in place" if all(places.values()) else "strided"


def is_dense(place: Location, owner: Instruction, name: str, params: dict[str, int]) -> bool:
    """Return whether the elements of an operand in memory are contiguous."""
    step = Index.of(1)
    for size, stride in reversed(list(zip(owner.operand(name).shape, place.strides, strict=True))):
        length = size.substitute(params)
        if length.value != 1 and stride != step:
            return False
        step = step * length
    return True


def moved_by(operand: OperandTile, kind: MoveKind, chain: tuple[OperandMove, ...]) -> Movement:
    """Return the movement in which each issue runs the chain of moves."""
    array = [r.dtype.size_bytes for r in distinct_reads(operand.subject)]
    return Movement(
        operand.name,
        kind,
        tuple(s.instruction for s in chain),
        moves_per_issue=len(chain),
        bytes_per_issue=prod(operand.cell_shape) * sum(array),
        cost_ns=_issued_ns(chain),
    )


def with_copy(moved: Movement, operand: OperandTile, *copies: Transfer) -> Movement:
    """Return the movement with the copies that fill a buffer or write it back."""
    chains = [(steps_of(c.store), c.width) for c in copies]
    elements = prod(operand.cell_shape)
    return replace(
        moved,
        packing=tuple(s.instruction for chain, _ in chains for s in chain),
        packing_moves=sum(len(chain) * -(-elements // width) for chain, width in chains),
    )
