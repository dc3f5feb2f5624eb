"""Kernel × machine → Problem: the mappings that can be carried out, each with what it costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from isamap.ir import Kernel, Range
from isamap.machine import Machine
from isamap.plan.frame import Frame
from isamap.plan.option import whole_option
from isamap.plan.packed import packed_options, require_packable
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.tiles import Matches, tiles_of
from isamap.plan.unmatched import no_mapping
from isamap.transform import statements


def build_problem(
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    threads: int = 1,
    packed: Sequence[str] = (),
    named: Collection[str] | None = None,
    matches: Sequence[Matches] | None = None,
) -> Problem:
    """Everything a scheduler needs to know to have a kernel performed by so many threads.

    `packed` are inputs that the caller passes packed. Where mappings are `named`, others are left out, and a
    statement may have none. `matches` are those of the kernel's statements where they are known.
    Raises: NoMapping when a statement cannot be performed;
    UsageProblem for what cannot be packed.
    """
    require_packable(kernel, packed)
    frame = Frame.of(kernel, machine, sizes, threads, matches)
    nests: list[NestProblem] = []
    for number, statement in enumerate(statements(kernel)):
        options: list[NestOption] = []
        for tile in tiles_of(frame.matches[number], machine, named):
            option = whole_option(tile, number, frame)
            if option is not None:
                options.append(option)
        if not options and named is None:
            raise no_mapping(kernel, number, machine)
        known = tuple(packed_options(options, packed, statement, machine.name))
        nests.append(NestProblem(number, known, turns=frame.turns[number]))
    return frame.problem(nests)
