"""Run a program's units in parallel, synchronised by tokens alone, and report the order or a deadlock.

mvin (load) sends a token, and mul (compute) receives it: so mul runs after mvin, however long they take. If
two units access the same bytes and no token orders them, there is a race, and the program is refused.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

from isamap.machine import Machine
from isamap.source import VerificationFailed, dataclass, field
from isamap.stream.accesses import accesses
from isamap.stream.command_words import Numbered
from isamap.stream.encoding import END
from isamap.stream.order import NEVER, Clock, LastCommands, later
from isamap.stream.tokens import Pairs, most_waiting_tokens


def in_queues(placed: Sequence[Numbered], end: Numbered | None, machine: Machine) -> Iterator[Numbered]:
    """Yield the commands in a possible execution order of the units, or without queues in program order.

    Raises: VerificationFailed at a missing or unused token, and at a race.
    """
    if machine.program is None or not machine.program.queues:
        yield from placed
        return
    run = QueueRun(tuple(placed) + ((end,) if end is not None else ()), machine)
    order = run.order()
    units = tuple(run.names.index(unit) for unit in run.units)
    touched = LastCommands(units, len(run.names))
    for number in order:
        one = run.placed[number]
        if one.command.instruction == END:
            run.check_end(number)
            continue
        instruction = machine.instructions[one.command.instruction].instruction
        for access in accesses(one.command, instruction):
            for conflict in touched.touch(access, number):
                known = run.started[number][conflict.unit]
                if conflict.unit != units[number] and known < conflict.command:
                    other = run.placed[conflict.command]
                    does = "writes" if conflict.wrote else "reads"
                    raise run.wrong(
                        number,
                        f"`{access.operand}` conflicts with word {other.at}, `{other.command.instruction}`, which "
                        f"{does} it in {access.memory}, and no token orders the two",
                    )
        yield one
    run.check_queues()


@dataclass(slots=True)
class QueueRun:
    """The state of queues while commands run. Commands are given by number, with the end as the last one."""

    placed: tuple[Numbered, ...]
    machine: Machine
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    given: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list[int]))
    pairs: Pairs = field(default_factory=lambda: defaultdict(list[tuple[int, int]]))
    started: dict[int, Clock] = field(default_factory=dict[int, Clock])
    done: dict[int, Clock] = field(default_factory=dict[int, Clock])
    givers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list[int]))
    """By command those whose tokens it has taken."""

    def __post_init__(self) -> None:
        self.names = tuple(self.machine.units)
        self.units = tuple(self._unit(one) for one in self.placed)

    def _unit(self, one: Numbered) -> str:
        program = self.machine.program
        if one.command.instruction == END and program is not None and program.end is not None:
            return program.end.unit
        return self.machine.instructions[one.command.instruction].cost.unit

    def order(self) -> list[int]:
        """Return the commands in program order, as far as the units can run. Raises: VerificationFailed."""
        waits = {name: deque[int]() for name in self.names}
        for number, unit in enumerate(self.units):
            waits[unit].append(number)
        known: dict[str, Clock] = dict.fromkeys(self.names, (NEVER,) * len(self.names))
        found: list[int] = []
        while fronts := sorted(queue[0] for queue in waits.values() if queue):
            able = (number for number in fronts if self._lacking(number, self.units[number]) is None)
            if (number := next(able, None)) is None:
                lacking = self._lacking(fronts[0], self.units[fronts[0]])
                raise self.wrong(fronts[0], f"waits for a token of {lacking}, which gives none")
            unit = self.units[number]
            waits[unit].popleft()
            known[unit] = self._start(number, unit, known[unit])
            found.append(number)
        return found

    def _lacking(self, number: int, unit: str) -> str | None:
        """Return the unit from which a command still needs a token, or None."""
        for kind, other in sorted(self.placed[number].command.tokens):
            if kind == "pop" and len(self.given[other, unit]) <= len(self.pairs[other, unit]):
                return other
        return None

    def _start(self, number: int, unit: str, known: Clock) -> Clock:
        """Return the unit's clock after it has started a command, popped its tokens and pushed others."""
        tokens = self.placed[number].command.tokens
        for other in (other for kind, other in tokens if kind == "pop"):
            giver = self.given[other, unit][len(self.pairs[other, unit])]
            self.pairs[other, unit].append((giver, number))
            self.givers[number].append(giver)
            known = later(known, self.done[giver])
        for other in (other for kind, other in tokens if kind == "push"):
            self.given[unit, other].append(number)
        own = self.names.index(unit)
        self.started[number] = known
        self.done[number] = (*known[:own], number, *known[own + 1 :])
        return self.done[number]

    def check_queues(self) -> None:
        """Refuse unused tokens, and more tokens than a queue can hold. Raises: VerificationFailed."""
        program = self.machine.program
        clocks = [self.done[number] for number in range(len(self.placed))]
        for queue in program.queues if program is not None else ():
            key = queue.giver, queue.taker
            given, taken = self.given[key], self.pairs[key]
            if len(given) > len(taken):
                raise self.wrong(given[len(taken)], f"gives {queue.taker} a token that is never taken")
            if (most := most_waiting_tokens(taken, clocks, self.names.index(queue.taker))) > queue.depth:
                raise self.wrong(
                    given[0],
                    f"the queue from {queue.giver} to {queue.taker} may hold {most} tokens, and has room for "
                    f"{queue.depth}",
                )

    def check_end(self, number: int) -> None:
        """Refuse an end that does not wait for all commands. Raises: VerificationFailed."""
        for other, unit in enumerate(self.units[:number]):
            if self.started[number][self.names.index(unit)] < other:
                raise self.wrong(number, f"does not wait for word {self.placed[other].at}")

    def wrong(self, number: int, said: str) -> VerificationFailed:
        """Return the error at a command."""
        one = self.placed[number]
        named = one.command.instruction if one.command.instruction == END else f"`{one.command.instruction}`"
        return VerificationFailed.of("program-tokens", f"word {one.at}, {named}: {said}")
