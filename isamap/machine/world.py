"""Accumulate a chain of descriptions: each file extends the declarations of its parents.

`extend(parent, spec, findings)` is a pure function from one `PartialMachine` to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import combinations

from isamap.ir import ConstantDecl, Declaration, Instruction, Kernel, MemoryDecl, Module, Param, StateDecl
from isamap.machine import encodings
from isamap.machine.allowed import register_width
from isamap.machine.emission import Declarations
from isamap.machine.encoding_checks import check_issued, check_known, read_bits, resolve_words
from isamap.machine.encoding_fields import BundleSpec, EncodingSpec, ProgramSpec
from isamap.machine.families import Row
from isamap.machine.link_fields import LinkSpec
from isamap.machine.model import (
    ConfigurationState,
    ExecutionLevel,
    Link,
    MachineInstruction,
    Memory,
    Target,
    Unit,
)
from isamap.machine.parts import resolve_parts
from isamap.machine.spec import CostSpec, LevelSpec, MemorySpec, Spec, StateSpec
from isamap.machine.target_fields import Attributes, TargetSpec
from isamap.machine.timings import MODEL, NO_LOOPS, NO_TLB, LoopTimes, ModelFigures, Tlb
from isamap.machine.tree import Findings, ScalarNode
from isamap.source import Span, SpecProblem, dataclass, field, replace
from isamap.syntax import family_of, resolve_template

# --- program checks -------------------------------------------------------------------------------------

# Resolve `program`: the words at the beginning and end of all programs, token queues, tables and bundles.


def resolve_program(spec: ProgramSpec, units: Collection[str]) -> encodings.ProgramFormat:
    """Return the format that all programs of a machine share. Raises: SpecProblem."""
    begin = resolve_words(spec.begin, {}, spec.word_bits) if spec.begin is not None else ()
    issue = spec.issue.text if spec.issue is not None else ""
    check_issued(begin, issue, "`begin`", spec.begin.span if spec.begin is not None else None)
    for part in (f for word in begin for f in word if isinstance(f.holds, encodings.Quantity)):
        said = f"field `{part.name}` holds `{part.holds}`, and no instruction begins a program"
        raise SpecProblem.of("encoding-holds", said, part.span, help="write `constant: …`")
    found = encodings.ProgramFormat(
        spec.word_bits,
        encodings.constant_words(begin),
        issue,
        spec.source.text if spec.source is not None else "",
        queues=_queues(spec, units),
        tables=spec.tables,
        first_address=spec.first_address,
    )
    found = replace(found, end=_end(spec, found, units))
    if spec.bundle is not None:
        for unit in spec.bundle.slots:
            _check_unit(unit.unit, units)
        found = replace(found, bundle=resolve_bundle(spec.bundle, found))
    if issue and spec.issue is not None and (found.queues or found.tables or found.end is not None):
        said = f"`issue: {issue}` gives words one by one: `tokens`, `tables` and `end` are of whole programs"
        raise SpecProblem.of("encoding-issue", said, spec.issue.span, help="leave out one of the two")
    return found


def stand_in(spec: ProgramSpec) -> encodings.ProgramFormat:
    """Return a program format in place of a refused one, so that each error is reported once."""
    queues = tuple(encodings.TokenQueue(q.giver.text, q.taker.text, q.depth) for q in spec.queues)
    bundle = None
    if spec.bundle is not None:
        slots = tuple(encodings.WordBits(s.unit.text, spec.word_bits - 1, 0) for s in spec.bundle.slots)
        bundle = encodings.Bundle(slots, encodings.Encoding(()), encodings.Encoding(()))
    return encodings.ProgramFormat(spec.word_bits, queues=queues, tables=spec.tables, bundle=bundle)


def _queues(spec: ProgramSpec, units: Collection[str]) -> tuple[encodings.TokenQueue, ...]:
    """Return the queues. Two units have one in each direction. Raises: SpecProblem."""
    found: list[encodings.TokenQueue] = []
    for queue in spec.queues:
        for unit in (queue.giver, queue.taker):
            _check_unit(unit, units)
        giver, taker = queue.giver.text, queue.taker.text
        if giver == taker or any((q.giver, q.taker) == (giver, taker) for q in found):
            why = "its own instructions in order" if giver == taker else "one queue in each direction"
            said = f"a unit has {why}: `from: {giver}, to: {taker}` is not a queue"
            raise SpecProblem.of("tokens-queue", said, queue.taker.span)
        found.append(encodings.TokenQueue(giver, taker, queue.depth))
    return tuple(found)


def _end(
    spec: ProgramSpec, program: encodings.ProgramFormat, units: Collection[str]
) -> encodings.ProgramEnd | None:
    """Return the words at the end of a program, which must only make their unit wait. Raises: SpecProblem."""
    if spec.end is None:
        return None
    unit, written = spec.end
    _check_unit(unit, units)
    encoding = encodings.Encoding(resolve_words(written, {}, spec.word_bits), written.span)
    taken = [q for q in program.tokens_of(unit.text) if q.kind == "pop"]
    for part in encoding.fields:
        if isinstance(part.holds, encodings.Quantity):
            check_known(part, part.holds, taken, "the end of a program")
    return encodings.ProgramEnd(unit.text, encoding)


def _check_unit(unit: ScalarNode, units: Collection[str]) -> None:
    if unit.text not in units:
        known = f"known: {', '.join(sorted(units))}" if units else "there is none"
        said = f"there is no unit called `{unit.text}`"
        raise SpecProblem.of("unknown-unit", said, unit.span, notes=(known,))


# What `bundle` of `program` says, resolved: slots that share no bits, marks, and the word of a loop.
#
# slots: [{unit: load, bits: 39..0}, {unit: mac, bits: 53..40}]   two instructions in one word


def resolve_bundle(spec: BundleSpec, program: encodings.ProgramFormat) -> encodings.Bundle:
    """Return the bundle: slots, constant fields, and the word of a loop. Raises: SpecProblem."""
    if program.issue or program.queues or program.end is not None:
        said = "words with slots are performed one after the other, and `issue`, `tokens` and `end` are not"
        raise SpecProblem.of("encoding-issue", said, spec.span, help="leave out one of the two")
    slots = tuple(
        encodings.WordBits(s.unit.text, *read_bits(s.bits, {}, program.word_bits), s.bits.span)
        for s in spec.slots
    )
    marks = _one_word(spec.marks, program, (), "the words with slots")
    _check_slots(slots, marks)
    loop = None
    if spec.loop is not None:
        loop = _one_word(spec.loop, program, (encodings.TRIPS, encodings.LOOPED), "a loop")
        if missing := [q for q in (encodings.TRIPS, encodings.LOOPED) if q not in loop.quantities]:
            said = f"no field of `loop` holds `{missing[0]}`"
            advice = f"add a field with `holds: {missing[0]}`"
            raise SpecProblem.of("encoding-incomplete", said, spec.loop.span, help=advice)
        (marked,) = marks.words
        constants = [f for f in marked if isinstance(f.holds, int)]
        ((bits, value),) = loop.fixed
        if not any(bits & f.mask == f.mask and f.get(value) != f.holds for f in constants):
            said = "the word of a loop and one with slots can be the same"
            advice = "give `marks` and `loop` constants that differ in the same bits"
            raise SpecProblem.of("encoding-ambiguous", said, spec.loop.span, help=advice)
    return encodings.Bundle(slots, marks, loop)


def _one_word(
    spec: EncodingSpec, program: encodings.ProgramFormat, held: tuple[encodings.Quantity, ...], what: str
) -> encodings.Encoding:
    encoding = encodings.Encoding(resolve_words(spec, {}, program.word_bits), spec.span)
    for part in encoding.fields:
        if isinstance(part.holds, encodings.Quantity):
            check_known(part, part.holds, held, what)
    return encoding


def _check_slots(slots: tuple[encodings.WordBits, ...], marks: encodings.Encoding) -> None:
    """Refuse slots that share bits, and slots of one unit that differ in width. Raises: SpecProblem."""
    taken = [(f.high, f.low) for f in marks.fields] + [(s.high, s.low) for s in slots]
    for number, slot in enumerate(slots, len(marks.fields)):
        for high, low in taken[:number]:
            if low <= slot.high and slot.low <= high:
                said = f"a slot of `{slot.unit}` shares bit {min(high, slot.high)}"
                raise SpecProblem.of("encoding-overlap", said, slot.span, help="give it separate bits")
    for one, other in combinations(slots, 2):
        if one.unit == other.unit and one.bits != other.bits:
            said = f"slots of `{one.unit}` have {one.bits} and {other.bits} bits; an instruction has one word"
            raise SpecProblem.of("encoding-bits", said, other.span, help="make them equally wide")


# --- world ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """An instruction with the expression of its cost, whose cycles depend on the final `clock_ghz`."""

    built: MachineInstruction
    cost: CostSpec | None
    row: Row
    clock_ghz: float | None


@dataclass(frozen=True, slots=True)
class PartialMachine:
    """All declarations of the files of a chain so far, by name."""

    declarations: Mapping[str, MemoryDecl | StateDecl | ConstantDecl] = field(
        default_factory=dict[str, MemoryDecl | StateDecl | ConstantDecl]
    )
    memories: Mapping[str, Memory] = field(default_factory=dict[str, Memory])
    states: Mapping[str, ConfigurationState] = field(default_factory=dict[str, ConfigurationState])
    units: Mapping[str, Unit] = field(default_factory=dict[str, Unit])
    links: Mapping[tuple[str, str], Link] = field(default_factory=dict[tuple[str, str], Link])
    instructions: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    target: Target = field(default_factory=Target)
    clock_ghz: float | None = None
    thread_start_ns: float | None = None
    tlb: Tlb = NO_TLB
    loops: LoopTimes = NO_LOOPS
    model: ModelFigures = MODEL
    program: encodings.ProgramFormat | None = None
    levels: tuple[ExecutionLevel, ...] = ()
    host: str = ""
    summary: str = ""
    chain: tuple[str, ...] = ()

    @property
    def module(self) -> Module:
        """The declarations to which the text of an instruction may refer."""
        return Module(tuple(self.declarations.values()))

    @property
    def constants(self) -> tuple[Param, ...]:
        """The constants of the machine that are known only at run time."""
        return tuple(d.param for d in self.declarations.values() if isinstance(d, ConstantDecl))


def extend_surroundings(
    world: PartialMachine, spec: Spec, language: Declarations | None, findings: Findings
) -> PartialMachine:
    """Return the declarations, extended by those of a file. Its instructions are not read yet."""
    world = replace(
        world,
        summary=spec.summary,
        chain=(spec.name.text if spec.name is not None else "", *world.chain),
        sources={**world.sources, **spec.sources},
        target=_target(world.target, spec.target, findings),
        clock_ghz=spec.clock_ghz or world.clock_ghz,
        thread_start_ns=spec.thread_start_ns if spec.thread_start_ns is not None else world.thread_start_ns,
        tlb=spec.tlb.figures if spec.tlb is not None else world.tlb,
        loops=spec.loops.changes(world.loops) if spec.loops is not None else world.loops,
        model=spec.model.changes(world.model) if spec.model is not None else world.model,
        host=spec.host.text if spec.host is not None else world.host,
        units={
            **world.units,
            **{u.name: Unit(u.name, u.count, u.products_per_cycle, u.queued, u.area_mm2) for u in spec.units},
        },
    )
    _check_peaks(spec, world.clock_ghz, findings)
    for cited in (
        *((spec.program.source,) if spec.program is not None else ()),
        *(u.source for u in spec.units),
        *(m.source for m in spec.memories),
        *(m.energy.source for m in spec.memories if m.energy is not None),
        *(k.source for k in spec.links),
        *(stated.source for k in spec.links for stated in (k.rows, k.streams) if stated is not None),
        *(stated.source for stated in (spec.tlb, spec.loops, spec.model) if stated is not None),
    ):
        check_source(cited, world.sources, findings)
    if spec.program is not None:
        world = replace(world, program=stand_in(spec.program))  # where it is refused
        with findings.collect():
            world = replace(world, program=resolve_program(spec.program, world.units))
    world = replace(world, declarations=_declarations(world, language or (), findings))
    constants = {constant.name for constant in world.constants}
    for length in spec.target.lengths:
        if length.constant not in constants:
            findings.unknown(
                "unknown-constant", "constant of the machine", length.constant, length.span, constants
            )
    world = replace(
        world,
        memories=_memories(world, spec.memories, findings),
        states=_states(world, spec.states, findings),
    )
    if spec.levels:
        world = replace(world, levels=_levels(spec.levels, world.memories, findings))
    _check_banks(world, findings)
    world = replace(world, links=_links(world, spec.links, findings))
    _check_multicast(world, findings)
    return world


def _levels(
    specs: tuple[LevelSpec, ...], memories: Mapping[str, Memory], findings: Findings
) -> tuple[ExecutionLevel, ...]:
    """Return the execution levels: one device, the instances that run parallel loops, and the lanes inside."""
    owners: dict[str, str] = {}
    for spec in specs:
        for memory in spec.memories:
            if memory.text not in memories:
                findings.unknown("unknown-memory", "memory", memory.text, memory.span, memories)
            elif (owner := owners.setdefault(memory.text, spec.name.text)) != spec.name.text:
                findings.report(
                    "bad-levels", f"`{memory.text}` is a memory of `{owner}` and of `{spec.name.text}`",
                    memory.span, "each memory is one for each instance of one level",
                    advice="leave it to one of them",
                )  # fmt: skip
    if len(specs) not in (3, 4):
        findings.report(
            "bad-levels", f"there are {len(specs)} levels; a machine has three or four",
            specs[0].name.span, *_LEVELS,
            advice="write them as `levels: {grid: {}, block: {at_once: 64}, lane: {count: 256}}`",
        )  # fmt: skip
        return ()
    rules = (*_LEVELS[:2], *_LEVELS[-1:]) if len(specs) == 3 else _LEVELS
    for at, (spec, rule) in enumerate(zip(specs, rules, strict=True)):
        stated = [key for key, number in (("count", spec.count), ("up_to", spec.most)) if number is not None]
        wanted: list[list[str]] = (
            [["count"]] if rule == _LEVELS[3] else [["count"], ["up_to"]] if at == 2 else [[]]
        )
        if stated not in wanted:
            findings.report(
                "bad-levels",
                f"`{spec.name.text}` states {f'a `{stated[0]}`' if stated else 'no `count`'}",
                spec.name.span, rule,
                advice="state `count` of the innermost level, and `count` or `up_to` of the third of four levels; "
                "other levels have neither",
            )  # fmt: skip
    return tuple(
        ExecutionLevel(
            s.name.text,
            s.count,
            s.most,
            s.at_once,
            tuple(m.text for m in s.memories),
            s.barrier_ns,
            s.residents,
            s.name.span,
        )
        for s in specs
    )


_LEVELS = (
    "the first level is the whole device",
    "instances of the second level perform the iterations of parallel loops, however many there are",
    "of four levels, instances of the third one share the iterations of one of the second",
    "a fixed number of instances of the innermost level performs each instruction together",
)


def _check_banks(world: PartialMachine, findings: Findings) -> None:
    timed = [memory for memory in world.memories.values() if memory.number("bank_bytes") is not None]
    if timed and world.clock_ghz is None:
        findings.report(
            "clock-missing", "`bank_bytes` need the machine's clock", timed[0].decl.span,
            advice="add `clock_ghz: …`",
        )  # fmt: skip


def _check_multicast(world: PartialMachine, findings: Findings) -> None:
    """Report a multicast of a memory whose transfers no instances share."""
    shared = {ends[0] for ends, link in world.links.items() if link.shared}
    for memory in world.memories.values():
        stated = memory.number("multicast_bytes_per_ns") is not None
        if stated and not (world.levels and memory.name in shared):
            findings.report(
                "unknown-attribute",
                f"`multicast_bytes_per_ns` of `{memory.name}` needs a shared link to instances of a level",
                memory.decl.span,
                advice=f"state `levels`, and a link from `{memory.name}` with `shared: true`",
            )


def _check_peaks(spec: Spec, clock_ghz: float | None, findings: Findings) -> None:
    peaks = [u for u in spec.units if u.products_per_cycle is not None]
    if peaks and clock_ghz is None:
        findings.report(
            "clock-missing", "products per cycle need the machine's clock", peaks[0].span,
            advice="add `clock_ghz: …`",
        )  # fmt: skip


def check_source(
    cited: ScalarNode | None, sources: Iterable[str], findings: Findings, name: str | None = None
) -> None:
    """Report a citation that names no source. `name` is its text with variables replaced."""
    if cited is not None and (name or cited.text) not in sources:
        findings.unknown("unknown-source", "source", name or cited.text, cited.span, sources)


def _target(old: Target, new: TargetSpec, findings: Findings) -> Target:
    """Return the target of a child: its lists are appended, its parts merged by name, its other keys replace."""

    def join(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
        return (*a, *(x for x in b if x not in a))

    stated = {length.constant for length in new.lengths}
    headers = join(old.headers, new.headers)
    parts = dict((*old.parts, *resolve_parts(new.parts, headers, findings)))
    return Target(
        new.toolchains or old.toolchains,
        join(old.flags, new.flags),
        headers,
        join(old.features, new.features),
        join(old.permissions, new.permissions),
        new.run or old.run,
        (*(old_length for old_length in old.lengths if old_length.constant not in stated), *new.lengths),
        new.emulator or old.emulator,
        new.cpu or old.cpu,
        tuple(parts.items()),
        Attributes(
            join(old.attributes.entered, new.attributes.entered),
            join(old.attributes.within, new.attributes.within),
        ),
    )


# --- declarations -----------------------------------------------------------------------------------------


def _declarations(
    world: PartialMachine, language: Declarations, findings: Findings
) -> dict[str, MemoryDecl | StateDecl | ConstantDecl]:
    """Return inherited declarations and those of this file, which replace inherited ones of the same name."""
    own = {d.name.text for d in language}
    inherited = {name: d for name, d in world.declarations.items() if name not in own}
    resolved: tuple[Declaration, ...] = ()
    with findings.collect():
        known = Module(tuple(inherited.values()))
        resolved = resolve_template(family_of(language), {}, known).declarations
    found = dict(world.declarations)
    for declaration in resolved:
        match declaration:
            case MemoryDecl(name) | StateDecl(name):
                found[name] = declaration
            case ConstantDecl(param):
                found[param.name] = declaration
            case Kernel() | Instruction():
                findings.report(
                    "declaration-misplaced", "`language` declares memories, states and constants",
                    declaration.span,
                    advice="instructions belong under `instructions`, each with its cost",
                )  # fmt: skip
    bases = {d.name: [d.base] for d in found.values() if isinstance(d, MemoryDecl) and d.base is not None}
    if (cycle := _cycle(bases)) is not None:
        first = found[cycle[0]]
        findings.report("memory-cycle", f"views of each other: {' → '.join(cycle)}", first.span)
    return found


def _memories(world: PartialMachine, facts: tuple[MemorySpec, ...], findings: Findings) -> dict[str, Memory]:
    memories: dict[str, Memory] = {}
    for name, decl in world.declarations.items():
        if isinstance(decl, MemoryDecl):
            old = world.memories.get(name)
            memories[name] = Memory(decl) if old is None else replace(old, decl=decl)
    for fact in facts:
        memory = memories.get(fact.name.text)
        if memory is None:
            findings.unknown("unknown-memory", "memory", fact.name.text, fact.name.span, memories)
            continue
        cited = fact.source.text if fact.source is not None else memory.source
        if fact.energy is not None and memory.kind == "cache":
            findings.report(
                "figure-without-effect",
                f"accesses of caches are not counted, so that the energy of `{memory.name}` has no effect",
                fact.name.span,
                advice="state the energy of registers, scratchpads, main memory and links",
            )
        typed = replace(
            memory,
            c_types={**memory.c_types, **fact.c_types},
            c_variables={**memory.c_variables, **fact.c_variables},
        )
        for dtype in typed.c_variables:
            held, own = typed.c_variable(dtype), typed.c_type(dtype)
            if register_width(held) != register_width(own):
                findings.report(
                    "unknown-c-type",
                    f"a variable of `{held}` cannot hold the `{own}` that `c_types` gives for {dtype}",
                    fact.name.span,
                    advice="give a type of equal size",
                )
        memories[memory.name] = replace(
            typed,
            source=cited,
            energy=fact.energy.figures if fact.energy is not None else memory.energy,
            area_mm2=memory.area_mm2 if fact.area_mm2 is None else fact.area_mm2,
            area_mm2_per_kib=memory.area_mm2_per_kib
            if fact.area_mm2_per_kib is None
            else fact.area_mm2_per_kib,
        )
    return memories


def _states(
    world: PartialMachine, facts: tuple[StateSpec, ...], findings: Findings
) -> dict[str, ConfigurationState]:
    decls = {name: d for name, d in world.declarations.items() if isinstance(d, StateDecl)}
    none = {name: ConfigurationState(d, 0, {}) for name, d in decls.items()}
    states = {**none, **{name: replace(state, decl=decls[name]) for name, state in world.states.items()}}
    for fact in facts:
        name = fact.name.text
        if name not in decls:
            findings.unknown("unknown-state", "state", name, fact.name.span, decls)
            continue
        _check_image(decls[name], fact, findings)
        states[name] = ConfigurationState(
            decls[name], fact.size_bytes, {f.text: offset for f, offset in fact.offsets}
        )
    return states


def _check_image(decl: StateDecl, fact: StateSpec, findings: Findings) -> None:
    """Check that every field is inside the image, and that fields do not overlap."""
    sizes = {f.name: f.dtype.size_bytes * (f.count or 1) for f in decl.fields}
    for missing in sizes.keys() - {name.text for name, _ in fact.offsets}:
        findings.report(
            "missing-key", f"state `{decl.name}` does not place its field `{missing}`", fact.name.span
        )
    end, before = 0, ""
    for name, offset in sorted(fact.offsets, key=lambda place: place[1]):
        if name.text not in sizes:
            findings.unknown("unknown-field", f"field of `{decl.name}`", name.text, name.span, sizes)
            continue
        if offset < end:
            findings.report(
                "fields-overlap", f"`{name.text}` begins at byte {offset}, inside `{before}`", name.span
            )
        end, before = offset + sizes[name.text], name.text
        if end > fact.size_bytes:
            findings.report(
                "field-outside",
                f"`{name.text}` ends at byte {end}; the image has {fact.size_bytes} bytes",
                name.span,
            )


# --- links ------------------------------------------------------------------------------------------------


def _links(
    world: PartialMachine, specs: tuple[LinkSpec, ...], findings: Findings
) -> dict[tuple[str, str], Link]:
    links = dict(world.links)
    spans: dict[str, Span] = {}
    for spec in specs:
        for end in (spec.source_memory, spec.target_memory):
            if end.text not in world.memories:
                findings.unknown("unknown-memory", "memory", end.text, end.span, world.memories)
        ends = (spec.source_memory.text, spec.target_memory.text)
        cited = spec.source.text if spec.source is not None else ""
        _check_link(spec, world.memories, findings)
        links[ends] = _link(spec, cited, links.get(ends))
        spans.setdefault(ends[0], spec.source_memory.span)
    graph: dict[str, list[str]] = {}
    for source, target in links:
        graph.setdefault(source, []).append(target)
    if (cycle := _cycle(graph)) is not None:
        findings.report(
            "memory-cycle", f"the links form a cycle: {' → '.join(cycle)}",
            next((spans[name] for name in cycle if name in spans), None),
            "a link leads from the memory farther from the units to the nearer, and serves both directions",
            advice="leave out the link that leads back",
        )  # fmt: skip
    return links


def _link(spec: LinkSpec, cited: str, old: Link | None) -> Link:
    """Return the link as stated, with inherited parameters of rows and streams."""
    ends = (spec.source_memory.text, spec.target_memory.text)
    span = spec.source_memory.span
    new = old or Link(*ends, spec.bandwidth_bytes_per_ns, spec.shared, cited, span=span)
    return replace(
        new,
        bandwidth_bytes_per_ns=spec.bandwidth_bytes_per_ns,
        shared=spec.shared,
        source=cited,
        rows=spec.rows.figures if spec.rows is not None else new.rows,
        streams=spec.streams.figures if spec.streams is not None else new.streams,
        burst_bytes=new.burst_bytes if spec.burst_bytes is None else spec.burst_bytes,
        energy_pj_per_byte=new.energy_pj_per_byte
        if spec.energy_pj_per_byte is None
        else spec.energy_pj_per_byte,
    )


# Of a link out of a cache: what else `rows` says is of what comes from beyond all caches.
_OF_CACHES = (
    "start_ns", "start_bytes", "again_ns", "swept_count", "computing_factor", "traffic_factor",
    "crowded_ns", "crowded_piece_ns", "swept_ns", "hinted_swept_count", "hinted_swept_ns",
    "hinted_traffic_factor", "fill_count", "fill_ns",
)  # fmt: skip


def _check_link(spec: LinkSpec, memories: Mapping[str, Memory], findings: Findings) -> None:
    """Check that only links from a cache's farther side state parameters of rows and streams."""
    source, target = memories.get(spec.source_memory.text), memories.get(spec.target_memory.text)
    stated = [s for s in (spec.rows, spec.streams) if s is not None]
    if not stated or source is None or target is None:
        return
    if target.kind != "cache":
        findings.report(
            "figure-without-effect",
            f"rows and streams describe cache misses; `{target.name}` is of kind {target.kind}",
            spec.target_memory.span,
        )
    elif source.kind == "cache":
        others = [entry for s in stated for entry in s.spans.items() if entry[0] not in _OF_CACHES]
        for name, span in others[:1]:
            findings.report(
                "figure-without-effect",
                f"`{name}` is for the memory beyond all caches, and `{source.name}` is a cache",
                span,
                f"a link out of a cache states {', '.join(_OF_CACHES)} of its rows, and no streams",
            )  # fmt: skip


def _cycle(graph: dict[str, list[str]]) -> list[str] | None:
    """Return the nodes of a cycle, with the first node also at the end, or None if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return None
