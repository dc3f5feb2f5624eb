"""The instructions of one description: each member of each family resolved, priced and given its emission."""

from __future__ import annotations

from isamap.ir import F64, Const, Instruction, Module
from isamap.machine.calls import Surroundings, check_c_types, resolve_call
from isamap.machine.costs import read_cost
from isamap.machine.emission import CallTemplate, parse_emit
from isamap.machine.families import Row, check_variables, describe_row
from isamap.machine.findings import Findings
from isamap.machine.model import Cost, Emission, EmitNothing, EmitSemantics, MachineInstruction
from isamap.machine.room import check_room
from isamap.machine.spec import InstructionSpec
from isamap.machine.texts import Declarations
from isamap.machine.tree import Scalar
from isamap.machine.world import Entry, World, check_source
from isamap.source import Diagnostic, SpecProblem
from isamap.syntax import resolve_template, substitute_text
from isamap.syntax.ast import RoutineSyntax

MAX_INSTRUCTIONS = 4000

Template = CallTemplate | EmitSemantics | EmitNothing


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
        if text is None or not _is_one_instruction(text, spec, findings):
            continue
        if not check_variables(spec.rows, spec.texts, findings):
            continue
        for row in spec.rows:
            with findings.collect(*describe_row(row)):
                entry = _member(spec, row, text, template, module, world)
                name = entry.built.name
                check_source(spec.source, world.sources, findings, entry.built.source)
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


def _member(
    spec: InstructionSpec,
    row: Row,
    text: Declarations,
    template: Template | None,
    module: Module,
    world: World,
) -> Entry:
    """One instruction. Raises: SpecProblem, TypeProblem."""
    instruction = resolve_template(text, row, module).declarations[0]
    assert isinstance(instruction, Instruction)
    emit: Emission = EmitNothing()
    if isinstance(template, CallTemplate):
        around = Surroundings(world.memories, world.states, world.target.headers)
        emit = resolve_call(template, row, instruction, around)
    elif template is not None:
        emit = template
    compiled = world.target.run != "model" and not isinstance(template, EmitNothing)
    if spec.emit is not None and compiled:  # a model holds every register in an array of elements
        check_c_types(instruction, world.memories, spec.emit.span)
    check_room(instruction, world.memories, world.constants)
    source = substitute_text(spec.source.text, row)
    cost = _cost(spec, row, instruction, world)
    built = MachineInstruction(instruction, emit, cost, spec.barrier, source, instruction.span)
    return Entry(built, spec.cost, row, world.clock_ghz)


def _cost(spec: InstructionSpec, row: Row, instruction: Instruction, world: World) -> Cost:
    if spec.cost is None:  # refused already: go on looking for other mistakes
        return Cost("", Const(0.0, F64), Const(0.0, F64))
    constants = [p.name for p in world.constants]
    cost = read_cost(spec.cost, row, instruction, constants, world.clock_ghz)
    if cost.unit not in world.units:
        raise SpecProblem(
            Diagnostic(
                "unknown-unit-name",
                f"there is no unit called `{cost.unit}`",
                spec.cost.unit.span,
                notes=(f"known: {', '.join(world.units)}",),
            )
        )
    return cost


def _report_duplicate(spec: InstructionSpec, first: Entry, name: str, findings: Findings) -> None:
    span = first.built.span
    where = f"it is given first in line {span.line}" if span is not None else "it is given twice"
    same = span is not None and spec.semantics.span.start <= span.start < spec.semantics.span.end
    findings.report(
        "instruction-twice", f"the file gives `{name}` twice", spec.semantics.span,
        "two members of this family have the same name" if same else where,
        advice="put the variables into the name" if same else "leave one out",
    )  # fmt: skip
