"""Keep tiles in scratchpads between uses, across statements of a kernel and steps of a network.

    dma_in A → spad + 0;    vector spad + 0 → spad + 4096;  dma_out spad + 4096 → T;   dma_in T → spad + 0;  …
    dma_in A → spad + 0;    vector spad + 0 → spad + 4096;  dma_out spad + 4096 → T;   …, which reads spad + 4096

Unrolled commands have numbers as addresses, so a scratchpad is allocated as registers are. A *web* is the bytes
that commands write and others read together. A load is redundant if the same bytes are still in a web. Its
readers then read that web, which lives longer and, if necessary, lies elsewhere. The loads that save most time
per occupied byte come first. Stores that nothing reads are removed afterwards.
Pipeline: between `unroll` and `assign_tokens`. A change here affects each stream, its traffic and its time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Instruction
from isamap.ir.walk import is_copy
from isamap.machine import Machine, home_of, main_memories
from isamap.source.records import dataclass, field, replace
from isamap.stream.accesses import AccessedBytes, accesses
from isamap.stream.command import Address, Command, bound_instruction, extents, integers
from isamap.stream.memory_layout import ALIGNMENT, StreamArray
from isamap.stream.order import NEVER, room
from isamap.stream.timing import command_times

MOST_TOGETHER = 512
"""The largest number of webs with fixed distances that move as one."""
MOST_EQUAL = 64
"""The number of equal tiles that are tried, the last ones first."""
GONE = -(1 << 40)
"""The address of a web that no longer exists."""


@dataclass(frozen=True, slots=True)
class StepCommands:
    """The commands of a step. The host writes `changed` before them. Nothing after them reads `own`."""

    commands: Sequence[Command]
    changed: tuple[StreamArray, ...] = ()
    own: tuple[StreamArray, ...] = ()


@dataclass(frozen=True, slots=True)
class _EqualTile:
    """The scratchpad values that together equal the same bytes of main memory since a time.

    `sources` pairs each value with an address: where the whole tile would start if the rest of it had the same
    distance to this value.
    """

    sources: tuple[tuple[int, int], ...]
    time: int


@dataclass(slots=True)
class _Value:
    """The bytes that one command writes in a scratchpad, live from its `first` to its `last` use.

    `overwritten` are the later values in the same bytes, with their times. `equal` are tiles that hold the same
    bytes: the first `earlier` of them existed before this value, and those since `since` are still valid.
    Units: bytes, commands, ns.
    """

    memory: str
    low: int
    high: int
    first: int
    last: int
    saved_ns: float = 0.0
    equal: Sequence[_EqualTile] = ()
    earlier: int = 0
    since: int = NEVER
    is_load: bool = False
    overwritten: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


_Rows = tuple[object, Sequence[int], Sequence[int]]


@dataclass(slots=True)
class _Trace:
    """The values in all scratchpads while commands are visited in order."""

    machine: Machine
    mains: tuple[str, ...]
    """All main memories. Commands write the first one only; the others have constants."""
    scratchpads: frozenset[str]
    values: list[_Value] = field(default_factory=list[_Value])
    parents: list[int] = field(default_factory=list[int])
    used: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    """By command and operand, a value of its web; NEVER for one outside of scratchpads."""
    outside: list[tuple[AccessedBytes, ...]] = field(default_factory=list[tuple[AccessedBytes, ...]])
    """By command, its accesses of main memory."""
    _owners: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    _written: NDArray[Any] | None = None
    _known: dict[object, list[_EqualTile]] = field(default_factory=lambda: defaultdict(list[_EqualTile]))
    _rows: dict[object, _EqualTile] = field(default_factory=dict[object, _EqualTile])
    """The tile that last stored a row of main memory, with the place of the row in the scratchpad."""

    def web(self, value: int) -> int:
        """Return the representative value of a web."""
        while self.parents[value] != value:
            self.parents[value] = self.parents[self.parents[value]]
            value = self.parents[value]
        return value

    def change(self, array: StreamArray) -> None:
        """Record that the host writes an array."""
        end = array.offset + array.size_bytes
        self._written = room(self._written, end)
        self._written[array.offset : end] = len(self.used)

    def visit(self, command: Command) -> None:
        """Record the values that a command reads and writes."""
        now, item = len(self.used), self.machine.instructions[command.instruction]
        touched = list(accesses(command, item.instruction))
        inner = [n for n, access in enumerate(touched) if access.memory in self.scratchpads]
        outer = tuple(a for a in touched if a.memory in self.mains)
        read = {n: self._owning(touched[n]) for n in inner if touched[n].is_read}
        for values in read.values():
            self._join(values, now)
        used = {n: values[-1] for n, values in read.items()}
        tiles, rows = None, None
        is_move = len(inner) == 1 and len(touched) <= 2 and len(inner) + len(outer) == len(touched)
        if is_move and all(operand.domain is None for operand in item.instruction.operands):
            key, rows = _tile_key(command, item.instruction, self.mains)
            tiles = self._known[key]
        for n in (n for n in inner if touched[n].is_written):
            used[n] = self._write(touched[n], read.get(n, ()), now)
            if tiles is not None and not read and not any(a.is_written for a in outer):
                own = self.values[used[n]]
                own.since = max(map(self._changed, outer), default=NEVER)
                is_known = any(tile.time >= own.since for tile in tiles)
                if rows is not None and not is_known and outer[0].memory == self.mains[0]:
                    tiles += self._joined_rows(*rows, outer[0])
                own.equal, own.earlier, own.is_load = tiles, len(tiles), bool(outer)
                own.saved_ns = command_times(command, self.machine)[0]
                tiles.append(_EqualTile(((used[n], touched[n].address),), now))
        for access in (a for a in outer if a.is_written):
            assert access.memory == self.mains[0], "the others have constants"
            self._written = room(self._written, access.end)
            access.of(self._written)[...] = now
            if tiles is not None and read and NEVER not in read[inner[0]] and is_copy(item.instruction):
                tiles.append(_EqualTile(tuple((v, touched[inner[0]].address) for v in read[inner[0]]), now))
                kind, places, addresses = rows or (None, (), ())
                for place, address in zip(places, addresses, strict=True):
                    self._rows[kind, place] = _EqualTile(tuple((v, address) for v in read[inner[0]]), now)
        self.used.append(tuple(used.get(n, NEVER) for n in range(len(touched))))
        self.outside.append(outer)

    def _owning(self, access: AccessedBytes) -> tuple[int, ...]:
        """Return the values in the bytes of an access."""
        owners = self._owners[access.memory] = room(self._owners.get(access.memory), access.end)
        view = access.of(owners)
        first = int(view.flat[0])
        return (first,) if bool((view == first).all()) else tuple(map(int, np.unique(view)))

    def _join(self, values: Sequence[int], now: int) -> None:
        """Merge the webs of values that are read together."""
        known = [value for value in values if value != NEVER]
        for value in known:
            self.values[value].last = now
            self.parents[self.web(value)] = self.web(known[0])

    def _write(self, access: AccessedBytes, joined: Sequence[int], now: int) -> int:
        """Return the new value in the bytes of an access, in the web of the values that it changes."""
        value = len(self.values)
        for other in self._owning(access):
            if other != NEVER:
                self.values[other].overwritten.append((now, value))
        self.values.append(_Value(access.memory, access.address, access.end, now, now))
        self.parents.append(value)
        self._join((*joined, value), now)
        access.of(self._owners[access.memory])[...] = value
        return value

    def _joined_rows(
        self, key: object, places: Sequence[int], addresses: Sequence[int], outer: AccessedBytes
    ) -> list[_EqualTile]:
        """Return the tile that several stores have written row by row into a scratchpad, or []."""
        known = [self._rows.get((key, place)) for place in places]
        found, size, time = dict[int, int](), outer.end - places[-1], NEVER
        for row, place, at in zip(known, places, addresses, strict=True):
            if row is None or self._written is None or row.time != self._written[place : place + size].max():
                return []
            moved = [(v, address - at + addresses[0]) for v, address in row.sources]
            if any(found.setdefault(v, address) != address for v, address in moved):
                return []
            time = max(time, row.time)
        return [_EqualTile(tuple(found.items()), time)]

    def _changed(self, access: AccessedBytes) -> int:
        """Return when the main memory bytes of an access were last written."""
        if access.memory != self.mains[0]:
            return NEVER
        self._written = room(self._written, access.end)
        return int(access.of(self._written).max())


def _tile_key(
    command: Command, instruction: Instruction, mains: Sequence[str]
) -> tuple[object, _Rows | None]:
    """Return a key that equal tiles have in common, and the rows if the command copies, or None.

    The key is a place in main memory with a layout, or a computation. Rows have a kind, and their addresses in main
    memory and in the scratchpad.
    """
    every = [w for _, w in command.operands if isinstance(w, Address)]
    (inner,), outer = (
        (w for w in every if w.memory not in mains),
        tuple(w for w in every if w.memory in mains),
    )
    if not is_copy(instruction):
        return (command.instruction, command.params, inner.memory, inner.strides, outer), None
    operand = bound_instruction(instruction, integers(instruction, command.params)).operands[0]
    shape, key = extents(operand), (inner.memory, inner.strides, outer, extents(operand), operand.dtype)
    if len(shape) != 2 or min(w.strides[0] for w in every) <= 0:
        return key, None
    places, addresses = (
        range(w.address, w.address + shape[0] * w.strides[0], w.strides[0]) for w in (*outer, inner)
    )
    return key, (
        (inner.memory, shape[1], inner.strides[1], outer[0].strides[1], operand.dtype),
        places,
        addresses,
    )


# --- where webs lie -----------------------------------------------------------------------------------------


def keep_tiles(parts: Sequence[StepCommands], machine: Machine) -> list[list[Command]]:
    """Return the commands without redundant loads, and without stores that no command reads.

    Words with slots are not changed: their loops need regular addresses.
    """
    if machine.program is not None and machine.program.bundle is not None:
        return [list(part.commands) for part in parts]
    scratchpads = frozenset(name for name, m in machine.memories.items() if m.kind == "scratchpad")
    home = home_of(machine)
    trace = _Trace(machine, (home, *(m for m in main_memories(machine) if m != home)), scratchpads)
    for part in parts:
        for array in part.changed:
            trace.change(array)
        for command in part.commands:
            trace.visit(command)
    kept = _Allocation.of(trace)
    for web in kept.order_redundant():
        kept.remove_loads(web)
    commands = [command for part in parts for command in part.commands]
    removed = {trace.values[value].first for value in kept.real}
    is_needed = [number not in removed for number in range(len(commands))]
    _drop_dead_stores(parts, trace, machine, is_needed)
    found, at = list[list[Command]](), 0
    for part in parts:
        numbers = range(at, at + len(part.commands))
        found.append([kept.place(commands[n], trace.used[n]) for n in numbers if is_needed[n]])
        at = numbers.stop
    return found


@dataclass(slots=True)
class _Allocation:
    """The webs of all scratchpads, by number in the order of their first command, while loads are removed.

    `moved` has the displacement of each web, `group` the webs that move with it. Units: bytes, commands.
    """

    trace: _Trace
    values: list[list[int]]
    numbers: dict[int, int]
    """By value that stands for a web, the number of the web."""
    memory: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    first: NDArray[Any]
    last: NDArray[Any]
    reach: NDArray[Any]
    """The last command in which this web or one before it lives."""
    moved: NDArray[Any]
    group: NDArray[Any]
    members: list[list[int]]
    left: dict[int, list[_Value]] = field(default_factory=dict[int, list[_Value]])
    """By web of which some values are read elsewhere, the others, with gaps between them."""
    real: dict[int, Sequence[tuple[int, int]]] = field(default_factory=dict[int, Sequence[tuple[int, int]]])
    """By value that is not loaded a value of each web that is read instead, and the distance of their tiles."""

    @staticmethod
    def of(trace: _Trace) -> _Allocation:
        """Return the webs at the addresses that kernels' schedules give them."""
        webs: dict[int, list[int]] = {}
        for value in range(len(trace.values)):
            webs.setdefault(trace.web(value), []).append(value)
        every = list(webs.values())
        own = [[trace.values[v] for v in web] for web in every]
        low, high = (
            [pick(getattr(v, at) for v in web) for web in own] for pick, at in ((min, "low"), (max, "high"))
        )
        last = np.array([max(v.last for v in web) for web in own], np.int64)
        count = np.arange(len(every))
        return _Allocation(
            trace, every, {web: number for number, web in enumerate(webs)}, np.array([web[0].memory for web in own]),
            np.array(low, np.int64), np.array(high, np.int64), np.array([web[0].first for web in own], np.int64),
            last, np.maximum.accumulate(last), np.zeros_like(count), count.copy(), [[n] for n in range(len(every))],
        )  # fmt: skip

    def order_redundant(self) -> list[int]:
        """Return the webs with redundant loads, those that save most time per byte first."""
        found: list[tuple[float, int]] = []
        for web in range(len(self.values)):
            if equal := self._equal_tiles(web):
                own = [self.trace.values[v] for v in equal]
                wait = int(self.last[web]) - min(tile.time for tile in equal.values())
                occupied = wait * sum(v.high - v.low for v in own)
                found.append((occupied / max(sum(v.saved_ns for v in own), 1e-9), web))
        return [web for _, web in sorted(found)]

    def _equal_tiles(self, web: int) -> dict[int, _EqualTile]:
        """Return equal tiles of other webs for the values of a web, at the most frequent distance.

        A web may lie at several distances, as the columns of a repeated value or one tile for all of a border.
        """
        known = [(v, tile) for v in self.values[web] for tile in self._earlier(v, web)]
        places = [
            {(self._web(one), address - self.trace.values[v].low) for one, address in tile.sources}
            for v, tile in known
        ]
        common, found = dict[int, int](), dict[int, _EqualTile]()
        for (source, distance), _ in Counter(chain.from_iterable(places)).most_common():
            common.setdefault(source, distance)
        for (value, tile), there in zip(known, places, strict=True):
            if all(common[source] == distance for source, distance in there):
                found.setdefault(value, tile)
        return found

    def _earlier(self, value: int, web: int) -> Iterator[_EqualTile]:
        """Yield earlier tiles of other webs that are equal to a value, the latest tile first."""
        own = self.trace.values[value]
        for tile in reversed(own.equal[max(0, own.earlier - MOST_EQUAL) : own.earlier]):
            if tile.time >= own.since and self._web(tile.sources[0][0]) != web:
                yield tile

    def _web(self, value: int) -> int:
        return self.numbers[self.trace.web(value)]

    def remove_loads(self, web: int) -> None:
        """Remove the loads of a web that repeat other values, if those values can stay long enough.

        Other commands of the web may write a part of its tile, such as zeros behind the last row. They then write
        next to these values.
        """
        equal = self._equal_tiles(web)
        loads = {v: tile for v, tile in equal.items() if self.trace.values[v].is_load}
        if not self._replace(web, equal) and len(loads) < len(equal):
            self._replace(web, loads)

    def _replace(self, web: int, equal: Mapping[int, _EqualTile]) -> bool:
        """Read equal tiles instead of some values of a web. Return whether there is room for that."""
        end, real, distances = int(self.last[web]), dict[int, Sequence[tuple[int, int]]](), dict[int, int]()
        for value, tile in equal.items():
            low = self.trace.values[value].low
            pairs = [(v, at - low + more) for one, at in tile.sources for v, more in self._real(one)]
            for source, distance in pairs:
                known = distances.setdefault(self._web(source), distance)
                if known != distance or self._changes(source, end):
                    return False
            real[value] = tuple({self._web(source): (source, apart) for source, apart in pairs}.values())
        if not equal or web in distances or any(self._changes(v, end) for v in self.values[web]):
            return False
        anchor = max(distances, key=lambda w: len(self.members[int(self.group[w])]))
        base = int(self.moved[anchor]) + distances[anchor]
        moves = {int(self.group[web]): base - int(self.moved[web])}
        for source, distance in distances.items():
            move = base - distance - int(self.moved[source])
            if moves.setdefault(int(self.group[source]), move) != move:
                return False
        self.left[web] = [self.trace.values[v] for v in self.values[web] if v not in real]
        fits = not moves[int(self.group[anchor])] and self._extend(list(distances), web, moves, anchor)
        if not fits:
            del self.left[web]
            return False
        self.real |= real
        return True

    def _real(self, value: int) -> Sequence[tuple[int, int]]:
        """Return the values that are read instead of a value, each with the distance of its tile."""
        if value not in self.real:
            return ((value, 0),)
        return [(v, more + apart) for one, apart in self.real[value] for v, more in self._real(one)]

    def _changes(self, value: int, end: int) -> bool:
        """Return whether a value of the same web overwrites a part of it before `end`.

        A value of another web may have overwritten this part first. That one may lie elsewhere now.
        """
        every, web = self.trace.values, self._web(value)
        own, found, seen = every[value], [value], {value}

        def overlaps(it: _Value) -> bool:
            return own.first < it.first <= end and it.low < own.high and own.low < it.high

        if not any(overlaps(every[other]) for other in self.values[web]):
            return False  # what other webs overwrite need not be followed
        for _, other in chain.from_iterable(every[one].overwritten for one in found):
            if other not in seen and overlaps(every[other]):
                if self._web(other) == web:
                    return True
                found.append(other)
                seen.add(other)
        return False

    def _extend(self, webs: Sequence[int], gone: int, moves: Mapping[int, int], anchor: int) -> bool:
        """Extend the lifetimes of webs, and move groups of webs, if there is room. Return whether there was."""
        together = np.array(sorted(m for group in moves for m in self.members[group]))
        if together.size > MOST_TOGETHER:
            return False
        arrays = self.low, self.high, self.last, self.moved
        saved = [(array, array[together].copy()) for array in arrays]
        end = int(self.last[gone])
        place = int(self.moved[gone])
        self.low[gone] = min((value.low + place for value in self.left[gone]), default=GONE)
        self.high[gone] = max((value.high + place for value in self.left[gone]), default=GONE)
        for web in webs:
            self.last[web] = max(int(self.last[web]), end)
            reach = self.reach[web : np.searchsorted(self.first, end, "right")]
            np.maximum(reach, end, out=reach)
        for group, move in moves.items():
            self._move(np.array(self.members[group]), move)
        alive = together[self.low[together] > GONE // 2]
        moved = (m for group, move in moves.items() if move for m in self.members[group])
        clashing = {
            c for web in {*webs, *moved, gone} if self.low[web] > GONE // 2 for c in self._clashing(web)
        }
        limit, step = _reach_of(self.trace.machine, str(self.memory[anchor]))
        fits = not clashing & set(alive.tolist())
        if fits and (clashing or self.low[alive].min() < 0 or self.high[alive].max() > limit):
            fits = self._settle(together, alive, limit, step)
        if not fits:
            for array, old in saved:
                array[together] = old
            return False
        kept = int(self.group[anchor])
        for group in moves.keys() - {kept}:
            self.group[self.members[group]] = kept
            self.members[kept] += self.members[group]
        return True

    def _move(self, webs: NDArray[Any], move: int) -> None:
        for array in (self.low, self.high, self.moved):
            array[webs] += move

    def _living(self, first: int, last: int, memory: str) -> NDArray[Any]:
        """Return the webs of a memory that are live at some time between two commands."""
        begin, end = np.searchsorted(self.reach, first), np.searchsorted(self.first, last, "right")
        return begin + np.flatnonzero((self.last[begin:end] >= first) & (self.memory[begin:end] == memory))

    def _clashing(self, web: int) -> list[int]:
        """Return the webs that occupy bytes of a web during its lifetime."""
        found = self._living(int(self.first[web]), int(self.last[web]), str(self.memory[web]))
        overlap = (self.low[found] < self.high[web]) & (self.high[found] > self.low[web])
        own, others = self._parts(web), found[overlap & (found != web)].tolist()
        return [c for c in others if any(a < e and d < b for a, b in own for d, e in self._parts(c))]

    def _parts(self, web: int) -> list[tuple[int, int]]:
        """Return the first address and the end of each part of a web."""
        if web not in self.left:
            return [(int(self.low[web]), int(self.high[web]))]
        return [(v.low + int(self.moved[web]), v.high + int(self.moved[web])) for v in self.left[web]]

    def _settle(self, together: NDArray[Any], alive: NDArray[Any], limit: int, step: int) -> bool:
        """Move webs together to the first address that is free for their lifetimes. Return whether there is one."""
        life = int(self.first[alive].min()), int(self.last[alive].max())
        others = np.setdiff1d(self._living(*life, str(self.memory[alive[0]])), together)
        low = int(self.low[alive].min())
        at, size = low % step, int(self.high[alive].max()) - low
        order = others[np.argsort(self.low[others], kind="stable")]
        for begin, end in zip(self.low[order].tolist(), self.high[order].tolist(), strict=True):
            if at + size <= begin:
                break
            at = max(at, -(-(end - low) // step) * step + low)
        if at + size <= limit:
            self._move(together, at - low)
        return at + size <= limit

    def place(self, command: Command, used: Sequence[int]) -> Command:
        """Return a command with its webs' addresses."""
        operands = list(command.operands)
        for n, value in enumerate(used):
            name, where = operands[n]
            if value != NEVER and isinstance(where, Address):
                real, distance = self._real(value)[0]
                move = distance + int(self.moved[self._web(real)])
                operands[n] = name, replace(where, address=where.address + move)
        return replace(command, operands=tuple(operands))


@lru_cache(maxsize=64)
def _reach_of(machine: Machine, memory: str) -> tuple[int, int]:
    """Return the size of a scratchpad and the alignment that its instructions require. Units: bytes."""
    steps = (
        item.encoding.unit_of(operand.name)
        for item in machine.instructions.values() if item.encoding is not None
        for operand in item.instruction.operands if operand.memory == memory
    )  # fmt: skip
    return machine.memories[memory].capacity_bytes or 0, lcm(ALIGNMENT, *steps)


def _drop_dead_stores(
    parts: Sequence[StepCommands], trace: _Trace, machine: Machine, is_needed: list[bool]
) -> None:
    """Mark stores as unneeded if no command reads the bytes before others are written there.

    All of a tensor is needed at the end of its step: the host, the caller or `verify` may read it.
    """
    commands = [command for part in parts for command in part.commands]
    outside = [[a for a in touched if a.memory == trace.mains[0]] for touched in trace.outside]
    most = max((a.end for touched in outside for a in touched), default=0)
    is_read, end = np.zeros(most, np.bool_), len(commands)
    for part in reversed(parts):
        numbers = range(end - len(part.commands), end)
        end = numbers.start
        for access in (a for n in numbers for a in outside[n] if a.is_written):
            inside = any(a.offset <= access.address < a.offset + a.size_bytes for a in part.own)
            access.of(is_read)[...] = not inside
        for n in (n for n in reversed(numbers) if is_needed[n]):
            stored = [a for a in outside[n] if a.is_written and not a.is_read]
            written = (
                o
                for o in machine.instructions[commands[n].instruction].instruction.operands
                if o.role != "in"
            )
            if len(stored) == sum(1 for _ in written) and not any(a.of(is_read).any() for a in stored):
                is_needed[n] = False
                continue
            for access in sorted(outside[n], key=lambda a: a.is_read):
                access.of(is_read)[...] = access.is_read
