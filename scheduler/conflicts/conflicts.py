"""Explain why no schedule of a statement has the decisions that a user fixed, and which change would help.

    {"nest0.unroll.m": 8, "nest0.unroll.n": 8, "nest0.block.k": 256}
    ->  nest0.unroll.m = 8, nest0.unroll.n = 8 need 73 registers of `zmm`, and there are 32
        relief: nest0.unroll.m = 2, or nest0.unroll.n = 2, or one of them left to the solver

The conflict is minimal: without any one of its decisions there is a schedule. `first_assignment` decides whether
there is one: it tries every register block of every option. Each relief was tried together with the user's other
decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod

from isamap.plan.cost import evaluate
from isamap.plan.decisions import mapping_of, parallel_of, prefetch_of
from isamap.plan.problem import NestOption, NestProblem, Problem, TileAxis, TileOperand
from isamap.scheduler.deciding.orders import Pairs, first_order
from isamap.scheduler.deciding.partitioning import part_options
from isamap.scheduler.deciding.per_operand import open_values, staged_by
from isamap.scheduler.deciding.scratch import scratch_bytes
from isamap.scheduler.deciding.scratch_least import least_assignments
from isamap.scheduler.deciding.software_pipelining import STAGES
from isamap.scheduler.deciding.space import (
    MAX_UNROLLED,
    Assignment,
    RegisterBlock,
    Space,
    issues_along,
    live_tiles,
)
from isamap.scheduler.deciding.summing import may_unroll
from isamap.scheduler.search.candidates import fixed_names, keeps_fixed
from isamap.scheduler.search.greedy import first_assignment
from isamap.scheduler.translation.constraints import Is, may_be_met
from isamap.source import Diagnostic, Infeasible, dataclass, replace


@dataclass(frozen=True, slots=True)
class MissingBytes:
    """The bytes that an assignment needs of each scratchpad that is too small for it. Units: bytes."""

    space: Space
    made: Assignment
    needed: Mapping[str, int]

    @property
    def most_missing(self) -> int:
        return max(size - self.space.scratchpads[memory] for memory, size in self.needed.items())


def too_small_scratchpads(spaces: Sequence[Space]) -> Diagnostic | None:
    """Return the error that no mapping fits its scratchpads, with the nearest mapping, or None if one fits."""
    lack = least_lack(spaces)
    if lack is None:
        return None
    space, made = lack.space, lack.made
    parts = {o.name: size for o, size in _needed_parts(space, made) if o.staging.homes[0] in lack.needed}
    there = " and ".join(str(space.scratchpads[memory]) for memory in lack.needed)
    fixed = ", ".join(f"{name} = {value}" for name, value in sorted(space.fixed.items()))
    blocks = ", ".join(f"{axis.name} by {made[space.block(axis)]}" for axis in space.axes)
    return Diagnostic(
        "scratchpad-too-small",
        (f"{fixed}: " if fixed else f"statement {space.statement} has no schedule: ")
        + f"{relief_bytes(lack)} are needed at least, and there are {there}",
        notes=(
            ", ".join(f"`{name}`: {size} bytes" for name, size in parts.items()) + f" in blocks of {blocks}",
            f"with mapping `{space.option.mapping}`",
        ),
        help=f"relieved by {relief_bytes(lack)} in the machine's description",
    )


def relief_bytes(lack: MissingBytes) -> str:
    """Return the missing capacity as text: `512 bytes of `spad` and 64 bytes of `acc``."""
    return " and ".join(f"{size} bytes of `{memory}`" for memory, size in lack.needed.items())


def least_lack(spaces: Sequence[Space]) -> MissingBytes | None:
    """Return the smallest overflow over all register blocks, or None if one fits or none has registers."""
    found: list[MissingBytes] = []
    for space in spaces:
        for block in space.register_blocks():
            for made in least_assignments(space, block):
                needed: dict[str, int] = {}
                for operand, size in _needed_parts(space, made):
                    needed[operand.staging.homes[0]] = needed.get(operand.staging.homes[0], 0) + size
                over = {memory: size for memory, size in needed.items() if size > space.scratchpads[memory]}
                lack = MissingBytes(space, made, dict(sorted(over.items()))) if over else None
                if lack is None:
                    return None
                found.append(lack)
    return min(found, key=lambda lack: lack.most_missing, default=None)


def _needed_parts(space: Space, made: Assignment) -> list[tuple[TileOperand, int]]:
    """Return the operands that are staged in scratchpads, each with the bytes of its buffers."""
    here = [o for o in space.option.operands if o.staging.homes[0] and made[space.stage(o)]]
    return [(operand, int(evaluate(scratch_bytes(space, operand), made))) for operand in here]


# --- causes ---------------------------------------------------------------------------------------------

# Explain why an option has no schedule, with the numbers: one function per cause.
#
# Each function inspects a Space whose fixed decisions conflict, and returns the cause that it finds, or None.


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of a conflict: a code, one sentence with numbers, and the parts of these numbers."""

    code: str
    message: str
    notes: tuple[str, ...] = ()


def cause_of(space: Space) -> Cause:
    """Return why the fixed decisions of a space conflict with each other or with the machine."""
    found = (cause(space) for cause in CAUSES)
    return next((cause for cause in found if cause is not None), _unnamed_cause(space))


def _unnamed_cause(space: Space) -> Cause:
    return Cause("fix-impossible", f"no schedule of statement {space.statement} has {_list_fixed(space)}")


def _list_fixed(space: Space) -> str:
    return ", ".join(f"{name} = {value}" for name, value in space.fixed.items())


def _elsewhere(space: Space) -> Cause | None:
    known = set(space.names())
    name = next((name for name in space.fixed if name not in known), None)
    if name is None:
        return None
    axes = ", ".join(axis.name for axis in space.option.axes)
    operands = ", ".join(operand.name for operand in space.option.operands)
    return Cause(
        "fix-elsewhere",
        f"this mapping has no decision `{name}`, which another one has",
        (f"its axes are {axes}, its operands {operands}",),
    )


def _value(space: Space) -> Cause | None:
    for operand in space.option.operands:
        name = prefetch_of(space.statement, operand.name)
        value = space.fixed.get(name, 0)
        if value > len(operand.prefetching.hints):
            caches = "".join(f", {n + 1} ({cache})" for n, (cache, _) in enumerate(operand.prefetching.hints))
            return Cause("fix-value", f"{name} is 0 (none){caches}, not {value}")
    return None


def _stage(space: Space) -> Cause | None:
    for operand in space.option.operands:
        if space.stage_values(operand):
            continue
        if space.stage(operand) not in space.fixed or staged_by(space, operand, STAGES) != list(STAGES):
            continue  # something else forbids it
        value = space.fixed[space.stage(operand)]
        why = f"no move of the machine loads `{operand.name}` from a buffer"
        if operand.staging.is_packed:
            why = f"`{operand.tensor}` is passed packed, {STAGES[2]}"
        elif value == 0:
            why = f"no move of the machine loads `{operand.name}` directly from {operand.tensor}"
        elif operand.is_accumulator and operand.costs.staged_ns is not None:
            why = f"`{operand.name}` is an accumulator: it is staged around its sums, {STAGES[1]}"
        return Cause("fix-stage", f"{space.stage(operand)} = {value} ({STAGES[value]}) is impossible: {why}")
    return None


def _circle(space: Space) -> Cause | None:
    for pairs, axes in ((space.order_pairs(), space.axes), (space.sweep_pairs(), space.register_axes)):
        if first_order(axes, pairs, space.fixed) is None:
            return Cause(
                "fix-order",
                "the fixed orders of loops go in a circle: " + ", ".join(_describe_pairs(space, pairs)),
            )
    return None


def _describe_pairs(space: Space, pairs: Pairs) -> Iterator[str]:
    for name, first, second in pairs:
        if name in space.fixed:
            outer, inner = (first, second) if space.fixed[name] else (second, first)
            yield f"{outer.name} around {inner.name} ({name} = {space.fixed[name]})"


def _unroll(space: Space) -> Cause | None:
    axes = [axis for axis in space.option.axes if space.unroll(axis) in space.fixed]
    for axis in axes:
        value, most = space.fixed[space.unroll(axis)], issues_along(axis)
        if not 1 <= value <= most:
            return Cause(
                "fix-unroll",
                f"{space.unroll(axis)} = {value} is not between 1 and {most}, the issues along {axis.name}",
                (_issues(axis),),
            )
        if value > 1 and not may_unroll(space.option, axis):
            return Cause(
                "fix-unroll",
                f"{space.unroll(axis)} = {value}: only the innermost summing axis is unrolled, and only "
                "where every input follows it",
                (_follow_axis(space, axis),),
            )
    unrolled = prod(space.fixed[space.unroll(axis)] for axis in axes)
    if unrolled > MAX_UNROLLED:
        factors = " × ".join(str(space.fixed[space.unroll(axis)]) for axis in axes)
        return Cause(
            "fix-unroll",
            f"{_list_fixed(space)}: {factors} = {unrolled} issues in one loop body, at most {MAX_UNROLLED} can be",
        )
    return None


def _follow_axis(space: Space, axis: TileAxis) -> str:
    last = [a.name for a in space.option.axes if a.is_reduction and a.extent > a.tile][-1]
    if last != axis.name:
        return f"that is {last} here"
    others = [o.name for o in space.option.operands if o.registers and axis.name not in o.axes]
    return f"`{others[0]}` does not follow {axis.name}"


def _issues(axis: TileAxis) -> str:
    elements = f"{axis.extent} element" + ("s" if axis.extent > 1 else "")
    return f"{axis.name} has {elements}, and one issue covers {axis.tile}"


def _registers(space: Space) -> Cause | None:
    block = {axis.name: space.fixed.get(space.unroll(axis), 1) for axis in space.register_axes}
    for memory, parts in _demand(space, block).items():
        between = dict(space.option.between).get(memory, 0)
        needed, there = _count(parts) + between, space.registers.get(memory)
        if there is not None and needed > there:
            held = [f"{between} within an issue"] if between else []
            return Cause(
                "fix-registers",
                f"{_list_fixed(space)}: {needed} registers of `{memory}` are needed, and there are {there}",
                (", ".join([*(_show_demand(o, tiles, each, block) for o, tiles, each in parts), *held]),),
            )
    return None


def _demand(space: Space, block: RegisterBlock) -> dict[str, list[tuple[TileOperand, int, int]]]:
    """Return the registers of each memory in use: for each operand the live tiles, and the registers of one tile."""
    order = space.unroll_order(block)
    found: dict[str, list[tuple[TileOperand, int, int]]] = {}
    for operand in space.option.operands:
        for memory, each in operand.takes:
            found.setdefault(memory, []).append((operand, live_tiles(operand, block, order), each))
    return found


def _show_demand(operand: TileOperand, tiles: int, registers: int, block: RegisterBlock) -> str:
    """Return the demand of an operand as text: `c: 8 × 4 accumulators of 2 registers = 64`."""
    factors = [str(block[axis]) for axis in operand.axes if block.get(axis, 1) > 1]
    product = " × ".join(factors) if operand.is_accumulator and len(factors) > 1 else str(tiles)
    noun = ("accumulator" if operand.is_accumulator else "tile") + ("s" if tiles > 1 else "")
    each = f" of {registers} registers" if registers > 1 else ""
    total = f" = {tiles * registers}" if len(factors) > 1 or each else ""
    return f"`{operand.name}`: {product} {noun}{each}{total if operand.is_accumulator or each else ''}"


def _block(space: Space) -> Cause | None:
    for axis in space.option.axes:
        value = space.fixed.get(space.block(axis))
        if value is None or value >= axis.extent:
            continue
        if value % axis.tile:
            return Cause(
                "fix-block",
                f"{space.block(axis)} = {value} is not a multiple of {axis.tile}, which one issue covers",
                (_issues(axis),),
            )
        factor = space.fixed.get(space.unroll(axis), 1)
        if value < factor * axis.tile:
            return Cause(
                "fix-block",
                f"{space.block(axis)} = {value} is less than a register block along {axis.name}: "
                f"{factor} × {axis.tile} = {factor * axis.tile}",
                (f"{space.unroll(axis)} = {factor}, and one issue covers {axis.tile}",),
            )
    return None


def _parts(space: Space) -> Cause | None:
    for axis in space.option.axes:
        name = parallel_of(space.statement, axis.name)
        value, issues = space.fixed.get(name, 1), issues_along(axis)
        if value == 1:
            continue
        if not 1 <= value <= issues:
            said = f"{name} = {value} is not between 1 and {issues}, the issues along {axis.name}"
            return Cause("fix-parts", said, (_issues(axis),))
        if axis.is_reduction and not space.option.can_split_sums:
            said = f"{name} = {value} is impossible: a sum over {axis.name} cannot be partitioned"
            return Cause("fix-parts", said, ("its order matters, or the machine cannot add partial sums",))
        share = -(-issues // value)
        if -(-issues // share) != value:
            return Cause(
                "fix-parts",
                f"{name} = {value} is impossible: {share} issues each of the {issues} along {axis.name} are "
                f"{-(-issues // share)} parts",
                (_issues(axis),),
            )
    return None


def _own_violation(space: Space) -> Cause | None:
    """Return the first constraint that the fixed decisions violate by themselves, or None.

    If none is broken alone, two constraints conflict; the one that is a condition of a fixed decision is
    reported.
    """
    # The range of each decision: a single value if it is fixed.
    open_ones = {space.stage(operand): space.stage_values(operand) for operand in space.option.operands}
    found = {
        name: (min(values, default=0), max(values, default=2))
        for name, values in {**open_ones, **open_values(space)}.items()
    }
    for axis in space.axes:
        found |= {space.block(axis): (1, axis.extent), space.unroll(axis): (1, issues_along(axis))}
    boxes = found | {name: (value, value) for name, value in space.fixed.items()}
    broken = [c for c in space.rules.constraints if not may_be_met(c.facts, boxes).all()]
    wished = [
        c
        for c in space.rules.constraints
        if isinstance(c.facts[0], Is) and not may_be_met(c.facts[:1], boxes).all()
    ]
    for constraint in (*broken, *wished):
        return Cause(constraint.code, constraint.sentence(space.fixed), constraint.notes)
    return None


CAUSES: Sequence[Callable[[Space], Cause | None]] = (
    _elsewhere,
    _value,
    _parts,
    _stage,
    _circle,
    _unroll,
    _registers,
    _block,
    _own_violation,
)


# --- where nothing is fixed -------------------------------------------------------------------------------


def too_few_registers(spaces: Sequence[Space]) -> Diagnostic:
    """Return the error that no mapping has enough registers for one issue. It names the nearest mapping."""
    space = min(spaces, key=lambda s: max(needed - s.registers[m] for m, needed in _one_issue(s).items()))
    short = {m: needed for m, needed in _one_issue(space).items() if needed > space.registers[m]}
    block = {axis.name: 1 for axis in space.register_axes}
    parts = [part for memory, own in _demand(space, block).items() if memory in short for part in own]
    there = " and ".join(str(space.registers[memory]) for memory in short)
    relief = [f"{needed} registers of `{memory}`" for memory, needed in short.items()]
    notes = [", ".join(_show_demand(o, tiles, each, block) for o, tiles, each in parts)]
    notes.append(
        f"with mapping `{space.option.mapping}`" + other_mappings(len(spaces) - 1, "cannot be used either")
    )
    lack = least_lack([replace(space, registers={**space.registers, **short})])
    if lack is not None:
        notes.append(f"with those, {relief_bytes(lack)} would be needed at least")
    return Diagnostic(
        "too-few-registers",
        f"statement {space.statement} has no schedule: one issue needs {' and '.join(relief)}, "
        f"and there are {there}",
        notes=tuple(notes),
        help=f"relieved by {' and '.join([*relief, *([relief_bytes(lack)] if lack else [])])} "
        "in the machine's description",
    )


def _one_issue(space: Space) -> dict[str, int]:
    """Return the registers that one issue needs of each memory whose size is known."""
    demand = _demand(space, {axis.name: 1 for axis in space.register_axes})
    between = dict(space.option.between)
    return {m: _count(parts) + between.get(m, 0) for m, parts in demand.items() if m in space.registers}


def other_mappings(count: int, cannot: str) -> str:
    """Return the end of a note about other mappings that fail, too."""
    if count < 1:
        return ""
    return f"; another one {cannot}" if count == 1 else f"; {count} others {cannot}"


def _count(parts: Sequence[tuple[TileOperand, int, int]]) -> int:
    return sum(tiles * each for _, tiles, each in parts)


def unloadable(space: Space) -> Diagnostic:
    """Return the error that every mapping has an operand which no move loads."""
    operand = next(o for o in space.option.operands if not space.stage_values(o))
    return Diagnostic(
        "unmoved-operand",
        f"statement {space.statement} has no schedule: "
        f"no move brings `{operand.name}` into `{operand.memory}`",
        notes=(
            f"neither directly from {operand.tensor}, nor from a buffer",
            f"with mapping `{space.option.mapping}`",
        ),
        help=f"describe an instruction that loads or stores `{operand.memory}`",
    )


# --- conflicts ------------------------------------------------------------------------------------------


# How many other values of a decision are tried, nearest first, before it is only said to leave it.
TRIED = 64
LISTED = 4
# Up to which size cache blocks are tried. Units: elements.
NEAR = 1 << 16


@dataclass(frozen=True, slots=True)
class ConflictQuestion:
    """The question whether a statement has a schedule with some decisions fixed."""

    problem: Problem
    nest: NestProblem

    def space(self, option: NestOption, fixed: Assignment) -> Space:
        registers = self.problem.registers_of(option)
        return Space(self.nest.statement, option, registers, fixed, self.problem.room(option))

    def has_schedule(self, option: NestOption, fixed: Assignment) -> bool:
        """Return whether an option has a schedule with these decisions fixed."""
        rest = {n: v for n, v in fixed.items() if n != mapping_of(self.nest.statement)}
        ways = part_options(self.problem, self.nest.statement, option, rest)
        return any(self._is_possible(self.space(way, rest)) for way in ways)

    def _is_possible(self, space: Space) -> bool:
        known = set(space.names())
        if not (set(space.fixed) <= known and keeps_fixed(space)):
            return False
        values = [*map(space.stage_values, space.option.operands), *open_values(space).values()]
        return all(values) and any(
            first_assignment(space, block) is not None for block in space.register_blocks()
        )

    def options(self, fixed: Assignment) -> Iterator[NestOption]:
        """Yield the options that agree with the fixed mapping, or all options if no mapping is fixed."""
        pinned = fixed.get(mapping_of(self.nest.statement))
        return (option for number, option in enumerate(self.nest.options) if pinned in (None, number))

    def is_possible(self, fixed: Assignment) -> bool:
        return any(self.has_schedule(option, fixed) for option in self.options(fixed))


@contextmanager
def explain_conflict(problem: Problem, fixed: Assignment) -> Generator[None]:
    """Replace an infeasible result inside the block by an error that explains the conflict."""
    try:
        yield
    except Infeasible as error:
        raise Infeasible(*(explain(problem, fixed) or error.diagnostics)) from error


def explain(problem: Problem, fixed: Assignment) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each statement that has no schedule, or () if every statement has one."""
    found: list[Diagnostic] = []
    for nest in problem.nests:
        if not nest.options:  # it has no nest of its own, but may be fused
            continue
        own = {name: fixed[name] for name in fixed_names(fixed, nest.statement)}
        question = ConflictQuestion(problem, nest)
        if question.is_possible(own):
            continue
        is_fixed = question.is_possible({})
        found.append(_conflict(question, own) if is_fixed else _no_schedule(question, nest.options))
    return tuple(found)


def _no_schedule(question: ConflictQuestion, options: Sequence[NestOption]) -> Diagnostic:
    """Return the error that an unfixed statement has no schedule: the machine is too small, or lacks a move."""
    spaces = [question.space(option, {}) for option in options]
    feasible = [space for space in spaces if all(space.stage_values(o) for o in space.option.operands)]
    if not feasible:
        return unloadable(spaces[0])
    return too_small_scratchpads(feasible) or too_few_registers(feasible)


def _conflict(question: ConflictQuestion, fixed: Assignment) -> Diagnostic:
    """Return the conflict in the fixed option, or in the first option that is feasible without fixed decisions."""
    statement = question.nest.statement
    pinned = fixed.get(mapping_of(statement))
    if pinned is not None and not 0 <= pinned < len(question.nest.options):
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
    options = list(question.options(fixed))
    able = [option for option in options if question.has_schedule(option, {})]
    rest = {name: value for name, value in fixed.items() if name != mapping_of(statement)}
    others = list(_other_mapping(question, rest)) if pinned is not None else []
    if not able:
        hopeless = _no_schedule(question, options)
        return replace(hopeless, help=f"relieved by {others[0]}" if others else hopeless.help)
    option = max(able, key=lambda o: prod(axis.tile for axis in o.axes))
    least = _minimal(question, option, rest)
    reliefs = [*_reliefs(question, option, rest, least), *others]
    notes = [f"with mapping `{option.mapping}`" + other_mappings(len(options) - 1, "cannot be used either")]
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


def _other_mapping(question: ConflictQuestion, fixed: Assignment) -> Iterator[str]:
    """Yield the first other mapping that has a schedule with the fixed decisions."""
    for number, option in enumerate(question.nest.options):
        if question.has_schedule(option, fixed):
            yield f"{mapping_of(question.nest.statement)} = {number} (`{option.mapping}`)"
            return


def _minimal(question: ConflictQuestion, option: NestOption, fixed: Assignment) -> dict[str, int]:
    """Return a minimal conflict: a schedule exists without any one of its decisions."""
    least = dict(fixed)
    for name in fixed:
        without = {other: value for other, value in least.items() if other != name}
        if not question.has_schedule(option, without):
            least = without
    return least


def _reliefs(
    question: ConflictQuestion, option: NestOption, fixed: Assignment, conflict: Assignment
) -> Iterator[str]:
    """Yield single changes with which a schedule exists: the nearest other value, or leaving a decision open."""
    left = list[str]()
    for name in conflict:
        others = {other: value for other, value in fixed.items() if other != name}
        if not question.has_schedule(option, others):
            continue
        left.append(name)
        for value in _nearest_values(question.space(option, others), name, fixed[name]):
            if question.has_schedule(option, {**others, name: value}):
                yield f"{name} = {value}"
                break
    if left:
        yield f"leaving {' or '.join(left)} to the solver"


def _nearest_values(space: Space, name: str, given: int) -> list[int]:
    """Return the other values of a decision, the nearest value first."""
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
