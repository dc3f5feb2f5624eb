"""Assign dependency tokens, which commands push and pop so that units wait for each other.

mvin (load) sends one, mul (compute) receives it, and then reads the data that mvin has written. The n-th
token that a unit receives from a queue is the n-th that was sent to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

from isamap.machine import Machine
from isamap.machine.encodings import TokenQueue
from isamap.source import UsageProblem, dataclass, field
from isamap.stream.accesses import AccessedBytes, accesses
from isamap.stream.command import Command
from isamap.stream.encoding import END
from isamap.stream.order import NEVER, Clock, LastCommands, later

Tokens = frozenset[tuple[str, str]]
Pairs = dict[tuple[str, str], list[tuple[int, int]]]
"""By giver and taker, the commands that give and take its tokens, in order."""


@dataclass(slots=True)
class _Assignment:
    """The state while commands are visited in order."""

    units: tuple[str, ...]
    queues: dict[tuple[str, str], TokenQueue]
    steps: Mapping[tuple[str, str], int]
    """By queue, how many commands of its giver share a token. The default is 1."""
    clocks: list[Clock] = field(default_factory=list[Clock])
    """For each command, the commands that are certainly complete when it is, itself included."""
    unit_of: list[str] = field(default_factory=list[str])
    """By command its unit."""
    done: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list[int]))
    """By unit its commands so far."""
    pairs: Pairs = field(default_factory=lambda: defaultdict(list[tuple[int, int]]))

    def add(self, unit: str, needed: dict[int, AccessedBytes | None]) -> None:
        """Append the next command of a unit, after the commands on which it depends."""
        number = len(self.clocks)
        known = self.clocks[self.done[unit][-1]] if self.done[unit] else (NEVER,) * len(self.units)
        for other in sorted(needed, reverse=True):
            giver = self.unit_of[other]
            if (giver, unit) in self.queues and known[self.units.index(giver)] < other:
                told = self._teller(giver, other, self.steps.get((giver, unit), 1))
                self.pairs[giver, unit].append((told, number))
                known = later(known, self.clocks[told])
        for other, access in needed.items():
            if known[self.units.index(self.unit_of[other])] < other:
                raise _report_unordered(self.unit_of[other], access, unit)
        own = self.units.index(unit)
        self.clocks.append((*known[:own], number, *known[own + 1 :]))
        self.unit_of.append(unit)
        self.done[unit].append(number)

    def _teller(self, giver: str, command: int, step: int) -> int:
        """Return the command that pushes the token of another one: the last of `step` commands of its unit."""
        if step == 1:
            return command
        own = self.done[giver]
        return own[min(bisect_left(own, command) // step * step + step, len(own)) - 1]


def assign_tokens(commands: Sequence[Command], machine: Machine) -> tuple[list[Command], Tokens]:
    """Return the commands with the tokens that they pop and push, and those that the end pops.

    Raises: UsageProblem if no queues order two units, or one would hold too many.
    """
    program = machine.program
    if program is None or not program.queues:
        return list(commands), frozenset()
    queues = {(q.giver, q.taker): q for q in program.queues}
    steps: dict[tuple[str, str], int] = {}
    while True:
        made = _assign_tokens(commands, machine, queues, steps)
        full = {key: most for key, queue in queues.items() if (most := most_waiting(made, key)) > queue.depth}
        if not full:
            return _with_tokens(commands, made.pairs)
        giver, taker = min(full)
        if all(steps.get(key, 1) >= len(commands) for key in full):
            raise UsageProblem.of(
                "stream-tokens",
                f"the queue of tokens from {giver} to {taker} would hold {full[giver, taker]}, and has room for "
                f"{queues[giver, taker].depth}",
                help="try another schedule with --fix, or smaller sizes",
            )
        # Few commands with one token still overlap with those that wait for it. The number is not always the least
        # that fits: to find that would take many more assignments.
        steps |= {key: steps.get(key, 1) * -(-most // queues[key].depth) for key, most in full.items()}


def _assign_tokens(
    commands: Sequence[Command],
    machine: Machine,
    queues: dict[tuple[str, str], TokenQueue],
    steps: Mapping[tuple[str, str], int],
) -> _Assignment:
    names = tuple(machine.units)
    units = [machine.instructions[c.instruction].cost.unit for c in commands]
    made = _Assignment(names, queues, steps)
    touched = LastCommands(tuple(names.index(unit) for unit in units), len(names))
    for number, (command, unit) in enumerate(zip(commands, units, strict=True)):
        needed: dict[int, AccessedBytes | None] = {}
        for access in accesses(command, machine.instructions[command.instruction].instruction):
            for conflict in touched.touch(access, number):
                if names[conflict.unit] != unit:
                    needed[conflict.command] = access
        made.add(unit, needed)
    end = machine.program.end if machine.program is not None else None
    if end is not None:
        made.add(
            end.unit, dict.fromkeys(own[-1] for unit, own in made.done.items() if own and unit != end.unit)
        )
    return made


def most_waiting(made: _Assignment, key: tuple[str, str]) -> int:
    """Return the largest possible number of waiting tokens in a queue, for any command times."""
    return most_waiting_tokens(made.pairs.get(key, []), made.clocks, made.units.index(key[1]))


def most_waiting_tokens(pairs: Sequence[tuple[int, int]], clocks: Sequence[Clock], taker: int) -> int:
    """Return the most tokens of a queue that are pushed and not known to be popped when the last is pushed."""
    most = taken = 0
    for given, (giver, _) in enumerate(pairs, 1):
        while taken < given and pairs[taken][1] <= clocks[giver][taker]:
            taken += 1
        most = max(most, given - taken)
    return most


def _with_tokens(commands: Sequence[Command], pairs: Pairs) -> tuple[list[Command], Tokens]:
    tokens: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for (giver, taker), ordered in pairs.items():
        for gives, takes in ordered:
            tokens[gives].add(("push", taker))
            tokens[takes].add(("pop", giver))
    found = [
        Command(c.instruction, c.operands, c.params, frozenset(tokens.get(n, ())))
        for n, c in enumerate(commands)
    ]
    return found, frozenset(tokens.get(len(commands), ()))


def _report_unordered(giver: str, access: AccessedBytes | None, taker: str) -> UsageProblem:
    what = f"`{access.operand}` in {access.memory}" if access is not None else END
    return UsageProblem.of(
        "stream-tokens",
        f"{taker} has to wait for {giver}, for {what}, and no queue carries tokens from one to the other",
        help="describe the queue in `tokens` of `program`, or choose another schedule with --fix",
    )
