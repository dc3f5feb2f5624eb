"""Explain why no schedule of a statement has a person's fixed decisions, and which change would help.

    {"nest0.unroll.m": 8, "nest0.unroll.n": 8, "nest0.block.k": 256}
    ->  nest0.unroll.m = 8, nest0.unroll.n = 8 need 73 registers of `zmm`, and there are 32
        relief: nest0.unroll.m = 2, or nest0.unroll.n = 2, or one of them left to the solver

The conflict is minimal: without any one of its decisions there is a schedule. Whether there is one is decided
by `first_assignment` for every register block of every option, which is complete; every relief that is named
was tried with all else that is fixed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from math import prod

from isamap.plan.decisions import mapping_of
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.scheduler.conflicts.causes import cause_of, other_mappings, too_few_registers, unloadable
from isamap.scheduler.conflicts.scratch_causes import too_small_scratchpads
from isamap.scheduler.deciding.partitioning import part_options
from isamap.scheduler.deciding.per_operand import open_values
from isamap.scheduler.deciding.space import MAX_UNROLLED, Assignment, Space, issues_along
from isamap.scheduler.deciding.summing import may_unroll
from isamap.scheduler.search.candidates import fixed_names, heeds
from isamap.scheduler.search.greedy import first_assignment
from isamap.source import Diagnostic, Infeasible
from isamap.source.records import dataclass, replace

# How many other values of a decision are tried, nearest first, before it is only said to leave it.
TRIED = 64
LISTED = 4
# Up to which size cache blocks are tried. Units: elements.
NEAR = 1 << 16


@dataclass(frozen=True, slots=True)
class Question:
    """The question whether a statement has a schedule with some decisions fixed."""

    problem: Problem
    nest: NestProblem

    def space(self, option: NestOption, fixed: Assignment) -> Space:
        registers = dict(self.problem.registers)
        return Space(self.nest.statement, option, registers, fixed, self.problem.room(option))

    def has_schedule(self, option: NestOption, fixed: Assignment) -> bool:
        """Return whether an option, which is the fixed one if any is, has a schedule."""
        rest = {n: v for n, v in fixed.items() if n != mapping_of(self.nest.statement)}
        ways = part_options(self.problem, self.nest.statement, option, rest)
        return any(self._is_possible(self.space(way, rest)) for way in ways)

    def _is_possible(self, space: Space) -> bool:
        known = set(space.names())
        if not (set(space.fixed) <= known and heeds(space)):
            return False
        values = [*map(space.stage_values, space.option.operands), *open_values(space).values()]
        return all(values) and any(
            first_assignment(space, block) is not None for block in space.register_blocks()
        )

    def options(self, fixed: Assignment) -> Iterator[NestOption]:
        """Return the options that the mapping, where it is fixed, leaves."""
        pinned = fixed.get(mapping_of(self.nest.statement))
        return (option for number, option in enumerate(self.nest.options) if pinned in (None, number))

    def is_possible(self, fixed: Assignment) -> bool:
        return any(self.has_schedule(option, fixed) for option in self.options(fixed))


@contextmanager
def explained(problem: Problem, fixed: Assignment) -> Generator[None]:
    """Whatever calls the problem infeasible inside says why."""
    try:
        yield
    except Infeasible as error:
        raise Infeasible(*(explain(problem, fixed) or error.diagnostics)) from error


def explain(problem: Problem, fixed: Assignment) -> tuple[Diagnostic, ...]:
    """Why there is no schedule, for each statement that has none; nothing where each has one."""
    found: list[Diagnostic] = []
    for nest in problem.nests:
        if not nest.options:  # it has no nest of its own, but may be fused
            continue
        own = {name: fixed[name] for name in fixed_names(fixed, nest.statement)}
        question = Question(problem, nest)
        if question.is_possible(own):
            continue
        is_fixed = question.is_possible({})
        found.append(_conflict(question, own) if is_fixed else _hopeless(question, nest.options))
    return tuple(found)


def _hopeless(question: Question, options: Sequence[NestOption]) -> Diagnostic:
    """Return the error where no decisions have a schedule: the machine is too small, or lacks a move."""
    spaces = [question.space(option, {}) for option in options]
    feasible = [space for space in spaces if all(space.stage_values(o) for o in space.option.operands)]
    if not feasible:
        return unloadable(spaces[0])
    return too_small_scratchpads(feasible) or too_few_registers(feasible)


def _conflict(question: Question, fixed: Assignment) -> Diagnostic:
    """Return the conflict in the option that is fixed, or else in the first one that could be had otherwise."""
    statement = question.nest.statement
    pinned = fixed.get(mapping_of(statement))
    if pinned is not None and not 0 <= pinned < len(question.nest.options):
        return _no_such_mapping(question, pinned)
    options = list(question.options(fixed))
    able = [option for option in options if question.has_schedule(option, {})]
    rest = {name: value for name, value in fixed.items() if name != mapping_of(statement)}
    others = list(_other_mapping(question, rest)) if pinned is not None else []
    if not able:
        hopeless = _hopeless(question, options)
        return replace(hopeless, help=f"relieved by {others[0]}" if others else hopeless.help)
    option = max(able, key=lambda o: prod(axis.tile for axis in o.axes))
    least = _minimal(question, option, rest)
    reliefs = [*_reliefs(question, option, rest, least), *others]
    notes = [f"with mapping `{option.mapping}`" + other_mappings(len(options) - 1, "cannot be had so either")]
    if not reliefs:
        notes.append("the fixed decisions have other conflicts, too")
        reliefs = list(_reliefs(question, option, least, least))
    space = question.space(option, least)
    cause = too_small_scratchpads([space]) or cause_of(space)
    return Diagnostic(
        cause.code,
        cause.message,
        notes=(*cause.notes, *notes),
        help=f"relieved by {', or '.join(reliefs)}" if reliefs else None,
    )


def _other_mapping(question: Question, fixed: Assignment) -> Iterator[str]:
    """Yield the first mapping that is possible with the other fixed decisions."""
    for number, option in enumerate(question.nest.options):
        if question.has_schedule(option, fixed):
            yield f"{mapping_of(question.nest.statement)} = {number} (`{option.mapping}`)"
            return


def _no_such_mapping(question: Question, pinned: int) -> Diagnostic:
    options = question.nest.options
    listed = [f"{number} is `{option.mapping}`" for number, option in enumerate(options[:LISTED])]
    more = f", and {len(options) - LISTED} more" if len(options) > LISTED else ""
    return Diagnostic(
        "fix-mapping",
        f"statement {question.nest.statement} has no mapping {pinned}: they are numbered from 0 to "
        f"{len(options) - 1}",
        notes=(", ".join(listed) + more,),
        help="`isamap compile … --stop-after formulate` lists them in their order",
    )


def _minimal(question: Question, option: NestOption, fixed: Assignment) -> dict[str, int]:
    """Return a conflict of which every part is needed: what can be left out without a schedule appearing, is."""
    least = dict(fixed)
    for name in fixed:
        without = {other: value for other, value in least.items() if other != name}
        if not question.has_schedule(option, without):
            least = without
    return least


def _reliefs(
    question: Question, option: NestOption, fixed: Assignment, conflict: Assignment
) -> Iterator[str]:
    """Yield changes of one decision after which there is a schedule: the nearest other value, or none at all."""
    left = list[str]()
    for name in conflict:
        others = {other: value for other, value in fixed.items() if other != name}
        if not question.has_schedule(option, others):
            continue
        left.append(name)
        for value in _near(question.space(option, others), name, fixed[name]):
            if question.has_schedule(option, {**others, name: value}):
                yield f"{name} = {value}"
                break
    if left:
        yield f"leaving {' or '.join(left)} to the solver"


def _near(space: Space, name: str, given: int) -> list[int]:
    """Other values of a decision, the nearest first."""
    values: dict[str, list[int]] = {}
    for axis in (a for a in space.axes if may_unroll(space.option, a)):
        values[space.unroll(axis)] = list(range(1, min(issues_along(axis), MAX_UNROLLED) + 1))
    for axis in space.axes:
        values[space.block(axis)] = [*range(axis.tile, min(axis.extent, NEAR), axis.tile), axis.extent]
    values |= {name: [0, 1] for name, _, _ in (*space.order_pairs(), *space.sweep_pairs())}
    values |= {space.stage(operand): [0, 1, 2] for operand in space.option.operands}
    values |= {crossed: [0, 1] for crossed in open_values(space)}
    others = [value for value in values.get(name, []) if value != given]
    return sorted(others, key=lambda value: (abs(value - given), value))[:TRIED]
