"""Assemble the explanation of a compilation: its schedule, access counts, passes, and slow statements.

The state after each pass of lowering is written to a folder as soon as it exists, so that it is there after
a failure: 01-loops.txt 02-hold.txt 03-stage.txt … 11-workspace.txt. A statement that the machine performs
slowly, although it has faster instructions, causes a warning:

y[m, n] += (i32(x[m, k]) - zx) * (i32(w[n, k]) - zw). Help: `--transform` takes the zero points out
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path

from isamap.driver.request import DEFAULT_COST_MODEL
from isamap.formulate.estimate import open_compute_ns
from isamap.formulate.finished_sums import fused_accesses
from isamap.formulate.matches import chosen_tile
from isamap.formulate.tensor_layout import subscript_of
from isamap.ir import Call, Expr, Index, IndexValue, Kernel, Read, product
from isamap.ir.index import MinMax, Mod, has_elements
from isamap.ir.walk import distinct_reads, walk
from isamap.lower.passes import State
from isamap.lower.program import Names
from isamap.lower.register_block import find_chain
from isamap.lower.tile_results import Results, copy_of_result, value_of
from isamap.machine import Machine, home_of
from isamap.match.mappings.enumerate import statement_mappings
from isamap.match.mappings.mapping import statement_text
from isamap.match.moves.transfers import copy_by_axes, find_transfer
from isamap.match.operand_loads.load_request import MoveSearch, lookup_of
from isamap.match.patterns.pattern import pattern_of
from isamap.match.refusals.refuse import lacking_abilities
from isamap.match.tiles.operand_tiles import OFFSET, Tile, in_tiles, move_search_of
from isamap.plan.access_counts import Convention, StatementAccesses, count_statement, powerset, with_energy
from isamap.plan.loop_nest import GatheredTiles, NestFacts, Short, Subscript
from isamap.plan.plugins import load_cost_model
from isamap.plan.problem import NestOption, Problem
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.report.explained import Explained, Runner, explain_schedule
from isamap.report.lowered import print_state
from isamap.scheduler.effects.time_parts import where_time_goes
from isamap.scheduler.nests.pricing import price, read_nest
from isamap.source import Diagnostic, cannot_write, dataclass, replace, replace_file
from isamap.transform import Statement, make_guards_explicit, reads, statements, symbols
from isamap.transform.rewrite import is_rewritable
from isamap.transform.zero_points import without_zero_points


def scalar_warnings(
    kernel: Kernel,
    machine: Machine,
    problem: Problem,
    schedule: Schedule | None = None,
    *,
    is_transformed: bool = False,
) -> tuple[Diagnostic, ...]:
    """Return a warning for each statement that scalar instructions execute although the machine has vectors.

    They perform the whole statement, or compute the values that its instruction reads from a buffer. Without a
    schedule, the first of the mappings that may win is named.
    """
    if len(machine.chain) == 1:
        return ()
    found: list[Diagnostic] = []
    arrays = frozenset(operand.name for operand in kernel.operands)
    for statement, nest in zip(statements(kernel), problem.nests, strict=True):
        if statement.axes and not any(_is_wide(option, arrays) for option in nest.options):
            number = nest.statement
            nests = () if schedule is None else schedule.nests
            chosen = [(n.mapping, n.choose) for n in nests if number in (n.statement, *n.fused)]
            chosen += [(o.mapping, o.choose) for o in nest.options]
            if not chosen:
                continue
            option = next((o for o in nest.options if (o.mapping, o.choose) == chosen[0]), None)
            is_scalar = option is None or not _has_lanes(option)
            mapping = chosen[0][0]
            reader = mapping.split(" ", 1)[0]
            work = "performs" if is_scalar else f"computes the operands of {reader} for"
            lacks = lacking_abilities(statement, machine, in_lanes=True)
            found.append(
                Diagnostic(
                    "scalar-only",
                    f"{machine.name} {work} `{statement_text(statement)}` one element at a time",
                    statement.assign.span,
                    severity="warning",
                    notes=(f"with {mapping}", *lacks),
                    help=_advice(kernel, statement, machine, is_transformed=is_transformed),
                )
            )
    return tuple(found)


def _advice(kernel: Kernel, statement: Statement, machine: Machine, *, is_transformed: bool) -> str:
    value = statement.assign.value
    if layout := next(
        filter(None, (_layout_advice(kernel, statement, r, machine) for r in distinct_reads(value))), None
    ):
        return layout
    if (clamped := next(filter(_is_clamped, distinct_reads(value)), None)) and statement.reduction_axes:
        return (
            f"copy `{clamped.buffer}` once to a `temp` with a margin, and sum over that: a vector loads neighbouring "
            "elements, and a minimum or maximum in an index may repeat one"
        )
    remainder = next(_remainders(value), None)
    reduced = [] if is_transformed else [axis.name for axis in statement.reduction_axes]
    if remainder is None and reduced:
        return (
            f"`--transform` tries to reduce along lanes of `{reduced[-1]}`; `isamap match --explain` says why other "
            "instructions do not match"
        )
    if remainder is None:
        return "`isamap match --explain` says why its other instructions do not match"
    return (
        f"it tests every iteration for `{remainder}`: give the selected iterations a separate axis, and "
        f"scatter, as `y[h*{remainder.divisor} + r] += x[h] * w[r]` does"
    )


def _layout_advice(kernel: Kernel, statement: Statement, read: Read, machine: Machine) -> str | None:
    """Return which layout of an array would let vectors read it, or None if its layout is not the reason."""
    operand = next((o for o in kernel.operands if o.name == read.buffer), None)
    if any(map(has_elements, read.index)):
        kinds = _types_looked_up(machine)
        if kinds and operand is not None and operand.dtype.name not in kinds:
            return (
                f"{machine.name} looks up {', '.join(kinds)} in memory on several elements at once: keep "
                f"`{read.buffer}` in such a type, and convert what is read"
            )
        if operand is None or len(operand.shape) == 1 or operand.strides is not None:
            return None
        steps = [str(product(operand.shape[n:])) for n in range(1, len(operand.shape) + 1)]
        return f"a look-up needs the distance of rows: declare `{operand.name}` with `strides({', '.join(steps)})`"
    for axis in statement.axes:
        here, there = (
            r.index[-1].coefficient(axis.name) if r.index else None for r in (read, statement.assign.target)
        )
        if here and there and here.value and there.value == 1 and here.value != 1:
            return (
                f"`{read.buffer}` is read in steps of {here.value} along `{axis.name}`: vectors load neighbours in "
                f"ascending order, so keep a copy of it in the order of `{axis.name}`"
            )
    return None


def _types_looked_up(machine: Machine) -> tuple[str, ...]:
    """Return the types of the tables in memory that several lanes read at indices made of data, sorted."""
    patterns = (pattern_of(item.instruction) for item in machine.instructions.values())
    found = (lookup_of(pattern) for pattern in patterns if pattern is not None and pattern.axes)
    return tuple(sorted({one.table.dtype.name for one in found if one and one.table.shape[0].value is None}))


def _is_clamped(read: Read) -> bool:
    atoms = (atom for index in read.index for monomial, _ in index.terms for atom in monomial)
    return any(isinstance(atom, MinMax) for atom in atoms)


def _remainders(e: Expr) -> Iterator[Mod]:
    """Yield the remainders of axes that an expression compares with numbers."""
    for part in walk(e):
        if isinstance(part, Call) and part.op == "eq":
            for index in (a.index for a in part.args if isinstance(a, IndexValue)):
                yield from (atom for monomial, _ in index.terms for atom in monomial if isinstance(atom, Mod))


def _is_wide(option: NestOption, arrays: frozenset[str]) -> bool:
    """Return whether an issue performs several iterations, or the statement has only one.

    A value computed element by element into a buffer is not wide: only the last instruction performs the
    work.
    """
    if any(
        o.tensor not in arrays and o.costs.direct_ns is None and not o.staging.is_packed
        for o in option.operands
    ):
        return False
    return _has_lanes(option) or all(axis.extent == 1 for axis in option.axes)


def _has_lanes(option: NestOption) -> bool:
    """Return whether an issue performs several iterations."""
    return any(min(axis.tile, axis.extent) > 1 for axis in option.axes)


def form_warnings(kernel: Kernel, machine: Machine) -> tuple[Diagnostic, ...]:
    """Return a warning if a faster instruction could perform a sum whose factors had no offsets."""
    taken = tuple(without_zero_points(kernel)) if is_rewritable(kernel) else ()
    if not taken:
        return ()
    written = statements(kernel)
    kept = {s.assign for r in taken for s in statements(r.kernel)}
    statement = next((s for s in written if s.assign not in kept and s.reduction_axes), None)
    if statement is None:
        return ()
    _, now = _fastest(kernel, statement, machine)
    name, ns = min(
        (_fastest(r.kernel, _product(r.kernel, written), machine) for r in taken), key=lambda f: f[1]
    )
    if ns >= now:
        return ()
    return (
        Diagnostic(
            "form-slow",
            f"`{statement_text(statement)}` takes offsets off before it multiplies",
            statement.assign.span,
            severity="warning",
            notes=(f"without them {name} would perform it",),
            help="`--transform` takes them out of the sum, which stays equal bit by bit",
        ),
    )


def _product(kernel: Kernel, written: tuple[Statement, ...]) -> Statement:
    """Return the largest sum in a rewritten kernel that the kernel as written does not have."""
    known = {s.assign for s in written}
    sums = (s for s in statements(kernel) if s.reduction_axes and s.assign not in known)
    return max(sums, key=lambda s: len(s.axes))


def _fastest(kernel: Kernel, statement: Statement, machine: Machine) -> tuple[str, float]:
    """Return the instruction that performs a statement fastest, and its time, or "" and infinity."""
    found = statement_mappings(statement, 0, machine, kernel=kernel)
    times = [(m.instruction, open_compute_ns(statement, m, machine)) for m in found if not m.composed]
    return min(times, key=lambda t: t[1], default=("", inf))


def schedule_accesses(
    kernel: Kernel, schedule: Schedule, problem: Problem, machine: Machine, convention: Convention
) -> tuple[StatementAccesses, ...]:
    """Return the access counts of each statement of a canonical kernel, in order, for a checked schedule."""
    home = home_of(machine)
    bandwidths = {
        link.target_memory: link.bandwidth_bytes_per_ns
        for link in machine.links
        if link.source_memory == home
    }
    questions = {nest.statement: nest for nest in problem.nests}
    energies = problem.energies
    is_emitted = energies is not None and convention.refill == "entry"
    files = frozenset(name for name, _ in problem.registers) if is_emitted else frozenset[str]()
    leaks = energies is not None and energies.leakage_pj_per_ns > 0
    times = (
        price(schedule, problem, load_cost_model(DEFAULT_COST_MODEL))
        if leaks
        else (None,) * len(problem.nests)
    )
    time_ns = {nest.statement: ns or 0.0 for nest, ns in zip(problem.nests, times, strict=True)}
    found: list[StatementAccesses] = []
    for nest in schedule.nests:
        for option in questions[nest.statement].options:
            if (option.mapping, option.choose) == (nest.mapping, nest.choose):
                known = replace(_facts_of_nest(kernel, nest, option, machine), files=files)
                counted = count_statement(nest, option, convention, home, known, bandwidths)
                if energies is not None:
                    iterations = questions[nest.statement].iterations
                    counted = with_energy(counted, option, energies, iterations, time_ns[nest.statement])
                found.append(counted)
    return tuple(found)


def _facts_of_nest(kernel: Kernel, nest: NestSchedule, option: NestOption, machine: Machine) -> NestFacts:
    """Return the facts about a lowered nest from which its accesses are counted."""
    tile = chosen_tile(statements(kernel)[nest.statement], machine, nest)
    operands = (*tile.inputs, *(o for o in (tile.accumulator, tile.held) if o is not None))
    plain: dict[str, tuple[str, int, tuple[Subscript | Index, ...]]] = {}
    for operand in operands:
        found = reads(operand.subject)
        if len(found) == 1:
            index = found[0].index
            is_told = all(name.startswith("@") for i in index for name in i.symbols)
            told = is_told and not any(has_elements(i) for i in index)
            subscripts = tuple(subscript_of(i) or i for i in index) if told else ()
            plain[operand.name] = found[0].buffer, found[0].dtype.size_bytes, subscripts
    search = move_search_of(kernel, machine)
    gathered = dict(_find_gathered(tile, option, search))
    if tile.accumulator is None or not nest.fused:
        return NestFacts(tile.statement.assign.op is not None, plain, None, gathered)
    fused = fused_accesses(kernel, tile, nest, search)
    return NestFacts(True, plain, fused, gathered)


def _find_gathered(tile: Tile, option: NestOption, search: MoveSearch) -> Iterator[tuple[str, Short]]:
    """Yield the operands whose partial tiles are loaded element by element, each with the short axes.

    An axis that ends with a whole tile at this size may leave one element at another.
    """
    offered, lasts = {o.name for o in option.operands}, {a.name: a.extent % a.tile or 1 for a in option.axes}
    position = {a.name: Index.of(f"@{a.name}") for a in tile.axes}
    for operand in (*tile.inputs, *(() if tile.result is None else (tile.result,))):
        target = tile.target_positions if operand is tile.result else None
        parts = [r for r in distinct_reads(operand.subject) if r != target]
        if f"{operand.name}.0" not in offered:
            continue
        own = position.keys() if target is not None else {*operand.parts, *operand.scattered}
        ends = frozenset(a.name for a in option.axes if a.tile > 1 and a.name in own)
        gathered: list[tuple[frozenset[str], dict[str, Index], str | None, int]] = []
        for short in powerset(ends):
            left = {a.name: Index.of(lasts[a.name] if a.name in short else a.tile) for a in tile.axes}
            partial = {axis: left[axis] for axis in short}
            if target is not None:
                results = Results(tile, search, Names(set()))
                found = results.find_value(operand, value_of(tile), partial)
                copy, counts = copy_of_result(tile, value_of(tile), position, left)
            else:
                found = find_chain(search, tile, operand, partial)
                buffer = in_tiles(operand, search).buffer
                copy = copy_by_axes(operand, buffer, Index.of(OFFSET), tile, position, back=None)
                counts = {counter: left[counter[1:]] for counter in copy.counters}
            if found is None and (moved := find_transfer(copy, counts, search)) is not None:
                gathered.append((short, counts, moved.counter, moved.width))
        apart = frozenset(position if target is not None else operand.axes)
        for number, read in enumerate(parts):
            used = {f"~{axis}" for axis in position if f"@{axis}" in symbols(read)}
            tiles = (
                GatheredTiles(
                    short, tuple((c[1:], width if c == wide and c not in used else 1) for c in counts), apart
                )
                for short, counts, wide, width in gathered
            )
            yield f"{operand.name}.{number}", (ends, tuple(tiles))


def statement_extents(kernel: Kernel, sizes: Mapping[str, int | str]) -> tuple[Mapping[str, Index], ...]:
    """Return the extents of each statement's axes in terms of sizes that may change while the loops stay equal.

    A size that is a stride has its number, because it determines the elements that tiles access.
    """
    found: list[Mapping[str, Index]] = []
    for statement in statements(make_guards_explicit(kernel)):
        axes = [axis.name for axis in statement.axes]
        assign = statement.assign
        indices = [i for read in (assign.target, *reads(assign.value)) for i in read.index]
        factors = [i.coefficient(axis) for i in indices for axis in axes]
        strides = frozenset(name for factor in factors if factor is not None for name in factor.symbols)
        known = {name: value for name in strides if isinstance(value := sizes.get(name), int)}
        found.append({axis.name: axis.extent.substitute(known) for axis in statement.axes})
    return tuple(found)


def explain(
    schedule: Schedule, problem: Problem, machine: Machine, cost_model: str, ranked: Sequence[Schedule] = ()
) -> Explained:
    """Return the views of a schedule. `ranked` are the cheapest ones, with which it is compared.

    Raises: UsageProblem for a cost model that does not load.
    """
    times = where_time_goes(schedule, problem, load_cost_model(cost_model))
    others = [other for other in ranked if other.nests != schedule.nests]
    # Without a price of its own the choice cannot be compared.
    compared = (schedule, *others) if others and schedule.cost_ns is not None else ()
    runners = [_runner(s, problem) for s in compared]
    return explain_schedule(schedule, problem, machine, times, runners)


def _runner(schedule: Schedule, problem: Problem) -> Runner:
    """Return a schedule with its cost and its decisions."""
    nests = {nest.statement: nest for nest in schedule.nests}
    found: dict[str, int | str] = {}
    for question in problem.nests:
        nest = nests.get(question.statement)
        if nest is not None and (read := read_nest(problem, question, nest)) is not None:
            found |= read[1]
            found[f"nest{question.statement}.mapping"] = nest.mapping
    return Runner(schedule.cost_ns or 0.0, found)


@dataclass(slots=True)
class Dump:
    """A writer of states to a folder. Existing files of the same names are replaced."""

    folder: Path
    count: int = 0

    def __call__(self, name: str, state: State) -> None:
        """Write a state. Raises: UsageProblem if that is not possible."""
        self.count += 1
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{self.count:02}-{name}.txt"
            replace_file(path, print_state(state).encode(), 0o644)
        except OSError as error:
            raise cannot_write(self.folder, error, "name another folder") from None
