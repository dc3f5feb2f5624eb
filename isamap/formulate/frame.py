"""The context in which all mappings of a kernel are priced: the machine's memories, sizes, operand loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from isamap import machine as machines
from isamap.formulate.fusable import offer_once
from isamap.formulate.hierarchy import Memories
from isamap.formulate.matches import Matches, find_matches
from isamap.formulate.packable import require_packable
from isamap.ir import Kernel, Range, product, typical_size, typical_value
from isamap.match import MoveSearch, move_search_of, scratchpads
from isamap.plan.problem import Energies, NestProblem, Problem
from isamap.source import add_up, dataclass
from isamap.transform import Statement, accesses, bounding_axes, statements


@dataclass(frozen=True, slots=True)
class Frame:
    """A canonical kernel on a machine.

    `profile` gives the numbers of sizes in costs. `iterations` is, per statement, the number of times that
    ordered loops perform it, and `matches` are its candidates. `packed` are inputs that the caller passes
    packed.
    """

    kernel: Kernel
    sizes: tuple[tuple[str, int | Range], ...]
    threads: int
    profile: Mapping[str, int]
    search: MoveSearch
    memories: Memories
    iterations: tuple[int, ...]
    matches: tuple[Matches, ...]
    packed: tuple[str, ...] = ()

    @staticmethod
    def of(
        kernel: Kernel,
        machine: machines.Machine,
        sizes: Mapping[str, int | Range],
        threads: int,
        matches: Sequence[Matches] | None = None,
        packed: Sequence[str] = (),
    ) -> Frame:
        """Return the context of a kernel with these sizes and threads. Unknown matches are searched.

        Raises: UsageProblem for inputs that cannot be packed.
        """
        require_packable(kernel, packed)
        profile = {name: typical_size(value) for name, value in sizes.items()}
        around = bounding_axes(statements(kernel))
        profile |= {name: (typical_value(extent, profile) or 1) // 2 for name, extent in around.items()}
        search, memories = move_search_of(kernel, machine), Memories.of(machine)
        iterations = tuple(
            prod(typical_value(axis.extent, profile) or 1 for axis in statement.sequence)
            for statement in statements(kernel)
        )
        given = tuple(sorted(sizes.items()))
        known = tuple(matches) if matches else find_matches(kernel, machine)
        threads = machines.threads_of(machine) or threads
        return Frame(kernel, given, threads, profile, search, memories, iterations, known, tuple(packed))

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The kernel's statements, in the order of the text."""
        return tuple(one.statement for one in self.matches)

    def is_cold(self, number: int, tensor: str) -> bool:
        """Return whether no cache can hold an operand: it was not written before, and is read once.

        In a repeated ordered loop, the previous iteration has left it in a cache.
        """
        if not self.search.machine.starts_cold or self.iterations[number] > 1:
            return False
        before = self.statements[:number]
        is_brought = any(o.name == tensor and o.role != "temp" for o in self.kernel.operands)
        return is_brought and all(statement.assign.target.buffer != tensor for statement in before)

    def fresh_bytes(self, number: int, tensor: str) -> int:
        """Return the bytes of an array's elements that differ between iterations of the innermost ordered loop.

        The result is 0 if an earlier statement of the same iteration has loaded them, and a cache holds the
        data of one iteration.
        """
        own = self.statements[number]
        if not own.sequence or not _moves(own, tensor):
            return 0
        together = [s for s in self.statements if own.ordered_loops[-1] in s.ordered_loops]
        is_brought = any(_moves(s, tensor) for s in together[: together.index(own)])
        return 0 if is_brought and self._is_kept(together) else self._bytes_of(tensor)

    def _is_kept(self, together: Sequence[Statement]) -> bool:
        """Return whether a core's private cache holds the data of one iteration around these statements."""
        rooms = [int(c.usable_factor * c.capacity_bytes) for c in self.memories.caches if not c.shared]
        parts: dict[str, int] = {}
        for statement in together:
            for tensor in {access.buffer for access in accesses(statement)}:
                moving = [a for a in statement.sequence if _moves(statement, tensor, a.name)]
                iterations = prod(typical_value(a.extent, self.profile) or 1 for a in moving)
                parts[tensor] = max(parts.get(tensor, 0), self._bytes_of(tensor) // iterations)
        return sum(parts.values()) <= max(rooms, default=0)

    def _bytes_of(self, tensor: str) -> int:
        operand = self.kernel.operand(tensor)
        size_bytes: int = product(operand.shape).evaluate(self.profile) * operand.dtype.size_bytes
        return size_bytes

    def problem(self, nests: Sequence[NestProblem]) -> Problem:
        """Return the problem of these statements."""
        machine = self.search.machine
        return Problem(
            self.kernel.name,
            machine.name,
            tuple((n, v if isinstance(v, int) else str(v)) for n, v in self.sizes),
            offer_once(nests),
            tuple(sorted((m.name, m.count or 0) for m in machine.memories.values() if m.kind == "registers")),
            self.memories.caches,
            self.memories.beyond_bytes_per_ns,
            memory_shared=self.memories.beyond_is_shared,
            threads=self.threads,
            thread_start_ns=machine.thread_start_ns if self.threads > 1 else 0.0,
            hinted=tuple(sorted(machines.line_hints(machine))),
            scratchpads=tuple(sorted((m.name, m.capacity_bytes or 0) for m in scratchpads(machine))),
            address_steps=tuple(sorted(self.search.known.address_steps.items())),
            memory_rows=self.memories.beyond_rows,
            memory_streams=self.memories.beyond_streams,
            tlb=machine.tlb,
            loops=machine.loops,
            model=machine.model,
            energies=energies_of(machine),
            private=machines.private_memories(machine),
            barrier_ns=0.0 if (level := machines.bound_level(machine)) is None else level.barrier_ns,
            team_threads=1 if (team := machines.team_level(machine)) is None else team.at_once,
            residents=1 if level is None else level.residents,
            of_core=tuple(
                sorted(
                    (m.name, core // ((m.register_bytes or 1) if m.kind == "registers" else 1))
                    for m in machine.memories.values()
                    if (core := m.number("core_bytes")) is not None
                )
            ),
            cached=tuple(
                sorted(
                    (m.name, m.number("cache_bytes") or 0)
                    for m in machine.memories.values()
                    if machines.cached_bytes_per_ns(m, machine.levels)
                )
            ),
        )


def energies_of(machine: machines.Machine) -> Energies | None:
    """Return the energies per byte that a machine states, or None if it states none."""
    stated = {m.name: m.energy for m in machine.memories.values() if m.energy is not None}
    links = tuple(
        (k.source_memory, k.target_memory, k.energy_pj_per_byte)
        for k in machine.links
        if k.energy_pj_per_byte is not None
    )
    if not stated and not links and all(i.cost.energy_pj is None for i in machine.instructions.values()):
        return None
    memories: list[tuple[str, float, float]] = []
    for memory in machine.memories.values():
        base = memory
        while base.name not in stated and base.base is not None:
            base = machine.memories[base.base]
        if (e := stated.get(base.name)) is not None:
            memories.append((memory.name, e.read_pj / e.access_bytes, e.write_pj / e.access_bytes))
    home = machines.home_of(machine)
    leakage = add_up(e.leakage_pj_per_ns for e in stated.values())
    return Energies(home, tuple(memories), links, leakage)


def _moves(statement: Statement, tensor: str, loop: str = "") -> bool:
    """Return whether an ordered loop, by default the innermost, selects elements of an array."""
    name = loop or statement.sequence[-1].name
    used = [access for access in accesses(statement) if access.buffer == tensor]
    return any(name in index.symbols for access in used for index in access.index)
