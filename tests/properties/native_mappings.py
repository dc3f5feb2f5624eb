"""Random mappings carried down to C: forced into a random schedule, emitted, and compiled hundreds to a file.

A mapping that the compiler cannot carry out yet is counted under the step at which it ends. `attempts(7, m)`
are the same for ever; for a machine whose instructions this processor lacks, they are functions of plain C.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from properties.batches import call, compile_batch
from properties.mappable import random_kernel
from properties.random_mappings import (
    kernels_of_known_extents,
    operations,
    shipped_kernel,
    small_arrays,
    small_sizes,
)
from properties.random_schedules import TRIES, random_schedule

from isamap.emit.c import EmittedC, emit_c
from isamap.formulate.build import build_problem
from isamap.formulate.matches import matches_of, tiles_of
from isamap.ir import OPS, Kernel, Range, bind, interpret, print_routine
from isamap.lower.passes import lower
from isamap.machine import Machine, load_machine, missing_features
from isamap.match import Mapping, MoveSearch, apply_mapping, layouts, pattern_of, profile_sizes
from isamap.match.mappings.enumerate import statement_mappings
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_schedule
from isamap.source import IsamapError, NoMapping, Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit, statements

Array = NDArray[Any]

PER_KERNEL = 8
BATCH = 200


@dataclass(frozen=True)
class Attempt:
    """A mapping on its way down: where it ended, or a program with what it has to compute."""

    name: str
    mapping: Mapping
    ended: str
    kernel: Kernel
    sizes: dict[str, int | Range]
    values: dict[str, int]
    arrays: dict[str, Array]
    schedule: Schedule | None = None
    program: EmittedC | None = None

    @property
    def open_sizes(self) -> dict[str, int]:
        """Values of the sizes that the program takes at run time."""
        return {n: self.values[n] for n, v in self.sizes.items() if isinstance(v, Range)}

    def story(self) -> str:
        """Return all that is needed to see why it fails."""
        text = print_schedule(self.schedule) if self.schedule else ""
        return f"{self.name}: {self.values}\n{print_routine(self.kernel)}\n{self.mapping.ident}\n{text}"


@dataclass(frozen=True)
class Lookup:
    """What is found once for all mappings of a statement: `tiles` names those that can be applied."""

    search: MoveSearch
    tiles: frozenset[str]


def is_right(attempt: Attempt, found: dict[str, Array]) -> bool:
    """Return whether a program's outputs are those of the interpreter: equal, unless functions round."""
    expected = interpret(attempt.kernel, attempt.arrays, attempt.values)
    values = [s.assign.value for s in statements(attempt.kernel)]
    exact = all(OPS[op].ulp == 0 and op not in ("div", "sqrt") for v in values for op in operations(v))
    for name, array in expected.items():
        got, request = found[name].astype(np.float64), array.astype(np.float64)
        same = np.array_equal(got, request) if exact else np.allclose(got, request, rtol=1e-4, atol=1e-5)
        if not same:
            return False
    return True


def native_machines() -> tuple[str, ...]:
    """Machines whose programs this processor runs itself: its own, and those that are models of none."""
    from isamap.machine import list_machines

    machines = {name: load_machine(name) for name in list_machines()}
    own = {name: machine for name, machine in machines.items() if not machine.levels}
    return tuple(n for n, m in own.items() if m.target.run == "model" or not missing_features(m))


def attempts(seed: int, machine: Machine) -> Iterator[Attempt]:
    """Some mappings of one statement, carried down as far as they go."""
    random = Random(seed)
    kernel, values = _shipped(random) if random.random() < 0.4 else _made(random)
    sizes = _sizes(kernel, values, random)
    arrays = small_arrays((o for o in kernel.operands if o.role != "temp"), _all(kernel, values), random)
    plain = make_guards_explicit(bind(kernel, sizes))
    number = random.randrange(len(statements(plain)))
    search = MoveSearch(machine, layouts(plain))
    found = list(statement_mappings(statements(plain)[number], number, machine))
    own = matches_of(statements(plain)[number], number, machine)
    tiles = frozenset(t.mapping.ident for t in tiles_of(own, machine))
    try:
        problem = build_problem(plain, machine, sizes)
    except NoMapping:
        problem = None
    for count, mapping in enumerate(random.sample(found, min(PER_KERNEL, len(found)))):
        name = f"{machine.name.replace('-', '_')}_{seed}_{count}"
        attempt = Attempt(name, mapping, "", kernel, sizes, values, arrays)
        yield _carried(attempt, replace(plain, name=name), problem, Lookup(search, tiles), random)


def run_batch(batch: list[Attempt], machine: Machine) -> list[Attempt]:
    """Return those whose compiled programs compute something else."""
    programs = [a.program for a in batch if a.program is not None]
    library = compile_batch(programs, machine)
    return [
        a for a in batch if a.program and not is_right(a, call(library, a.program, a.arrays, a.open_sizes))
    ]


def run_natively(expected: int, seed: int) -> tuple[Counter[str], list[str], int]:
    """Return counts by machine and by the step at which mappings end, stories of wrong ones, and the last seed."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    machines = [load_machine(name) for name in native_machines()]
    waiting: dict[str, list[Attempt]] = {m.name: [] for m in machines}
    while counts["run"] < expected:
        machine = machines[seed % len(machines)]
        for attempt in attempts(seed, machine):
            if attempt.program is None:
                counts[f"not carried out: {attempt.ended}"] += 1
            else:
                waiting[machine.name].append(attempt)
        seed += 1
        last = counts["run"] + sum(map(len, waiting.values())) >= expected
        for each in machines:
            batch = waiting[each.name]
            if len(batch) >= BATCH or (last and batch):
                failed = run_batch(batch, each)
                wrong += [a.story() for a in failed]
                counts.update({"run": len(batch), f"run on {each.name}": len(batch), "wrong": len(failed)})
                counts.update(f"run, {a.mapping.kind}" for a in batch)
                waiting[each.name] = []
                print(f"seed {seed}: {counts['run']} run, {len(wrong)} wrong", flush=True)
    return counts, wrong, seed - 1


# --- kernels ----------------------------------------------------------------------------------------------


def _shipped(random: Random) -> tuple[Kernel, dict[str, int]]:
    kernel = shipped_kernel(random.choice(kernels_of_known_extents()))
    return kernel, small_sizes(kernel, len(statements(kernel)) - 1, random)


def _made(random: Random) -> tuple[Kernel, dict[str, int]]:
    written = random_kernel(random)
    return parse_kernel(Source("k.ir", str(written))), written.sizes


def _sizes(kernel: Kernel, values: dict[str, int], random: Random) -> dict[str, int | Range]:
    """Mostly all sizes as numbers, else most of them known only when the program runs: that takes longer."""
    are_open = random.random() < 0.15 and not kernel.where
    return {
        n: Range(1, 64, random.choice((v, 40))) if are_open and random.random() < 0.7 else v
        for n, v in values.items()
    }


def _all(kernel: Kernel, values: dict[str, int]) -> dict[str, int]:
    from performing import size_values

    return size_values(kernel, values)


# --- down to C --------------------------------------------------------------------------------------------


def _carried(
    attempt: Attempt, plain: Kernel, problem: Problem | None, look: Lookup, random: Random
) -> Attempt:
    """Return the attempt with its program, or with the step at which it ended."""
    if problem is None:
        return replace(attempt, ended="another statement of the kernel has no mapping that is carried out")
    number = attempt.mapping.statement
    options = [o for o in problem.nests[number].options if o.mapping == attempt.mapping.ident]
    if not options:
        return replace(attempt, ended=_step(attempt.mapping, plain, look))
    nests = list(problem.nests)
    nests[number] = replace(nests[number], options=(options[0],))
    forced = replace(problem, nests=tuple(nests), kernel=plain.name)
    schedule = random_schedule(forced, random, wildest=random.choice((1, 1, 1, TRIES)))
    if schedule is None:
        return replace(attempt, ended="no schedule found whose registers are enough")
    machine = look.search.machine
    try:
        program = lower(plain, machine, schedule, attempt.sizes)
        model = machine.target.run == "model"
        emitted = emit_c(program, machine, model=model)
    except IsamapError as refused:
        return replace(attempt, ended=f"lowering refuses it: {refused.diagnostics[0].code}")
    return replace(attempt, schedule=schedule, program=emitted)


def _step(mapping: Mapping, plain: Kernel, look: Lookup) -> str:
    """Why a mapping is not an option of a nest."""
    statement = statements(plain)[mapping.statement]
    if mapping.ident in look.tiles:
        return "no moves bring an operand in, or the result out"
    pattern = pattern_of(look.search.machine.instructions[mapping.instruction].instruction)
    assert pattern is not None
    if apply_mapping(statement, mapping, pattern, profile_sizes(statement)) is not None:
        return "a rest of a maximum or minimum would have to be padded"
    if any(p.kind == "scalar" and p.dtype is None for p in pattern.instruction.params):
        return "the instruction's length is a run-time parameter"
    return "an operand's elements are not read back into iterations"
