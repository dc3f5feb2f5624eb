"""The instructions of one description: each member of each family resolved, priced and given its emission.

Whether the operands of an instruction fit into their registers.

`f32[16] @ ymm` where a register of `ymm` has 32 bytes is refused: the registers that a schedule counts, and
what it keeps in them, would be others than those of the machine. Looked at for a number of small and large
parameters, so that what is found is real.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from isamap.ir import F64, Const, Instruction, MemoryDecl, Module, Operand, Param
from isamap.ir.samples import sample_sizes
from isamap.machine.calls import Surroundings, check_c_types, resolve_call
from isamap.machine.costs import read_cost
from isamap.machine.emission import CallTemplate, Declarations, StepsTemplate, Template, parse_emit
from isamap.machine.emit_nodes import Emission, EmitNothing
from isamap.machine.encoding_checks import resolve_encoding
from isamap.machine.encodings import Encoding
from isamap.machine.families import Row, check_variables, describe_row
from isamap.machine.model import Cost, MachineInstruction, Memory
from isamap.machine.sequences import resolve_steps
from isamap.machine.spec import CostSpec, InstructionSpec
from isamap.machine.tree import Findings, Scalar
from isamap.machine.world import Entry, World, check_source
from isamap.source import Diagnostic, Span, SpecProblem
from isamap.syntax import resolve_template, substitute_text
from isamap.syntax.ast import RoutineSyntax

_SAMPLES = 40
_OWN = (
    "shorten the operand, or give the registers their bytes; where several are used as one, declare a memory "
    "of such groups"
)
_INHERITED = "give the registers their bytes, or `remove` the inherited instruction, or replace it"


def check_inherited_room(
    parent: World, world: World, entries: Mapping[str, Entry], findings: Findings
) -> None:
    """Report, at each memory that is declared anew, an inherited instruction for which it is too small."""
    kept = [e.built.instruction for n, e in entries.items() if parent.instructions.get(n) is e]
    for name, old in parent.memories.items():
        new = world.memories[name]
        if new.decl == old.decl:
            continue
        users = [i for i in kept if any(o.memory == name for o in i.operands)]
        with findings.collect():  # the first speaks for all
            for instruction in users:
                check_room(instruction, {name: new}, world.constants, new.decl.span)


def check_room(
    instruction: Instruction,
    memories: Mapping[str, Memory],
    constants: tuple[Param, ...],
    at: Span | None = None,
) -> None:
    """Refuse an operand that is larger than a register of its memory, at its place or at another.

    Raises: SpecProblem.
    """
    held = [o for o in instruction.operands if _is_in_one_register(o, memories)]
    fixed = all(_is_fixed(o, memories) for o in held)
    for env in ({},) if fixed else sample_sizes(instruction, constants, _SAMPLES):
        for o in held:
            decl = memories[o.memory or ""].decl
            needed, there = _bits(o, env), 8 * _register_bytes(decl, env)
            if needed > there:
                raise SpecProblem(_finding(instruction, o, decl, -(-needed // 8), there // 8, env, at))


def _is_in_one_register(o: Operand, memories: Mapping[str, Memory]) -> bool:
    """Whether all of an operand lies in one register: a placement may say that it takes several."""
    memory = memories.get(o.memory or "")
    placed = [name for name, _ in o.placement.coordinates] if o.placement is not None else []
    return memory is not None and memory.kind == "registers" and "register" not in placed


def _is_fixed(o: Operand, memories: Mapping[str, Memory]) -> bool:
    known = memories[o.memory or ""].register_bytes is not None
    return known and all(extent.value is not None for extent in o.shape)


def _bits(o: Operand, env: Mapping[str, int]) -> int:
    """What an operand needs: a predicate's element may be one bit of a mask register."""
    one = 1 if o.dtype.kind == "bool" else o.dtype.bits
    return one * prod(int(extent.evaluate(env)) for extent in o.shape)


def _register_bytes(decl: MemoryDecl, env: Mapping[str, int]) -> int:
    given = {name: value.evaluate(env) for name, value in decl.attributes if not isinstance(value, str)}
    return given["bytes"] if "bytes" in given else given["rows"] * given["row_bytes"]


def _finding(
    instruction: Instruction,
    o: Operand,
    decl: MemoryDecl,
    needed: int,
    there: int,
    env: Mapping[str, int],
    at: Span | None,
) -> Diagnostic:
    used = {s for e in o.shape for s in e.symbols}
    used |= {s for _, value in decl.attributes if not isinstance(value, str) for s in value.symbols}
    shown = ", ".join(f"{name} = {value}" for name, value in env.items() if name in used)
    fitting = 8 * there // (1 if o.dtype.kind == "bool" else o.dtype.bits)
    return Diagnostic(
        "operand-too-large",
        f"`{o.name}` of `{instruction.name}` has {needed} bytes; a register of `{decl.name}` has {there}",
        at or o.span,
        notes=(
            *((f"for {shown}",) if shown else ()),
            f"a register of `{decl.name}` holds {fitting} elements of {o.dtype}",
        ),
        help=_INHERITED if at is not None else _OWN,
    )


MAX_INSTRUCTIONS = 4000


def extend_instructions(
    world: World,
    specs: tuple[InstructionSpec, ...],
    remove: tuple[Scalar, ...],
    texts: tuple[Declarations | None, ...],
    findings: Findings,
) -> dict[str, Entry]:
    """Inherited instructions without those removed, and the file's own, which replace their namesakes."""
    inherited = dict(world.instructions)
    for name in remove:
        if name.text in inherited:
            del inherited[name.text]
        else:
            findings.unknown("unknown-instruction", "inherited instruction", name.text, name.span, inherited)
    own: dict[str, Entry] = {}
    module = world.module
    for spec, text in zip(specs, texts, strict=True):
        template = _template(spec, findings)
        known = text if text is not None and _is_one_instruction(text, spec, findings) else None
        if not check_variables(spec.rows, spec.texts, findings):
            continue
        for row in spec.rows:
            entry = _member(_Written(spec, row, known, template), module, world, findings)
            if entry is None:
                continue
            name = entry.built.name
            if name in own:
                _report_duplicate(spec, own[name], name, findings)
            own[name] = entry
    if len(own) + len(inherited) > MAX_INSTRUCTIONS:
        count = len(own) + len(inherited)
        findings.report(
            "too-many-instructions", f"{count} instructions; the limit is {MAX_INSTRUCTIONS}", None
        )
    return {**inherited, **own}


def _template(spec: InstructionSpec, findings: Findings) -> Template | None:
    """What `emit` writes; None when it was refused."""
    if spec.emit is not None:
        with findings.collect():
            return parse_emit(spec.emit)
    return None


def _is_one_instruction(text: Declarations, spec: InstructionSpec, findings: Findings) -> bool:
    found = [isinstance(d, RoutineSyntax) and d.kind == "instruction" for d in text]
    if found == [True]:
        return True
    held = f"{len(found)} declarations" if len(found) != 1 else "another declaration"
    findings.report(
        "semantics-not-one", f"`semantics` holds one instruction, not {held if found else 'nothing'}",
        text[1].span if len(text) > 1 else spec.semantics.span,
    )  # fmt: skip
    return False


@dataclass(frozen=True, slots=True)
class _Written:
    """A member of a family as written; None for what was refused before."""

    spec: InstructionSpec
    row: Row
    text: Declarations | None
    template: Template | None


def _member(written: _Written, module: Module, world: World, findings: Findings) -> Entry | None:
    """One instruction; None where its text was refused, and its other parts were checked all the same."""
    spec, row = written.spec, written.row
    notes = describe_row(row)
    instruction: Instruction | None = None
    emit: Emission = EmitNothing()
    cost = Cost("", Const(0.0, F64), Const(0.0, F64))
    if written.text is not None:
        with findings.collect(*notes):
            resolved = resolve_template(written.text, row, module).declarations[0]
            assert isinstance(resolved, Instruction)
            instruction = resolved
    with findings.collect(*notes):
        emit = _emission(written, instruction, world)
    if spec.cost is not None:
        with findings.collect(*notes):
            cost = read_cost(spec.cost, row, instruction, world.constants, world.clock_ghz)
        _check_unit(spec.cost, row, world, findings)
    source = substitute_text(spec.source.text, row) if spec.source is not None else ""
    check_source(spec.source, world.sources, findings, source)
    if instruction is None:
        return None
    with findings.collect(*notes):
        _check_c_types(written, instruction, world)
    with findings.collect(*notes):
        check_room(instruction, world.memories, world.constants)
    encoding: Encoding | None = None
    if spec.encoding is not None:
        with findings.collect(*notes):
            encoding = resolve_encoding(
                spec.encoding, row, instruction, world.memories, world.program, cost.unit
            )
    built = MachineInstruction(
        instruction, emit, cost, spec.barrier, source, instruction.span, encoding=encoding
    )
    return Entry(built, spec.cost, row, world.clock_ghz)


def _emission(written: _Written, instruction: Instruction | None, world: World) -> Emission:
    """How an instruction is emitted. Raises: SpecProblem."""
    constants = {c.name: c for c in world.constants}
    around = Surroundings(world.memories, world.states, world.target.headers, constants=constants)
    match written.template:
        case CallTemplate() as call:
            return resolve_call(call, written.row, instruction, around)
        case StepsTemplate() as steps:
            return resolve_steps(steps, written.row, instruction, around)
        case emission:
            return EmitNothing() if emission is None else emission


def _check_c_types(written: _Written, instruction: Instruction, world: World) -> None:
    """Refuse registers without C types where something is compiled. Raises: SpecProblem."""
    # A model holds every register in an array of elements.
    compiled = world.target.run != "model" and not isinstance(written.template, EmitNothing)
    if written.spec.emit is not None and compiled:
        check_c_types(instruction, world.memories, written.spec.emit.span)


def _check_unit(cost: CostSpec, row: Row, world: World, findings: Findings) -> None:
    for unit in (cost.unit, cost.also):
        if unit is not None and (name := substitute_text(unit.text, row)) not in world.units:
            findings.unknown("unknown-unit-name", "unit", name, unit.span, world.units)


def _report_duplicate(spec: InstructionSpec, first: Entry, name: str, findings: Findings) -> None:
    span = first.built.span
    where = f"it is given first in line {span.line}" if span is not None else "it is given twice"
    same = span is not None and spec.semantics.span.start <= span.start < spec.semantics.span.end
    findings.report(
        "instruction-twice", f"the file gives `{name}` twice", spec.semantics.span,
        "two members of this family have the same name" if same else where,
        advice="put the variables into the name" if same else "leave one out",
    )  # fmt: skip
