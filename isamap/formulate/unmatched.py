"""Explain why no instruction performs a statement: the nearest candidate, and its missing moves.

A mapping whose operands cannot all be moved is nearer than an instruction without a mapping:

    fma_ymm_f32 { i: n } (a = A[m, k], b = B[k, n]) would perform it, but nothing moves b: …
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from isamap.formulate.estimate import open_compute_ns
from isamap.ir import Call, Kernel, Read, print_expr
from isamap.ir.index import elements_of
from isamap.ir.walk import walk
from isamap.machine import Machine
from isamap.match.mappings.enumerate import statement_mappings
from isamap.match.mappings.mapping import Mapping, statement_text
from isamap.match.moves.chains import Movement
from isamap.match.moves.movement import movements, tile_of
from isamap.match.moves.scratch_buffers import explain_uncleared
from isamap.match.operand_loads.load_request import MoveSearch
from isamap.match.operand_loads.load_search import find_operand_load
from isamap.match.patterns.pattern import pattern_of
from isamap.match.patterns.unify import heads_match
from isamap.match.refusals.refuse import lacking_abilities, refusals
from isamap.match.tiles.operand_tiles import OperandTile, leaves_in_scratchpad, move_search_of
from isamap.plan.problem import NestProblem
from isamap.source import NoMapping, replace
from isamap.transform import Statement, reads, statements, symbols

STRICT_NOTE = (
    "the kernel is strict: its sum runs over one axis, in order, and every term is rounded, so that neither "
    "fused nor reordering instructions may perform it"
)
CLOSELY = 64
"""The most mappings whose moves are searched: each takes a search."""


def no_mapping(kernel: Kernel, number: int, machine: Machine) -> NoMapping:
    """Return the error that a statement, given by number, has no executable mapping."""
    statement = statements(kernel)[number]
    search = move_search_of(kernel, machine)
    mappings = tuple(statement_mappings(statement, number, machine))
    if (lacking := _explain_uncleared(statement, mappings, search)) is not None:
        return lacking
    notes = [STRICT_NOTE] if kernel.strict and statement.assign.op is not None else []
    refused = [r for r in refusals(kernel, machine) if r.statement == number]
    advice = f"`isamap match --explain --hw {machine.called}` says why each instruction does not match"
    lacks = lacking_abilities(statement, machine)
    uncomputed = _uncomputed_value(statement, mappings, search) if not lacks else None
    nearest = _nearest(kernel, statement, mappings, search) if not lacks and uncomputed is None else None
    if uncomputed is not None:
        notes.append(uncomputed)
        advice = f"give {machine.name} such an instruction; {advice}"
    elif lacks:
        notes += lacks
        advice = (
            f"give {machine.name} an instruction that does, or choose a machine that has one: "
            "`isamap hw list` lists the shipped ones"
        )
    elif (by_data := _read_by_data(statement, machine)) is not None:
        notes.append(by_data)
    elif nearest is None:
        patterns = [(r, pattern_of(machine.instructions[r.instruction].instruction)) for r in refused]
        wanted = _operations(statement)
        alike = [r for r, p in patterns if p is not None and wanted & _operations(p.statement)]
        notes += [r.message for r in (alike or refused)[:1]]
    else:
        mapping, missing = nearest
        own = [r.message for r in refused if r.instruction == mapping.instruction]
        notes += own[:1] or _missing_notes(statement, mapping, missing, machine)
        if not own and tile_of(statement, mapping, machine) is not None:
            advice = f"give {machine.name} an instruction that moves the missing operands; {advice}"
    return NoMapping.of(
        "no-mapping",
        f"{machine.name} cannot perform `{statement_text(statement)}`",
        statement.assign.span,
        notes=tuple(notes),
        help=advice,
    )


def _operations(statement: Statement) -> set[str]:
    """Return the operations of a statement, including its reduction."""
    found = {e.op for e in walk(statement.assign.value) if isinstance(e, Call)}
    return found | ({statement.assign.op} if statement.assign.op is not None else set())


def _read_by_data(statement: Statement, machine: Machine) -> str | None:
    """Return why a machine cannot read an element at an index that is data, or None."""
    if any(o.domain is not None for i in machine.instructions.values() for o in i.instruction.operands):
        return None
    named = (r for r in reads(statement.assign.value) if any(any(elements_of(i)) for i in r.index))
    read = next(named, None)
    return (
        read
        and f"data decides the address of `{print_expr(read)}`, and no instruction of {machine.name} reads it so"
    )


def _uncomputed_value(statement: Statement, mappings: tuple[Mapping, ...], search: MoveSearch) -> str | None:
    """Return what no instruction computes in the registers of a store into a scratchpad, or None."""
    for mapping in mappings:
        tile = tile_of(statement, mapping, search.machine) if mapping.composed else None
        if tile is None or tile.accumulator is None or not tile.overwrites(tile.accumulator):
            continue
        if all(search.is_addressable(o.memory) for o in tile.inputs):
            continue
        for part in reversed([e for e in walk(statement.assign.value) if isinstance(e, Call)]):
            memories = (m for m in search.machine.memories.values() if m.kind == "registers")
            places = ((m.name, part.dtype.name) for m in memories)
            made = (p.value for place in places for p in search.known.producers(*place))
            if not any(isinstance(value, Call) and heads_match(value, part) for value in made):
                said = f"no instruction computes `{print_expr(part)}` in registers"
                return f"`{mapping.instruction}` would store it, but {said}"
    return None


def require_performed(nests: Sequence[NestProblem], kernel: Kernel, machine: Machine) -> None:
    """Check that each statement has a mapping or is fused. Raises: NoMapping for the first one that is not."""
    taken = {fusion.statement for nest in nests for option in nest.options for fusion in option.fusions}
    for nest in nests:
        if not nest.options and nest.statement not in taken:
            raise no_mapping(kernel, nest.statement, machine)


def _missing_notes(
    statement: Statement, mapping: Mapping, missing: tuple[Movement, ...], machine: Machine
) -> list[str]:
    """Return notes about the operands of a mapping that cannot be moved: one note for each reason."""
    by_reason: dict[str, list[str]] = {}
    tile = tile_of(statement, mapping, machine)
    if tile is None:
        return [f"`{mapping.ident}` would perform it, but {missing[0].why}"]
    for m in missing:
        operand = next((o for o in tile.inputs if o.name == m.operand), None)
        by_reason.setdefault(m.why, []).append(_show_operand(operand) if operand is not None else m.operand)
    said = [f"nothing moves {', '.join(operands)}: {why}" for why, operands in by_reason.items()]
    return [f"`{mapping.ident}` would perform it, but {said[0]}", *said[1:]]


def _show_operand(operand: OperandTile) -> str:
    """Return an operand as text, which distinguishes broadcast registers from neighbouring elements."""
    lanes = prod(operand.shape)
    coordinates = {s for s in symbols(operand.elements) if s.startswith("%")}
    return (
        f"{operand.name} (one element in all {lanes} places)"
        if lanes > 1 and not coordinates
        else operand.name
    )


def _nearest(
    kernel: Kernel, statement: Statement, mappings: tuple[Mapping, ...], search: MoveSearch
) -> tuple[Mapping, tuple[Movement, ...]] | None:
    """Return the mapping with the fewest immovable operands, with these operands. Ties go to the faster one.

    Return None if there is none, or if another condition excludes one whose operands can all be moved. A
    mapping that only moves results of other instructions does not count, unless it computes in a scratchpad,
    to which other instructions may have written its inputs.
    """

    def computes(mapping: Mapping) -> bool:
        pattern = pattern_of(search.machine.instructions[mapping.instruction].instruction)
        there = pattern is not None and leaves_in_scratchpad(pattern, search.machine)
        return pattern is not None and there and not isinstance(pattern.value, Read)

    plain = [m for m in mappings if not m.composed] or [m for m in mappings if computes(m)]
    fastest = sorted(plain, key=lambda m: open_compute_ns(statement, m, search.machine))
    found: list[tuple[Mapping, tuple[Movement, ...]]] = []
    for mapping in fastest[:CLOSELY]:
        missing = _find_missing(kernel, statement, mapping, search)
        if not missing:
            return None
        found.append((mapping, missing))
    return min(found, key=lambda m: (len(m[1]), not _ends_in_memory(m[0], search)), default=None)


def _ends_in_memory(mapping: Mapping, search: MoveSearch) -> bool:
    """Return whether the instruction writes to memory, so that its result need not be moved."""
    pattern = pattern_of(search.machine.instructions[mapping.instruction].instruction)
    return pattern is not None and search.is_addressable(pattern.output.memory or "")


def _find_missing(
    kernel: Kernel, statement: Statement, mapping: Mapping, search: MoveSearch
) -> tuple[Movement, ...]:
    """Return the operands of a mapping that cannot be moved."""
    found = movements(kernel, statement, mapping, search.machine, search=search)
    missing = tuple(m for m in found if m.kind == "none")
    tile = tile_of(statement, mapping, search.machine)
    if not missing or tile is None or tile.result is None or tile.accumulator is not None:
        return missing
    result = tile.result
    if not search.is_addressable(tile.pattern.output.memory or "") or result.name == tile.pattern.output.name:
        return missing
    if find_operand_load(search, result.request({})) is not None:
        return missing
    # It would write to the array what is in a register, and nothing brings it there.
    held = next((print_expr(b.subject) for b in mapping.bindings if b.name == result.name), "it")
    register = f"{result.dtype}[{', '.join(map(str, result.shape))}]"
    why = f"no instruction of {search.machine.name} brings `{held}` into {register} of {result.memory}"
    return (Movement(result.name, "none", (), why),)


def _explain_uncleared(
    statement: Statement, mappings: tuple[Mapping, ...], search: MoveSearch
) -> NoMapping | None:
    """Return the error that tiles need zero fill and no instruction writes zeros, or None."""
    for mapping in mappings:
        tile = tile_of(statement, mapping, search.machine)
        lacking = explain_uncleared(tile, search) if tile is not None else None
        if lacking is not None:
            return NoMapping(replace(lacking.diagnostics[0], span=statement.assign.span))
    return None
