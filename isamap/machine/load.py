"""Build a `Machine` from the texts of a description, or report every finding of the first wrong text.

Other packages call `load_machine` of `checks`, which reads only texts that are not cached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from operator import mul

from isamap.ir import F64, Call, Const, Expr, Index, IndexValue, Instruction
from isamap.machine.banks import Banks, banks_of
from isamap.machine.chain import File, digest_files
from isamap.machine.costs import read_cost
from isamap.machine.emission import parse_texts
from isamap.machine.encoding_checks import check_apart
from isamap.machine.instructions import check_inherited_room, extend_instructions
from isamap.machine.lengths import fixed_lengths
from isamap.machine.links import cached_bytes_per_ns, carried_amount
from isamap.machine.masks import with_masks_set
from isamap.machine.model import Cost, Link, Machine, MachineInstruction, is_hint
from isamap.machine.row_moves import with_whole_tiles
from isamap.machine.spec import read_spec
from isamap.machine.timings import THREAD_START_NS
from isamap.machine.tree import Findings, ScalarNode, read_tree
from isamap.machine.world import Entry, PartialMachine, extend_surroundings
from isamap.source import Source, replace


def load_files(files: tuple[File, ...], word: str) -> Machine:
    """Return the machine of a file and those that it extends, named `word`. Raises: SpecProblem."""
    sources = tuple(file.source for file in files)
    findings = Findings()
    with findings.collect():
        _world(sources)
    for file in files:
        _check_name(file, findings)
    findings.raise_any()
    return _machine(sources, digest_files(files), word)


@lru_cache(maxsize=128)
def _machine(sources: tuple[Source, ...], digest: str, word: str) -> Machine:
    """Return the machine of a chain of texts, named `word`: the same object for the same texts and word."""
    world = _world(sources)
    priced = {name: _price_instruction(entry, world) for name, entry in world.instructions.items()}
    target = world.target
    if not target.lengths and not world.constants:
        target = replace(target, lengths=fixed_lengths(world.memories, target.headers))
    hints = {name: item for name, item in priced.items() if is_hint(item.instruction, world.memories)}
    instructions = {name: item for name, item in priced.items() if name not in hints}
    return Machine(
        name=world.chain[0],
        summary=world.summary,
        chain=world.chain,
        constants=world.constants,
        memories=world.memories,
        states=world.states,
        units=world.units,
        links=tuple(world.links.values()),
        instructions=instructions
        if world.constants
        else with_whole_tiles(with_masks_set(instructions), world.memories),
        target=target,
        clock_ghz=world.clock_ghz,
        thread_start_ns=THREAD_START_NS if world.thread_start_ns is None else world.thread_start_ns,
        tlb=world.tlb,
        loops=world.loops,
        model=world.model,
        program=world.program,
        levels=world.levels,
        host=world.host,
        sources=world.sources,
        digest=digest,
        hints=hints,
        word=word,
    )


@lru_cache(maxsize=128)
def _world(sources: tuple[Source, ...]) -> PartialMachine:
    """Return the joined declarations of a chain of texts, nearest first."""
    source, *parents = sources
    parent = _world(tuple(parents)) if parents else PartialMachine()
    findings = Findings()
    spec = read_spec(read_tree(source), findings)
    language = (spec.language,) if spec.language is not None else ()
    texts = parse_texts(source, (*language, *(i.semantics for i in spec.instructions)), findings)
    if language and texts[0] is None:
        findings.raise_any()  # all else would only lack the memories of that text
    world = extend_surroundings(parent, spec, texts[0] if language else None, findings)
    own = texts[len(language) :]
    instructions = extend_instructions(world, spec.instructions, spec.remove, own, findings)
    check_inherited_room(parent, world, instructions, findings)
    check_apart((entry.built for entry in instructions.values()), world.program, findings)
    findings.raise_any()
    return replace(world, instructions=instructions)


def _price_instruction(entry: Entry, world: PartialMachine) -> MachineInstruction:
    """Return the instruction with costs that include the clock, the links and the banks of the final machine."""
    built, cost = entry.built, entry.built.cost
    if entry.clock_ghz != world.clock_ghz and entry.cost is not None:
        cost = read_cost(entry.cost, entry.row, built.instruction, world.constants, world.clock_ghz)
    # Of what passes into registers, the traffic of the memory has no other price.
    cached = {
        ends: cached_bytes_per_ns(world.memories[ends[0]], world.levels)
        for ends in world.links
        if world.memories[ends[1]].kind == "scratchpad"
    }
    bound = over_link(cost, built.instruction, world.links, cached)
    stated = cost if bound is not cost else None
    banks = [banks_of(memory, world.clock_ghz) for memory in world.memories.values()]
    bound = through_banks(bound, built.instruction, [one for one in banks if one is not None])
    return built if bound is built.cost else replace(built, cost=bound, stated=stated)


def _check_name(file: File, findings: Findings) -> None:
    name = read_tree(file.source).get("name")
    if isinstance(name, ScalarNode) and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}", name.text):
        said = f"the machine's name `{name.text[:40]}` is used in C: letters, digits, `_`, `-`, `+` and `.`"
        findings.report("not-a-name", said, name.span)
        return
    if not isinstance(name, ScalarNode) or file.path is None or name.text == file.path.stem:
        return
    findings.report(
        "name-mismatch",
        f"the machine is called `{name.text}`, but its file is {file.path.name}",
        name.span,
        "a machine is found by its file's name",
        advice=f"write `name: {file.path.stem}`, or rename the file",
    )


# What moving data takes at least, whatever an instruction's cost states: over a link, and through banks.


def over_link(
    cost: Cost,
    instruction: Instruction,
    links: Mapping[tuple[str, str], Link],
    cached: Mapping[tuple[str, str], float],
) -> Cost:
    """Return the cost of an instruction between two memories. It is at least the time of their link.

    A link of 16 bytes per ns takes 64 ns for an i8[32, 32], even if the instruction states less. If data are
    converted on the way, the bytes in the farther memory count. `cached` is the rate of the cache in front of
    a memory, or of its multicast, or 0.
    """
    inputs = [o for o in instruction.operands if o.role != "out"]
    outputs = [o for o in instruction.operands if o.role != "in"]
    if len(inputs) != 1 or len(outputs) != 1:
        return cost
    ends = {o.memory: o for o in (*inputs, *outputs) if o.memory is not None}
    for (farther, nearer), link in links.items():
        if farther in ends and nearer in ends:
            moved = ends[farther]
            amount, unit = carried_amount(link, moved, moved.shape)
            taken = _per(amount, 8 / unit * (cached.get((farther, nearer)) or link.bandwidth_bytes_per_ns))
            return replace(
                cost,
                interval_ns=_at_least(cost.interval_ns, taken),
                latency_ns=_at_least(cost.latency_ns, taken),
            )
    return cost


def through_banks(cost: Cost, instruction: Instruction, banks: Iterable[Banks]) -> Cost:
    """Return the cost of an instruction. It is at least the time of the banks of its dense operands."""
    rates = {one.memory: one.moved_per_ns for one in banks}
    for operand in instruction.operands:
        if operand.memory in rates:
            elements = reduce(mul, operand.shape, Index.of(1))
            times = 2 if operand.role == "inout" else 1  # it is read and written
            taken = _per(elements * operand.dtype.bits * times, 8 * rates[operand.memory])
            interval_ns = _at_least(cost.interval_ns, taken)
            cost = replace(cost, interval_ns=interval_ns, latency_ns=_at_least(cost.latency_ns, taken))
    return cost


def _per(index: Index, divisor: float) -> Expr:
    if index.value is not None:
        return Const(index.value / divisor, F64)
    return Call("div", (IndexValue(index, F64), Const(divisor, F64)), F64)


def _at_least(stated: Expr, least: Expr) -> Expr:
    if isinstance(stated, Const) and isinstance(least, Const):
        return stated if stated.value >= least.value else least
    return Call("max", (stated, least), F64)
