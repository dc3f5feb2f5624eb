"""Words that repeat, found and left to the loops of the hardware.

    {load a+0} {mac} {load a+64} {mac} {load a+128} {mac}   ->   loop 3 times {load a+0 step 64} {mac}

Two words agree where they differ in addresses alone that have a step; iterations agree where these grow by
the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isamap.machine import Machine
from isamap.machine.encodings import LOOPED, TRIPS, Bundle, Quantity
from isamap.stream.bundles import BundleCommands, Run, SlotCommand, stepped
from isamap.stream.command import Place
from isamap.stream.order import Array

MOST_LOOPED = 64
"""How many words a loop has at most: longer ones are not looked for."""


def roll(words: Sequence[BundleCommands], machine: Machine, bundle: Bundle) -> list[Run]:
    """The words with what repeats as loops, as far as loops save words."""
    if bundle.loop is None:
        return [Run(1, tuple(words))]
    most = {field.holds: field.limit - 1 for field in bundle.loop.fields if isinstance(field.holds, Quantity)}
    agreeing = _agreeing(words, machine, min(most[LOOPED], MOST_LOOPED))
    found: list[Run] = []
    alone: list[BundleCommands] = []
    at = 0
    while at < len(words):
        count, trips = _longest(words, at, agreeing, machine, most[TRIPS])
        if trips * count - count - 1 <= 0:
            alone.append(words[at])
            at += 1
            continue
        found += [Run(1, tuple(alone))] if alone else []
        alone = []
        grown = _growth(words[at : at + count], words[at + count : at + 2 * count], machine)
        assert grown is not None, "iterations agree"
        found.append(Run(trips, grown))
        at += trips * count
    return [*found, Run(1, tuple(alone))] if alone else found


def _agreeing(words: Sequence[BundleCommands], machine: Machine, most: int) -> list[Array]:
    """By length less one and word, how many words from there on agree with those so much farther on."""
    names: dict[tuple[object, ...], int] = {}
    kinds = np.array([names.setdefault(_kind(word, machine), len(names)) for word in words], np.int64)
    found: list[Array] = []
    for length in range(1, min(most, len(words) // 2) + 1):
        same = kinds[:-length] == kinds[length:]
        ends: Array = np.append(np.flatnonzero(~same), same.size)
        at: Array = np.arange(same.size, dtype=np.int64)
        behind: Array = ends[np.searchsorted(ends, at)]
        found.append(behind - at)
    return found


def _kind(word: BundleCommands, machine: Machine) -> tuple[object, ...]:
    """All of a word but the addresses that may grow in a loop."""
    found: list[object] = []
    for one in word:
        free = stepped(machine, one.command.instruction)
        operands = tuple(
            (name, where.memory, where.strides)
            if name in free and isinstance(where, Place)
            else (name, where)
            for name, where in one.command.operands
        )
        found.append((one.slot, one.command.instruction, operands, one.command.params))
    return tuple(found)


def _longest(
    words: Sequence[BundleCommands], at: int, agreeing: Sequence[Array], machine: Machine, most: int
) -> tuple[int, int]:
    """The words and iterations of the loop that saves most from a word on; one where there is none."""
    best = (1, 1)
    for count, agree in enumerate(agreeing, 1):
        iterations = 1 + int(agree[at]) // count if at < agree.size else 1
        if iterations > 1 and (iterations - 1) * count > (best[1] - 1) * best[0]:
            trips = min(_iterations(words, at, count, iterations, machine), most)
            best = max(best, (count, trips), key=lambda one: (one[1] - 1) * one[0] - (one[1] > 1))
    return best


def _iterations(words: Sequence[BundleCommands], at: int, count: int, most: int, machine: Machine) -> int:
    """How many iterations have addresses that grow by the same, and by no more than fields hold."""
    first = _growth(words[at : at + count], words[at + count : at + 2 * count], machine)
    if first is None:
        return 1
    iterations = 2
    while iterations < most:
        here = at + (iterations - 1) * count
        grown = _growth(words[here : here + count], words[here + count : here + 2 * count], machine)
        if grown is None or [_steps(w) for w in grown] != [_steps(w) for w in first]:
            break
        iterations += 1
    return iterations


def _steps(word: BundleCommands) -> list[tuple[tuple[str, int], ...]]:
    return [one.steps for one in word]


def _growth(
    iteration: Sequence[BundleCommands], following: Sequence[BundleCommands], machine: Machine
) -> tuple[BundleCommands, ...] | None:
    """The words of a iteration with what addresses grow by to the next; None where no field holds that."""
    found: list[BundleCommands] = []
    for word, after in zip(iteration, following, strict=True):
        grown: list[SlotCommand] = []
        for one, its in zip(word, after, strict=True):
            steps = tuple(
                (name, there.address - where.address)
                for (name, where), (_, there) in zip(one.command.operands, its.command.operands, strict=True)
                if isinstance(where, Place) and isinstance(there, Place) and where.address != there.address
            )
            if not all(_holds(machine, one.command.instruction, name, step) for name, step in steps):
                return None
            grown.append(replace(one, steps=steps))
        found.append(tuple(grown))
    return tuple(found)


def _holds(machine: Machine, instruction: str, operand: str, step: int) -> bool:
    encoding = machine.instructions[instruction].encoding
    wanted = Quantity("step", operand)
    for one in encoding.fields if encoding is not None else ():
        if one.holds == wanted and isinstance(one.holds, Quantity):
            low, high = one.holdable
            return step % one.holds.unit == 0 and low <= step // one.holds.unit <= high
    return False
