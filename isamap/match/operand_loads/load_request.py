"""Load requests for registers, the instructions that satisfy them, and an index of instructions by result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property, lru_cache
from math import lcm

import numpy as np

from isamap.ir import Const, DType, Expr, Index, Instruction, Operand, Read, strict_forbids
from isamap.ir.index import Element, Mod, has_elements
from isamap.machine import Machine, MachineInstruction, cost_params, cost_value, unset_state
from isamap.match.operand_loads.lane_accesses import lane_access_ns
from isamap.match.operand_loads.register_parts import Lanes, pieces_of
from isamap.match.operand_loads.standing import Lying
from isamap.match.patterns.address import Location, locate
from isamap.match.patterns.layouts import BUFFER_BYTES, address_steps, alignment, layout_holds
from isamap.match.patterns.pattern import Pattern, pattern_of
from isamap.match.patterns.reach import Params, is_of_layout
from isamap.match.patterns.unify import Binding, heads_match
from isamap.source.records import dataclass, field

Places = tuple[tuple[str, Index], ...]
"""Each coordinate of a memory as an expression of an element's coordinates %0, %1, …"""


def placement_of(operand: Operand, params: Params) -> Places:
    """Return the places of an operand's elements. Operands with equal places need no move between them."""
    placement = operand.placement
    if placement is None:
        return ()
    names = {name: Index.of(f"%{i}") for i, name in enumerate(placement.indices)}
    return tuple((name, e.substitute(params | names)) for name, e in placement.coordinates)


def registers_of(instruction: Instruction, name: str, params: Mapping[str, int]) -> int:
    """Return the most registers that an operand occupies. Unknown parameters take their largest value."""
    operand = instruction.operand(name)
    if operand.placement is None:
        return 1
    largest = {p.name: p.high.value for p in instruction.params if p.high is not None}
    numbers = {n: value for n, value in largest.items() if value is not None} | dict(params)
    shape = tuple(extent.evaluate(numbers) for extent in operand.shape)
    return count_registers(placement_of(operand, numbers), shape)


def count_registers(places: Places, shape: tuple[int, ...]) -> int:
    """Return the number of registers that an array occupies: one, unless `places` names each element's register."""
    register = dict(places).get("register")
    if register is None:
        return 1
    coordinates = dict(zip((f"%{axis}" for axis in range(len(shape))), np.indices(shape), strict=True))
    return len(set(np.ravel(register.evaluate(coordinates)).tolist()))


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A load request: a register whose elements are an expression of its coordinates.

    `valid` gives the number of elements along each coordinate that matter, None for all. The others must
    hold `fill`, or may hold anything if it is None. `used`, if given, are the only lanes that matter, for a
    register of one coordinate. `placement` gives the place of each element, () for row-major order. Along `idle`
    coordinates only the first element matters, and the others may hold anything.
    """

    expr: Expr
    memory: str
    dtype: DType
    shape: tuple[int, ...]
    valid: tuple[Index | None, ...]
    fill: Const | None = None
    used: Lanes | None = None
    placement: Places = ()
    idle: tuple[int, ...] = ()

    @property
    def registers(self) -> int:
        """The number of registers over which its elements are spread."""
        return count_registers(self.placement, self.shape)


@dataclass(frozen=True, slots=True)
class Present:
    """A register that already contains the requested value."""


@dataclass(frozen=True, slots=True)
class OperandMove:
    """An operand load: an instruction that computes a register.

    At the root of an operand store it writes memory. Its result lies in `registers` registers.
    """

    instruction: str
    output: str
    memory: str
    dtype: DType
    shape: tuple[int, ...]
    params: tuple[tuple[str, Index | Expr], ...]
    inputs: tuple[tuple[str, OperandMove | Location | Present], ...]
    cost_ns: float
    target: Location | None = None
    registers: int = 1


@dataclass(frozen=True, slots=True)
class BlockMove:
    """An instruction that moves a block of a copy: `sizes` are the elements along each counter.

    The `places` of its operands are given over the numbers of blocks along these. Units: `cost_ns` per
    element.
    """

    instruction: str
    places: tuple[tuple[str, Location], ...]
    sizes: tuple[tuple[str, int], ...]
    cost_ns: float


def _producer_of(instruction: Instruction) -> Pattern | None:
    """Return the pattern of an instruction that assigns values, or None for reductions and other instructions."""
    pattern = pattern_of(instruction)
    return pattern if pattern is not None and pattern.statement.assign.op is None else None


@dataclass(frozen=True, eq=False)
class Repertoire:
    """A machine's instructions indexed by their results, with facts that do not depend on the kernel.

    `strict` excludes those that a strict kernel does not allow. Instructions that require a state which
    nothing sets are excluded from operand loads.
    """

    machine: Machine
    strict: bool

    @cached_property
    def allowed(self) -> tuple[MachineInstruction, ...]:
        """The instructions that operand loads may use."""
        found = self.machine.instructions.values()
        return tuple(
            i
            for i in found
            if not (self.strict and strict_forbids(i.instruction.numerics))
            and not unset_state(i.instruction, self.machine)
        )

    @cached_property
    def outputs(self) -> dict[tuple[str, str], list[Instruction]]:
        """The allowed instructions with one output, by its memory and type."""
        found: dict[tuple[str, str], list[Instruction]] = {}
        for item in self.allowed:
            outputs = [o for o in item.instruction.operands if o.role in ("out", "inout")]
            if len(outputs) == 1:
                key = (outputs[0].memory or "", outputs[0].dtype.name)
                found.setdefault(key, []).append(item.instruction)
        return found

    @cached_property
    def producers(self) -> Callable[[str, str], list[Pattern]]:
        """Patterns with one register output and no reduction, by memory and type of that output."""
        return cache(lambda *of: [p for i in self.outputs.get(of, ()) if (p := _producer_of(i)) is not None])

    @cached_property
    def of_heads(self) -> dict[tuple[object, ...], list[Pattern]]:
        """The cached results of `producers_of`."""
        return {}

    def producers_of(self, memory: str, dtype: DType, value: Expr) -> list[Pattern]:
        """Return the producers of such a register whose outermost operation equals that of the value."""
        head = (type(value), getattr(value, "op", None), getattr(value, "mode", None), value.dtype)
        key = (memory, dtype.name, *head)
        if key not in self.of_heads:
            every = self.producers(memory, dtype.name)
            self.of_heads[key] = [p for p in every if heads_match(p.value, value)]
        return self.of_heads[key]

    @cached_property
    def lookups(self) -> Callable[[str, str], list[Lookup]]:
        """The producers that are table look-ups, by memory and type of their result."""
        return cache(lambda *of: [one for p in self.producers(*of) if (one := lookup_of(p)) is not None])

    @cached_property
    def in_pieces(self) -> Callable[[str, str], list[tuple[Pattern, ...]]]:
        """The instructions that write a register in pieces, by memory and type of that register."""
        return cache(lambda *of: [pieces for i in self.outputs.get(of, ()) if (pieces := pieces_of(i))])

    @cached_property
    def assigning(self) -> list[Pattern]:
        """The patterns that assign to memory a value read from memory, an expression of it, or a number."""
        reached = {m.name for m in self.machine.memories.values() if m.kind in ("addressable", "scratchpad")}
        every = [item.instruction for item in self.machine.instructions.values()]
        known = [_producer_of(i) for i in every if all(o.memory in reached for o in i.operands)]
        return [p for p in known if p is not None]

    @cached_property
    def block_moves(self) -> list[Pattern]:
        """The patterns that move a block of elements with two or more axes from memory to memory."""
        known = [_producer_of(item.instruction) for item in self.allowed if self._may_move(item.instruction)]
        return [p for p in known if p is not None and len(p.axes) > 1]

    def _may_move(self, instruction: Instruction) -> bool:
        kinds = (self.machine.memories[o.memory or ""].kind for o in instruction.operands)
        return not instruction.params and len(instruction.operands) == 2 and set(kinds) == {"addressable"}

    @cached_property
    def least_copies(self) -> dict[DType, float]:
        """The least cost of copying an element to a buffer, by its type. Units: ns."""
        return {}

    @cached_property
    def permuted_lanes(self) -> dict[str, tuple[int, ...] | None]:
        """For each instruction that permutes a register: the source lane of each destination lane."""
        return {}

    @cached_property
    def address_steps(self) -> dict[str, int]:
        """The alignment of buffer addresses in each scratchpad. Units: bytes."""
        return address_steps(self.machine)

    @cached_property
    def costs(self) -> dict[tuple[str, tuple[tuple[str, int], ...]], float]:
        """Intervals by instruction and parameters. Units: ns."""
        return {}


@dataclass(frozen=True, slots=True)
class Lookup:
    """A table look-up instruction. `at` is the subscript of the codes over its axes, `modulus` divides them."""

    pattern: Pattern
    table: Operand
    codes: Operand
    at: Index
    modulus: int | None


def lookup_of(pattern: Pattern) -> Lookup | None:
    """Return the table look-up that an instruction performs, or None if its subscripts depend on no values."""
    value = pattern.value
    if not isinstance(value, Read) or not any(map(has_elements, value.index)):
        return None
    match value.index:
        case (Index((((Element(buffer, at),), 1),)),):
            modulus = None
        case (Index((((Mod(Index((((Element(buffer, at),), 1),)), divisor),), 1),)),) if divisor.value:
            modulus = divisor.value
        case _:
            return None
    own = pattern.instruction
    return Lookup(pattern, own.operand(value.buffer), own.operand(buffer), at, modulus)


@lru_cache(maxsize=8)
def _repertoire(machine: Machine, strict: bool) -> Repertoire:
    return Repertoire(machine, strict)


@dataclass(frozen=True)
class MoveSearch:
    """The context of the search for operand loads: the machine, the kernel's array layouts, and caches.

    Units: `strides` of each array in elements. `homes` names the scratchpad of each buffer that lies in
    one. `alignments` are the alignments that the kernel promises of its arrays, in bytes. `steps` gives the
    unit, in elements, of a buffer's addresses. `strict` is the kernel's. `passing` are arrays that exist
    only inside the kernel. `main` names the main memory of each array that the kernel assigns to one.
    `ordered` are the extents of axes of ordered loops that other extents depend on.
    `short_indices`: those that the kernel uses as values fit 32 bits. `index_types` are the types of the arrays
    whose elements subscripts are made of. `dense` are the strides of arrays whose rows are adjacent.
    """

    machine: Machine
    strides: dict[str, tuple[Index, ...]]
    homes: dict[str, str] = field(default_factory=dict[str, str])
    strict: bool = False
    alignments: Mapping[str, int] = field(default_factory=dict[str, int])
    steps: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    passing: frozenset[str] = frozenset()
    main: Mapping[str, str] = field(default_factory=dict[str, str])
    ordered: Mapping[str, Index] = field(default_factory=dict[str, Index])
    short_indices: bool = False
    index_types: Mapping[str, DType] = field(default_factory=dict[str, DType])
    dense: Mapping[str, int] = field(default_factory=dict[str, int])

    @cached_property
    def known(self) -> Repertoire:
        """The facts about the machine that do not depend on the kernel."""
        return _repertoire(self.machine, self.strict)

    @cached_property
    def memo(self) -> dict[LoadRequest, OperandMove]:
        """The operand loads found so far."""
        return {}

    @cached_property
    def stores(self) -> dict[tuple[Read, Expr, str, DType | None, LoadRequest], OperandMove | None]:
        """The results of earlier searches for stores, by their full query."""
        return {}

    @cached_property
    def transfers(self) -> dict[tuple[object, tuple[tuple[str, Index], ...]], object]:
        """The cheapest ways to move a copy's elements, by the copy and the ranges of its counters."""
        return {}

    @cached_property
    def movers(self) -> dict[tuple[Read, Expr, tuple[tuple[str, Index], ...]], object]:
        """The instructions found for a copy to or from a scratchpad, by the full query."""
        return {}

    @cached_property
    def packings(self) -> dict[tuple[tuple[Index, ...], DType, Expr, tuple[int, ...]], float | None]:
        """The time to pack an element, by a buffer's strides and type, a cell and the shape. Units: ns."""
        return {}

    @cached_property
    def groups(self) -> dict[tuple[DType, Lying | Expr, int, int], float | None]:
        """The time to pack a group, by its layout, its length, and the register's length. Units: ns."""
        return {}

    @cached_property
    def blocks(self) -> dict[tuple[Read, Expr, tuple[tuple[str, int | None], ...]], BlockMove | None]:
        """The blocks found across tiles, by target, value, and ranges of the counters."""
        return {}

    @cached_property
    def underway(self) -> set[LoadRequest]:
        """The load requests that are being searched."""
        return set()

    @cached_property
    def met(self) -> set[LoadRequest]:
        """The load requests that are being searched and that their own chains need again."""
        return set()

    @cached_property
    def failed(self) -> dict[LoadRequest, int]:
        """The load requests for which no chain was found, with the least `moves` of a failed search."""
        return {}

    def is_addressable(self, memory: str | None) -> bool:
        """Return whether a memory holds arrays that are accessed by address."""
        return memory is not None and self.machine.memories[memory].kind in ("addressable", "scratchpad")

    def holds_arrays(self, memory: str | None) -> bool:
        """Return whether a memory holds the kernel's arrays and the workspace. Scratchpads do not."""
        return memory is not None and self.machine.memories[memory].kind == "addressable"

    def lies_in(self, buffer: str, memory: str | None) -> bool:
        """Return whether an array or buffer is in a memory. Arrays are in every addressable memory."""
        home = self.homes.get(buffer) or self.main.get(buffer)
        return self.holds_arrays(memory) if home is None else home == memory

    def aligned_bytes(self, place: Location, dtype: DType) -> int:
        """Return a number of bytes that divides the address of a location.

        Buffers of the workspace start at lines; those of a scratchpad start where all of its instructions
        accept them.
        """
        size = max(1, dtype.bits // 8)
        home = self.homes.get(place.buffer)
        start = BUFFER_BYTES if home is None else lcm(size, self.known.address_steps[home])
        base = self.alignments.get(place.buffer, start)
        return alignment(place, base, size, self.steps.get(place.buffer, {}))

    def locate(
        self, instruction: Instruction, binding: Binding, params: Params, limits: dict[str, int]
    ) -> Location | None:
        """Return the location of an instruction's operand, or None if the instruction does not accept it."""
        operand = instruction.operand(binding.name)
        found = locate(self.strides, operand, binding, params, limits)
        if found is None or not self.lies_in(found.buffer, operand.memory):
            return None
        if found.buffer in self.homes:
            encoding = self.machine.instructions[instruction.name].encoding
            unit = 1 if encoding is None else encoding.unit_of(operand.name)
            if unit > 1 and self.aligned_bytes(found, operand.dtype) % unit:
                return None
        where = [c for c in instruction.where if is_of_layout(c)]
        met = not where or layout_holds(
            where,
            operand,
            found,
            self.aligned_bytes(found, operand.dtype),
            params,
            self.steps.get(found.buffer, {}),
        )
        return found if met else None

    def interval_ns(self, name: str, params: Params) -> float:
        """Return the time for which an instruction occupies one of its units. Units: ns."""
        key, costs = (name, tuple(sorted(params.items()))), self.known.costs
        if key not in costs:
            item = self.machine.instructions[name]
            count = self.machine.units[item.cost.unit].count
            costs[key] = cost_value(item.cost.interval_ns, self._numbers(item, params)) / max(1, count)
        return costs[key]

    def lanes_ns(
        self, name: str, places: Iterable[tuple[str, Location]], params: Params
    ) -> tuple[str, float]:
        """Return the memory at which lanes wait longest, and the wait beyond the interval. Units: ns."""
        longest = "", 0.0
        if self.machine.levels:
            item, own_ns = self.machine.instructions[name], self.interval_ns(name, params)
            numbers = self._numbers(item, params)
            for operand, place in places:
                strides = [stride.substitute(dict(self.dense)).value for stride in place.strides]
                known = tuple(stride for stride in strides if stride is not None)
                if len(known) == len(strides):
                    ns = lane_access_ns(self.machine, name, operand, known, tuple(numbers.items())) - own_ns
                    memory = item.instruction.operand(operand).memory or ""
                    longest = max(longest, (memory, ns), key=lambda found: found[1])
        return longest

    def energy_pj(self, name: str, params: Params) -> float:
        """Return the energy of one issue without memory accesses, or 0 if none is stated. Units: pJ."""
        item = self.machine.instructions[name]
        energy = item.cost.energy_pj
        return 0.0 if energy is None else cost_value(energy, self._numbers(item, params))

    def _numbers(self, item: MachineInstruction, params: Params) -> dict[str, int]:
        """Return the values of all names in the costs of an instruction. Unknown ones have their largest value."""
        most = {p.name: p.high.value for p in item.instruction.params if p.high and p.high.value}
        return cost_params(item, self.machine, {**most, **params})
