"""Resolve the instructions of one description: the members of each family, with their costs and emissions.

The module also checks that the operands of an instruction fit into their registers.

It refuses `f32[16] @ ymm` if a register of `ymm` has 32 bytes: a schedule would count other registers than
the machine has. The check tries small and large parameter values, so every finding is real.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

from isamap.ir import F64, Const, Index, Instruction, MemoryDecl, Module, Operand, Param
from isamap.ir.small_sizes import sample_sizes
from isamap.machine import allowed, calls
from isamap.machine import emission as emissions
from isamap.machine.costs import read_cost
from isamap.machine.emit_nodes import Emission, EmitNothing, EmitStep, EmitSteps
from isamap.machine.encoding_checks import resolve_encoding
from isamap.machine.encodings import Encoding
from isamap.machine.families import Row, check_variables, describe_row
from isamap.machine.model import Cost, MachineInstruction, Memory
from isamap.machine.spec import CostSpec, InstructionSpec
from isamap.machine.tree import Findings, ScalarNode
from isamap.machine.world import Entry, PartialMachine, check_source
from isamap.source import Diagnostic, Span, SpecProblem, dataclass, is_digits, replace
from isamap.syntax import Family, family_of, resolve_template, substitute_text
from isamap.syntax.ast import RoutineSyntax

_SAMPLES = 40
_OWN = (
    "shorten the operand, or correct the bytes of a register; for registers that are used as one, declare "
    "a memory of such groups"
)
_INHERITED = "give the registers their bytes, or `remove` the inherited instruction, or replace it"


def check_inherited_room(
    parent: PartialMachine, world: PartialMachine, entries: Mapping[str, Entry], findings: Findings
) -> None:
    """Report, at each redeclared memory, an inherited instruction that needs larger registers."""
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
    """Refuse an operand that is larger than a register of its memory. `at` is the span of the error, if given.

    Raises: SpecProblem.
    """
    held = [o for o in instruction.operands if _is_in_one_register(o, memories)]
    fixed = all(_is_fixed(o, memories) for o in held)
    for env in ({},) if fixed else sample_sizes(instruction, constants, _SAMPLES):
        for o in held:
            decl = memories[o.memory or ""].decl
            needed, there = _bits(o, env), 8 * _register_bytes(decl, env)
            if needed > there:
                raise SpecProblem(
                    _describe_misfit(instruction, o, decl, -(-needed // 8), there // 8, env, at)
                )


def _is_in_one_register(o: Operand, memories: Mapping[str, Memory]) -> bool:
    """Return whether an operand lies in one register. A placement may distribute it over several."""
    memory = memories.get(o.memory or "")
    placed = [name for name, _ in o.placement.coordinates] if o.placement is not None else []
    return memory is not None and memory.kind == "registers" and "register" not in placed


def _is_fixed(o: Operand, memories: Mapping[str, Memory]) -> bool:
    known = memories[o.memory or ""].register_bytes is not None
    return known and all(extent.value is not None for extent in o.shape)


def _bits(o: Operand, env: Mapping[str, int]) -> int:
    """Return the number of bits of an operand. An element of a predicate may be one bit of a mask register."""
    one = 1 if o.dtype.kind == "bool" else o.dtype.bits
    return one * prod(int(extent.evaluate(env)) for extent in o.shape)


def _register_bytes(decl: MemoryDecl, env: Mapping[str, int]) -> int:
    given = {name: value.evaluate(env) for name, value in decl.attributes if not isinstance(value, str)}
    return given["bytes"] if "bytes" in given else given["rows"] * given["row_bytes"]


def _describe_misfit(
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
    world: PartialMachine,
    specs: tuple[InstructionSpec, ...],
    remove: tuple[ScalarNode, ...],
    texts: tuple[emissions.Declarations | None, ...],
    findings: Findings,
) -> dict[str, Entry]:
    """Return the instructions: inherited ones except removed ones, and the file's own, which replace equal names."""
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
        family = family_of(text) if text is not None and _is_one_instruction(text, spec, findings) else None
        if not check_variables(spec.rows, spec.texts, findings):
            continue
        for row in spec.rows:
            entry = _member(_Written(spec, row, family, template), module, world, findings)
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


def _template(spec: InstructionSpec, findings: Findings) -> emissions.Template | None:
    """Return the template of `emit`, or None if it was refused."""
    if spec.emit is not None:
        with findings.collect():
            return emissions.parse_emit(spec.emit)
    return None


def _is_one_instruction(text: emissions.Declarations, spec: InstructionSpec, findings: Findings) -> bool:
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
    """A member of a family as written, or None if it was refused before."""

    spec: InstructionSpec
    row: Row
    family: Family | None
    template: emissions.Template | None


def _member(written: _Written, module: Module, world: PartialMachine, findings: Findings) -> Entry | None:
    """Return one instruction, or None if its text was refused. Its other parts are checked in both cases."""
    spec, row = written.spec, written.row
    notes = describe_row(row)
    instruction: Instruction | None = None
    emit: Emission = EmitNothing()
    cost = Cost("", Const(0.0, F64), Const(0.0, F64))
    if written.family is not None:
        with findings.collect(*notes):
            resolved = resolve_template(written.family, row, module).declarations[0]
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
        instruction,
        emit,
        cost,
        spec.barrier,
        source,
        instruction.span,
        encoding=encoding,
        is_asynchronous=spec.is_asynchronous,
    )
    return Entry(built, spec.cost, row, world.clock_ghz)


def _emission(written: _Written, instruction: Instruction | None, world: PartialMachine) -> Emission:
    """Return how an instruction is emitted. Raises: SpecProblem."""
    constants = {c.name: c for c in world.constants}
    target = world.target
    around = calls.EmissionNames(
        world.memories, world.states, target.headers, constants=constants, features=target.features
    )
    match written.template:
        case emissions.CallTemplate() as call:
            return calls.resolve_call(call, written.row, instruction, around)
        case emissions.StepsTemplate() as steps:
            return resolve_steps(steps, written.row, instruction, around)
        case emission:
            return EmitNothing() if emission is None else emission


def _check_c_types(written: _Written, instruction: Instruction, world: PartialMachine) -> None:
    """Refuse registers without C types if the machine's code is compiled. Raises: SpecProblem."""
    # A model holds every register in an array of elements, and so does a lane.
    compiled = (
        world.target.run != "model" and not world.levels and not isinstance(written.template, EmitNothing)
    )
    if written.spec.emit is not None and compiled:
        calls.check_c_types(instruction, world.memories, written.spec.emit.span)


def _check_unit(cost: CostSpec, row: Row, world: PartialMachine, findings: Findings) -> None:
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


# Emissions of several calls, one after the other: what `for` counts spelt out, and each call checked.
#
#     for i in 16: __m512 r[i] = _mm512_loadu_ps(a[i, 0].addr);
#     for i in 8:  __m512 t[i] = _mm512_unpacklo_ps(r[2*i], r[2*i + 1]);
#
# is 24 calls, which make the values r[0] … r[15] and t[0] … t[7] out of memory and of each other. Nothing but
# calls that a single emission could make is said so; what they leave is written to memory by calls as well.


MOST_CALLS = 4096

Iteration = Mapping[str, int]


def resolve_steps(
    template: emissions.StepsTemplate, row: Row, instruction: Instruction | None, around: calls.EmissionNames
) -> EmitSteps:
    """Return the checked steps of one instruction. Raises: SpecProblem with all errors."""
    found, steps, values = Findings(), list[EmitStep](), list[str]()
    if instruction is not None:
        with found.collect():
            _check_memories(template, instruction, around)
    for step in template.steps:
        with found.collect():
            for iteration, ends in _iterations(step, row, around):
                here = replace(around, values=values)
                made = _AtIteration(iteration, row, instruction, here, found).step(step)
                steps.append(replace(made, iterations=ends))
                values += [made.value] if made.c_type else []
                if len(steps) > MOST_CALLS:
                    raise _problem(f"these are more than {MOST_CALLS} calls", step.call.function.span)
        found.raise_any()  # what is wrong once is wrong in all iterations
    text = substitute_text(template.span.text, row)
    whole = EmitSteps(tuple(steps), text)
    if instruction is not None:
        for problem in calls.find_unmentioned(whole, instruction, around, template.span):
            found.diagnostics += problem.diagnostics
    found.raise_any()
    return whole


def _check_memories(
    template: emissions.StepsTemplate, instruction: Instruction, around: calls.EmissionNames
) -> None:
    """Refuse steps on registers without C variables, and on single values, which only calls return."""
    for operand in instruction.operands:
        memory = around.memories.get(operand.memory or "")
        if operand.role == "temp" or memory is None or memory.kind != "registers":
            continue
        if memory.named == "chosen" or not operand.shape:
            raise _problem(
                f"several calls work on memory, vectors and tiles; `{operand.name}` lives in `{memory.name}`",
                template.span,
                "write one call, whose arguments may be calls",
            )
    if instruction.sets_state or instruction.releases_state:
        raise _problem("a state is loaded and released by one call", template.span)


def _iterations(
    step: emissions.EmissionStep, row: Row, around: calls.EmissionNames
) -> Iterator[tuple[Iteration, tuple[tuple[int, Index], ...]]]:
    """Yield all combinations of the `for` counters, the last fastest, with the bounds that depend on constants.

    Constants of the machine count as their largest values.
    """
    ends = [_count(count, row, around) for _, count in step.iterations]
    largest = {name: c.high for name, c in around.constants.items() if c.high is not None}
    counts = [end.substitute(largest).value for end in ends]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or prod(known) > MOST_CALLS:
        raise _problem(f"these are more than {MOST_CALLS} calls", step.iterations[0][1][0][0].span)
    names = [name.text for name, _ in step.iterations]
    for at in product(*map(range, known)):
        open_ends = tuple((n, end) for n, end in zip(at, ends, strict=True) if end.value is None)
        yield dict(zip(names, at, strict=True)), open_ends


def _count(count: emissions.Sum, row: Row, around: calls.EmissionNames) -> Index:
    """Return the bound of a counter of `for`: an integer, or a constant of the machine."""

    def factor(word: emissions.Word) -> Index:
        text = substitute_text(word.text, row)
        return Index.of(text) if text in around.constants else Index.of(_number(word, {}, row))

    total = Index.of(0)
    for term in count:
        total = total + prod(map(factor, term), start=Index.of(1))
    return total


@dataclass(frozen=True, slots=True)
class _AtIteration:
    """One iteration of a step, in which the counters of `for` are numbers."""

    iteration: Iteration
    row: Row
    instruction: Instruction | None
    around: calls.EmissionNames
    found: Findings

    def step(self, step: emissions.EmissionStep) -> EmitStep:
        call = calls.resolve_nested(
            self.nested(step.call), self.row, self.instruction, self.around, self.found
        )
        if step.name is None:
            return EmitStep("", "", call)
        if step.c_type is None:
            known = self.instruction
            named = calls.named_result(step.name, self.row, known, self.around) if known is not None else ""
            return EmitStep("", named, call)
        c_type, value = substitute_text(step.c_type.text, self.row), self.value(step.name, step.place)
        if not allowed.is_c_type(c_type):
            raise _problem(f"`{c_type}` is not a type of values", step.c_type.span, allowed.shown_types())
        names = [] if self.instruction is None else [o.name for o in self.instruction.operands]
        if value in self.around.values or value in names:
            raise _problem(f"`{value}` has a value already", step.name.span, "give each value a name")
        return EmitStep(c_type, value, call)

    def nested(self, call: emissions.Nested) -> emissions.Nested:
        """Return a call with names of values and places at this iteration."""
        return replace(call, args=tuple(self.written(a) for a in call.args))

    def written(self, arg: emissions.Written) -> emissions.Written:
        match arg:
            case emissions.Nested():
                return self.nested(arg)
            case emissions.Arithmetic():
                return replace(arg, left=self.written(arg.left), right=self.written(arg.right))
            case emissions.EmissionArgument():
                return self.argument(arg)

    def argument(self, arg: emissions.EmissionArgument) -> emissions.EmissionArgument:
        name = substitute_text(arg.name.text, self.row)
        if name in self.iteration:
            return replace(arg, name=emissions.Word(str(self.iteration[name]), arg.name.span))
        operand = next((o for o in self.operands if o.name == name), None)
        if operand is None:
            return replace(arg, name=emissions.Word(self.value(arg.name, arg.place), arg.name.span), place=())
        if not arg.place:
            return arg
        place = tuple(self.sum(at) for at in arg.place)
        extents = [extent.value for extent in operand.shape]
        inside = [e is None or 0 <= at < e for at, e in zip(place, extents, strict=False)]
        if (
            len(place) != len(extents)
            or not all(inside)
            or arg.attribute is None
            or arg.attribute.text not in ("addr", "ref")
        ):
            at, shape = (", ".join(map(str, numbers)) for numbers in (place, operand.shape))
            raise _problem(
                f"`{name}[{at}]` is not a place of `{name}`, which has shape [{shape}]",
                arg.name.span,
                f"pass `{name}[…].addr`, with a number for each axis",
            )
        numbers = tuple(((emissions.Word(str(at), arg.name.span),),) for at in place)
        return replace(arg, place=numbers)

    @property
    def operands(self) -> tuple[Operand, ...]:
        return () if self.instruction is None else self.instruction.operands

    def value(self, name: emissions.Word, place: tuple[emissions.Sum, ...]) -> str:
        """Return the name of a value at this iteration: `r[2*i + 1]` is r[7] if i is 3."""
        text = substitute_text(name.text, self.row)
        return f"{text}[{', '.join(str(self.sum(at)) for at in place)}]" if place else text

    def sum(self, at: emissions.Sum) -> int:
        return sum(prod(_number(word, self.iteration, self.row) for word in term) for term in at)


def _number(word: emissions.Word, iteration: Iteration, row: Row) -> int:
    text = substitute_text(word.text, row)
    if text in iteration:
        return iteration[text]
    if is_digits(text):
        return int(text)
    raise _problem(
        f"`{text}` is not a whole number",
        word.span,
        f"counted are {', '.join(iteration)}" if iteration else None,
    )


def _problem(message: str, span: Span, advice: str | None = None) -> SpecProblem:
    return SpecProblem.of("emit-sequence", message, span, help=advice)
