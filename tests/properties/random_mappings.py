"""Random mappings to be performed: kernel, instruction, mapping, sizes, order of fusion, cut, small integers.

Everything is chosen by a `random.Random`; `trials(7)` are the same for ever. Kernels are shipped ones at
small sizes and random ones, instructions those of a shipped machine and random ones made after the statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import prod
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from performing import size_values
from properties.mappable import random_kernel
from properties.random_instructions import random_instruction

from isamap.ir import (
    OPS,
    Call,
    Cast,
    Expr,
    Index,
    Kernel,
    Loop,
    Operand,
    Stmt,
    bind,
    interpret,
    print_routine,
    substitute_stmt,
)
from isamap.ir.bind import comparison_holds
from isamap.ir.index import has_elements
from isamap.kernels import kernel_path, list_kernels
from isamap.machine import at_one_length, list_machines, load_machine
from isamap.match import Mapping, Pattern, pattern_of, prove
from isamap.match.mappings.enumerate import find_in_statement, heads_agree
from isamap.match.mappings.exact import largest_parameters
from isamap.match.patterns.reach import is_allowed
from isamap.simulate import CannotPad, Cut, perform
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import Statement, statements

Array = NDArray[Any]

MOST_POINTS = 600
MOST_LANES = 60_000
PER_PAIR = 6
"""Mappings taken of one instruction: conv2d has 98 of the first that has any."""


@dataclass(frozen=True)
class Subject:
    """A statement to be performed: its kernel alone, values of all sizes, arrays, and what comes out.

    `known` is the kernel with its conditions on sizes, for which the mappings were found.
    """

    statement: Statement
    known: Kernel
    alone: Kernel
    values: dict[str, int]
    arrays: dict[str, Array]
    result: Array

    @property
    def scalars(self) -> dict[str, float]:
        """A value for each of the kernel's scalars."""
        return small_scalars(self.known)

    @property
    def is_exact(self) -> bool:
        """Whether no function of numpy's is called: their last bits depend on how many elements there are."""
        return all(OPS[op].ulp == 0 for op in operations(self.statement.assign.value))


@dataclass(frozen=True)
class Trial:
    """A mapping with the variant in which it is performed."""

    seed: int
    subject: Subject
    pattern: Pattern
    mapping: Mapping
    cut: Cut

    @property
    def performed(self) -> Array:
        """What the mapping makes of the arrays. Raises: CannotPad."""
        s = self.subject
        return perform(
            s.statement,
            self.pattern,
            self.mapping,
            s.arrays,
            self.cut,
            s.values,
            s.scalars,
            exact=s.statement.is_reduction,
        )

    def story(self) -> str:
        """Return all that is needed to see why it fails."""
        kernel, instruction = print_routine(self.subject.alone), print_routine(self.pattern.instruction)
        parts = (kernel, instruction, self.mapping.ident, self.cut)
        return "\n".join(map(str, (f"trials({self.seed}): {self.subject.values}", *parts)))


def verdict(trial: Trial) -> str:
    """`equal`, `padding` when padded lanes would count, or `wrong`."""
    try:
        with np.errstate(all="ignore"):  # padded lanes may divide by zero, and so may kernels
            found = trial.performed
    except CannotPad:
        return "padding"
    except IndexError:
        return "wrong"
    wide, expected = found.astype(np.float64), trial.subject.result
    if trial.subject.is_exact:
        return "equal" if np.array_equal(wide, expected) else "wrong"
    return "equal" if np.allclose(wide, expected, rtol=1e-6, atol=0, equal_nan=True) else "wrong"


def trials(seed: int) -> Iterator[Trial]:
    """Some mappings of one statement, by a machine's instructions or by random ones."""
    random = Random(seed)
    subject, patterns = (_shipped if random.random() < 0.5 else _made)(random)
    for pattern, mappings in patterns:
        for mapping in random.sample(mappings, min(PER_PAIR, len(mappings))):
            cut = random_cut(subject, pattern, mapping, random)
            if cut is not None:
                yield Trial(seed, subject, pattern, mapping, cut)


def operations(expr: Expr) -> Iterator[str]:
    """Yield the operations of an expression."""
    match expr:
        case Call(op, args):
            yield op
            for a in args:
                yield from operations(a)
        case Cast(value):
            yield from operations(value)
        case _:
            pass


Found = list[tuple[Pattern, tuple[Mapping, ...]]]


# --- kernels ----------------------------------------------------------------------------------------------


def _shipped(random: Random) -> tuple[Subject, Found]:
    """Return a statement of a shipped kernel, its mappings found for all sizes."""
    name = random.choice(kernels_of_known_extents())
    kernel = shipped_kernel(name)
    number = random.randrange(len(statements(kernel)))
    sizes = small_sizes(kernel, number, random)
    subject = _subject(kernel, number, sizes, random)
    found = list(_machine_mappings(name, number, random.choice(list_machines())))
    random.shuffle(found)
    if small_scalars(kernel):  # instructions that are made up have operands and sizes only
        return subject, found[:8]
    return subject, found[:8] + _random_mappings(subject.statement, number, random, 4)


@cache
def kernels_of_known_extents() -> tuple[str, ...]:
    """Return the shipped kernels of which no loop is as long as data says: such a statement alone has no sizes."""
    of_data = {
        name
        for name in list_kernels()
        if any(has_elements(a.extent) for s in statements(shipped_kernel(name)) for a in s.axes)
    }
    return tuple(name for name in list_kernels() if name not in of_data)


def _made(random: Random) -> tuple[Subject, Found]:
    """Return a random kernel; half of the time its mappings are found for these sizes only."""
    written = random_kernel(random)
    extents = {a: min(n, random.choice((1, 2, 2, 3, 3, 4, 5, 7, 9, 17))) for a, n in written.extents.items()}
    written = replace(written, extents=extents)
    kernel = parse_kernel(Source("k.ir", str(written)))
    sizes = dict(written.sizes)
    if random.random() < 0.5:
        kernel, sizes = bind(kernel, sizes), {}
    number = random.randrange(len(statements(kernel)))
    subject = _subject(kernel, number, sizes, random)
    patterns = [p for p in _patterns(random.choice(list_machines())) if heads_agree(p, subject.statement)]
    random.shuffle(patterns)
    found = [(p, tuple(find_in_statement(p, subject.statement, number))) for p in patterns[:8]]
    return subject, [f for f in found if f[1]] + _random_mappings(subject.statement, number, random, 6)


def _random_mappings(statement: Statement, number: int, random: Random, count: int) -> Found:
    found: Found = []
    for _ in range(count):
        pattern = random_instruction(statement, random)
        mappings = tuple(find_in_statement(pattern, statement, number)) if pattern is not None else ()
        if pattern is not None and mappings:
            found.append((pattern, mappings))
    return found


@lru_cache
def shipped_kernel(name: str) -> Kernel:
    """Return a shipped kernel, read once."""
    path = kernel_path(name)
    return parse_kernel(Source(path.name, path.read_text(encoding="utf-8")))


@lru_cache
def _patterns(machine: str) -> tuple[Pattern, ...]:
    instructions = (i.instruction for i in at_one_length(load_machine(machine)).instructions.values())
    return tuple(p for i in instructions if (p := pattern_of(i)) is not None)


@lru_cache(maxsize=4096)
def _machine_mappings(
    name: str, number: int, machine: str
) -> tuple[tuple[Pattern, tuple[Mapping, ...]], ...]:
    statement = statements(shipped_kernel(name))[number]
    found = ((p, tuple(find_in_statement(p, statement, number))) for p in _patterns(machine))
    return tuple(f for f in found if f[1])


def small_sizes(kernel: Kernel, number: int, random: Random) -> dict[str, int]:
    """Sizes that the kernel allows, with few iterations of the statement."""
    for most in (9, 9, 5, 5, 5, 4, 4, *(3,) * 20, *(2,) * 50, 1):
        sizes: dict[str, int] = {}
        for p in kernel.params:
            low = p.low.value if p.low is not None and p.low.value is not None else 1
            if p.dtype is None:
                sizes[p.name] = random.randint(low, low + most - 1) if p.default is None else low
                sizes[p.name] += random.choice((0, 0, 1, 2)) if p.default is not None else 0
        values = size_values(kernel, sizes)
        allowed = all(
            comparison_holds(c.left.evaluate(values), c.comparison, c.right.evaluate(values))
            for c in kernel.where
        )
        extents = [a.extent.evaluate(values) for a in statements(kernel)[number].axes]
        if allowed and prod(extents) <= (MOST_POINTS if most > 1 else 4 * MOST_POINTS):  # fixed sizes count
            return sizes
    raise AssertionError(f"no small sizes for {kernel.name}")


def _subject(kernel: Kernel, number: int, sizes: dict[str, int], random: Random) -> Subject:
    """Return the statement alone: arrays that other statements fill are given, steps of ordered loops are chosen."""
    statement = statements(kernel)[number]
    values = size_values(kernel, sizes)
    values |= {a.name: random.randrange(a.extent.evaluate(values)) for a in statement.sequence}
    target = statement.assign.target.buffer
    fixed: dict[str, Index | int] = {a.name: values[a.name] for a in statement.sequence}
    body: Stmt = substitute_stmt(statement.assign, fixed)
    operands = tuple(replace(o, role="inout" if o.name == target else "in") for o in kernel.operands)
    alone = replace(
        kernel, operands=operands, body=(Loop(statement.axes, (body,)) if statement.axes else body,)
    )
    arrays = small_arrays(operands, values, random)
    with np.errstate(all="ignore"):
        found = interpret(alone, arrays, sizes, small_scalars(kernel), exact=statement.is_reduction)
    result = found[target].astype(np.float64)
    return Subject(statement, kernel, alone, values, arrays, result)


def small_scalars(kernel: Kernel) -> dict[str, float]:
    """Return a small number for each scalar that has a type."""
    return {p.name: 2.0 for p in kernel.params if p.dtype is not None}


def small_arrays(operands: Iterable[Operand], values: dict[str, int], random: Random) -> dict[str, Array]:
    """Small integers, which all types hold and which sum exactly in any order."""
    rng = np.random.default_rng(random.randrange(2**32))
    return {
        o.name: rng.integers(
            0 if o.dtype.kind in ("uint", "bool") else -2,
            2 if o.dtype.kind == "bool" else 3,
            tuple(s.evaluate(values) for s in o.shape),
        ).astype(o.dtype.numpy())
        for o in operands
    }


# --- variants ---------------------------------------------------------------------------------------------


def random_cut(subject: Subject, pattern: Pattern, mapping: Mapping, random: Random) -> Cut | None:
    """Return a random variant; None when no parameters were found, or it would be long to perform.

    Where axes share their kernel axes, and how long they are decides which lanes meet, a mapping is valid for
    the greatest lengths; for smaller ones when that is proved. All lanes of such axes are used.
    """
    shares = any(len(g.instruction_axes) > 1 for g in mapping.groups)
    greatest = shares and prove(pattern, subject.statement, mapping, subject.known).status == "unproved"
    params = dict(largest_parameters(pattern.instruction)) if greatest else _random_params(pattern, random)
    if params is None:
        return None
    groups = tuple(
        replace(
            g,
            kernel_axes=tuple(random.sample(g.kernel_axes, len(g.kernel_axes))),
            instruction_axes=tuple(random.sample(g.instruction_axes, len(g.instruction_axes))),
        )
        for g in mapping.groups
    )
    lengths = {a.name: a.extent.evaluate(params) for a in pattern.axes}
    tiles: dict[str, int] = {}
    if random.random() < 0.3 and not greatest:
        tiles = {a: random.randint(1, n) for a, n in lengths.items() if n > 1 and random.random() < 0.5}
        shared = {i for g in groups if len(g.instruction_axes) > 1 for i in g.instruction_axes}
        tiles = {a: n for a, n in tiles.items() if a not in shared}
    extents = {a.name: a.extent.evaluate(subject.values) for a in subject.statement.axes}
    issues = prod(n for a, n in extents.items() if not any(a in g.kernel_axes for g in groups))
    for g in groups:
        issues *= -(
            -prod(extents[k] for k in g.kernel_axes)
            // prod(tiles.get(i, lengths[i]) for i in g.instruction_axes)
        )
    if issues * prod(lengths.values()) > MOST_LANES:
        return None
    return Cut(params, groups, tiles, random.random() < 0.5)


def _random_params(pattern: Pattern, random: Random) -> dict[str, int] | None:
    for _ in range(20):
        params: dict[str, int] = {}
        for p in pattern.instruction.params:
            if p.dtype is not None:
                continue
            low = p.low.evaluate(params) if p.low is not None else 1
            high = p.high.evaluate(params) if p.high is not None else low + 7
            usual = max(low, 1)
            params[p.name] = random.choice(
                (random.randint(usual, max(usual, min(high, usual + 15))), min(high, 16))
            )
        if is_allowed(pattern, params):
            return params
    return None
