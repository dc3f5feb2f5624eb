"""Lint warnings about a machine: unreachable memories, missing links, odd costs, duplicates.

    weights: registers, and no instruction writes them   ->   every mapping that needs them is refused

A machine with warnings loads and can be used. `isamap hw check` prints the warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from math import prod

from isamap.ir import Assign, Call, Cast, Const, Expr, Instruction, Loop, Operand, Read, Stmt
from isamap.ir.printer import print_expr, print_routine
from isamap.ir.walk import walk
from isamap.machine.costs import cost_value, is_allowed, names_in, parameter_ranges
from isamap.machine.encoding_checks import odd_units
from isamap.machine.model import Link, Machine, MachineInstruction, Memory
from isamap.source import Diagnostic, Span, dataclass, replace

# --- duplicates -----------------------------------------------------------------------------------------

# Find duplicate instructions: those for which another one does the same in the same memories, not slower.


_WORD = re.compile(r"(?<!@ )\b[A-Za-z_][A-Za-z_0-9]*\b")


def find_duplicates(machine: Machine) -> Iterator[Diagnostic]:
    """Yield a warning for each instruction that is never chosen, since an equivalent one is at least as fast."""
    known: dict[str, MachineInstruction] = {}
    for item in machine.instructions.values():
        other = known.setdefault(_canonical_text(item.instruction), item)
        if other is item:
            continue
        first, second = ([i.cost.interval_ns, i.cost.latency_ns] for i in (other, item))
        if _at_least(second, first):
            yield _twin(item, other)
        elif _at_least(first, second):
            yield _twin(other, item)


def _twin(slower: MachineInstruction, faster: MachineInstruction) -> Diagnostic:
    return Diagnostic(
        "duplicate-instruction",
        f"`{slower.name}` duplicates `{faster.name}` and is not faster: it is never chosen",
        slower.span,
        severity="warning",
        help="leave one out, or correct its meaning or cost",
    )


def _canonical_text(instruction: Instruction) -> str:
    """Return an instruction's meaning as text with canonical names, so that equal meanings are equal texts."""
    own = {o.name for o in instruction.operands} | {p.name for p in instruction.params}
    own |= {let.name for let in instruction.lets} | {a for s in instruction.body for a in _axes(s)}
    numbers = count()
    names: dict[str, str] = {}

    def rename(found: re.Match[str]) -> str:
        word = found[0]
        return names.setdefault(word, f"_{next(numbers)}") if word in own else word

    return _WORD.sub(rename, print_routine(replace(instruction, name="_")))


def _axes(statement: Stmt) -> Iterator[str]:
    if isinstance(statement, Assign):
        return
    yield from (axis.name for axis in statement.axes)
    for inner in statement.body:
        yield from _axes(inner)


def _at_least(one: list[Expr], other: list[Expr]) -> bool:
    """Return whether a time is at least another one. Two expressions are comparable only if they are equal."""
    return all(
        a.value >= b.value
        if isinstance(a, Const) and isinstance(b, Const)
        else print_expr(a) == print_expr(b)
        for a, b in zip(one, other, strict=True)
    )


# --- lint -----------------------------------------------------------------------------------------------


# --- cost lint ------------------------------------------------------------------------------------------

# Warn about costs below the hardware's limits: a unit's peak, a link's bandwidth, equal costs of more work.
#
# execute: {count: 1, products_per_cycle: 1024}
# c: i32[256, 32] += a[256, 32] * b[32, 32]        262144 products in 1 cycle   ->   told


_SLACK = 1.01  # what rounding in a description may come to


def find_cost_warnings(machine: Machine) -> Iterator[Diagnostic]:
    """Yield a warning for each instruction with an implausible cost."""
    told: set[tuple[str, Span | None]] = set()
    for item in machine.instructions.values():
        found = _beats_unit(item, machine) or _ignores_size(item, machine) or _beats_link(item, machine)
        found = found or _ends_early(item, machine)
        if found is not None and (found.code, found.span) not in told:  # once for each family
            told.add((found.code, found.span))
            yield found


def _beats_unit(item: MachineInstruction, machine: Machine) -> Diagnostic | None:
    """Return a warning if an instruction performs more products in its interval than one copy of its unit can."""
    unit = machine.units[item.cost.unit]
    if unit.products_per_cycle is None or machine.clock_ghz is None:
        return None
    for at in _allowed_corners(item, machine):
        products = _products(item, at)
        cycles = cost_value(item.cost.interval_ns, at) * machine.clock_ghz
        if products > _SLACK * cycles * unit.products_per_cycle:
            needed = products / unit.products_per_cycle
            return _warning_cost_lint(
                "cost-beats-unit", item,
                f"`{item.name}` does {products} products in {cycles:g} cycles{_where(item, at)}; "
                f"`{unit.name}` does {unit.products_per_cycle} in one",
                f"state an interval of {needed:g} cycles or more, or correct `products_per_cycle`",
            )  # fmt: skip
    return None


def _ignores_size(item: MachineInstruction, machine: Machine) -> Diagnostic | None:
    """Return a warning if the scheduler could choose more work for the same time.

    Registers bound the work of an issue; rows that are streamed from a memory have no bound in hardware.
    """
    streamed = [o for o in item.instruction.operands if o.memory and _is_streamed(machine.memories[o.memory])]
    lengths = {name for o in streamed for extent in o.shape for name in extent.symbols}
    chosen = {p.name for p in item.instruction.params if p.kind == "choose" and p.name in lengths}
    least, most = find_corners(item, machine)
    if not chosen or chosen & names_in(item.cost.interval_ns):
        return None
    few, many = (_products(item, least | {n: at[n] for n in chosen}) for at in (least, most))
    if few >= many:
        return None
    return _warning_cost_lint(
        "cost-ignores-size", item,
        f"`{item.name}` takes the same time for {few} products and for {many}, whatever "
        f"{' and '.join(sorted(chosen))} is",
        f"let its interval depend on it, as in `interval_cycles: {min(chosen)}`",
    )  # fmt: skip


def _is_streamed(memory: Memory) -> bool:
    return memory.kind != "registers"


def _beats_link(item: MachineInstruction, machine: Machine) -> Diagnostic | None:
    """Return a warning if the stated time of a copy is less than its link needs for the bytes."""
    if item.stated is None:
        return None
    for at in _allowed_corners(item, machine)[-1:]:
        stated, counted = (cost_value(cost.interval_ns, at) for cost in (item.stated, item.cost))
        if counted > _SLACK * stated:
            return _warning_cost_lint(
                "cost-beats-link", item,
                f"`{item.name}` states {stated:g} ns{_where(item, at)}; its link needs {counted:g} ns for "
                "the bytes",
                f"{counted:g} ns count: correct the cost, or the link's `bandwidth_bytes_per_ns`",
            )  # fmt: skip
    return None


def _ends_early(item: MachineInstruction, machine: Machine) -> Diagnostic | None:
    """Return a warning if results are available before all copies of the unit together can have computed them."""
    unit = machine.units[item.cost.unit]
    if all(o.role == "in" for o in item.instruction.operands):
        return None
    cost = item.stated or item.cost
    for at in _allowed_corners(item, machine):
        interval, latency = (cost_value(part, at) for part in (cost.interval_ns, cost.latency_ns))
        if interval > _SLACK * latency * unit.count:
            return _warning_cost_lint(
                "cost-ends-early", item,
                f"`{item.name}` has its result after {latency:g} ns{_where(item, at)}, and keeps "
                f"`{unit.name}` busy for {interval:g} ns",
                "state a latency of at least the interval, or the interval for which the unit is busy",
            )  # fmt: skip
    return None


def _warning_cost_lint(code: str, item: MachineInstruction, said: str, advice: str) -> Diagnostic:
    return Diagnostic(code, said, item.span, severity="warning", help=advice)


def find_corners(item: MachineInstruction, machine: Machine) -> tuple[dict[str, int], dict[str, int]]:
    """Return the parameters at their least and at their greatest values. Machine constants have typical values."""
    usual = {p.name: p.default for p in machine.constants if p.default is not None}
    ranges = parameter_ranges(item.instruction, machine.constants)
    least = {name: low for name, low, _ in ranges} | usual
    return least, {name: high for name, _, high in ranges} | usual


def _allowed_corners(item: MachineInstruction, machine: Machine) -> list[dict[str, int]]:
    """Return the least and the greatest parameters, if `where` allows them. Costs need not be numbers elsewhere."""
    return [at for at in find_corners(item, machine) if is_allowed(at, item.instruction.where)]


def _where(item: MachineInstruction, at: Mapping[str, int]) -> str:
    shown = ", ".join(f"{p.name} = {at[p.name]}" for p in item.instruction.params if p.name in at)
    return f" at {shown}" if shown else ""


def _products(item: MachineInstruction, at: Mapping[str, int]) -> int:
    """Return how many multiplications one issue performs. Guarded multiplications are not counted."""
    at = {**at, **{let.name: let.value.evaluate(at) for let in item.instruction.lets}}
    return sum(_in_statement(statement, at) for statement in item.instruction.body)


def _in_statement(statement: Stmt, at: Mapping[str, int]) -> int:
    if statement.guard is not None:
        return 0
    if isinstance(statement, Loop):
        iterations = prod(max(0, axis.extent.evaluate(at)) for axis in statement.axes)
        return iterations * sum(_in_statement(inner, at) for inner in statement.body)
    return _in_value(statement.value) + (statement.op == "mul")


def _in_value(value: Expr) -> int:
    return sum(isinstance(part, Call) and part.op == "mul" for part in walk(value))


# --- lint -----------------------------------------------------------------------------------------------


def find_warnings(machine: Machine) -> Iterator[Diagnostic]:
    """Yield a warning for each unreachable memory, missing link, implausible cost and duplicate instruction."""
    files = {name: _file(name, machine) for name in machine.memories}
    flows = [_Flow.of(item, files) for item in (*machine.instructions.values(), *machine.hints.values())]
    yield from _memory_warnings(machine, flows, files)
    described = replace(
        machine, instructions={n: i for n, i in machine.instructions.items() if not i.made_of}
    )
    yield from _tiles_without_room(described)
    yield from _missing_links(described, files)
    yield from _odd_bandwidths(machine)
    yield from odd_units(described)
    yield from find_cost_warnings(described)
    yield from find_duplicates(described)


@dataclass(frozen=True, slots=True)
class _Flow:
    """The memories that an instruction reads and writes. A view counts as the memory that it lies on."""

    reads: frozenset[str]
    writes: frozenset[str]
    fresh: frozenset[str]  # written without being read

    @staticmethod
    def of(item: MachineInstruction, files: Mapping[str, str]) -> _Flow:
        def held(*roles: str) -> frozenset[str]:
            operands = item.instruction.operands
            return frozenset(files[o.memory] for o in operands if o.memory is not None and o.role in roles)

        return _Flow(held("in", "inout"), held("out", "inout"), held("out"))


def _file(name: str, machine: Machine) -> str:
    """Return the memory that a view lies on, or the memory itself."""
    base = machine.memories[name].base
    return name if base is None else _file(base, machine)


def _memory_warnings(machine: Machine, flows: list[_Flow], files: Mapping[str, str]) -> Iterator[Diagnostic]:
    homes = [n for n, m in machine.memories.items() if m.kind == "addressable"]
    kept = [n for n, m in machine.memories.items() if m.kind in ("registers", "scratchpad") and files[n] == n]
    used = {name for flow in flows for name in flow.reads | flow.writes}
    filled = {name for flow in flows for name in flow.fresh}
    emptied = {name for flow in flows for name in flow.reads if flow.writes - {name}}
    for name in kept:
        if name not in used:
            yield _warn(
                machine, name, "memory-unused", f"no instruction uses `{name}`",
                "describe such an instruction, or remove the memory",
            )  # fmt: skip
        elif name not in filled:
            yield _warn(
                machine, name, "memory-unfilled", f"no instruction fills `{name}`: it is always empty",
                "describe an instruction that loads it, or that writes numbers to it",
            )  # fmt: skip
        elif name not in emptied:
            yield _warn(
                machine, name, "memory-unemptied",
                f"nothing leaves `{name}`: no instruction moves data out of it",
                "describe an instruction that stores it",
            )  # fmt: skip
    # What a memory lacks was said of it, and is not of all that depends on it.
    reached = _find_reached({*homes, *(n for n in kept if n not in filled)}, flows)
    leaving = _find_sources({*homes, *(n for n in kept if n not in emptied)}, flows)
    home = f"`{homes[0]}`" if homes else "kernels' tensors"
    if cut_off := [n for n in kept if n in filled and n not in reached]:
        found = f"no data from {home} reaches {_join_names(cut_off)}"
        said = f"{found}: all that fill it read memories that are never filled"
        yield _warn(
            machine, cut_off[0], "memory-unfilled", said, "describe an instruction that brings data in"
        )
    if caught := [n for n in kept if n in emptied and n not in leaving]:
        said = f"no instruction moves data of {_join_names(caught)} to {home}"
        yield _warn(
            machine, caught[0], "memory-unemptied", said, "describe an instruction that stores results"
        )


def _join_names(names: list[str]) -> str:
    shown = [f"`{name}`" for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _find_reached(start: set[str], flows: list[_Flow]) -> set[str]:
    """Return all memories that data can reach from the starting ones or from instructions without inputs."""
    found = set(start)
    while new := {n for f in flows if f.reads - f.writes <= found for n in f.writes} - found:
        found |= new
    return found


def _find_sources(start: set[str], flows: list[_Flow]) -> set[str]:
    """Return all memories from which data can reach the starting ones."""
    found = set(start)
    while new := {n for f in flows if f.writes & found for n in f.reads} - found:
        found |= new
    return found


def _warn(machine: Machine, name: str, code: str, said: str, advice: str) -> Diagnostic:
    return Diagnostic(code, said, machine.memories[name].decl.span, severity="warning", help=advice)


def _tiles_without_room(machine: Machine) -> Iterator[Diagnostic]:
    """Yield a warning for each scratchpad in which the smallest tile of an instruction does not fit."""
    told: set[str] = set()
    for item in machine.instructions.values():
        least, _ = find_corners(item, machine)
        at = {**least, **{let.name: let.value.evaluate(least) for let in item.instruction.lets}}
        for operand in item.instruction.operands:
            memory = machine.memories[operand.memory or ""]
            elements = prod(extent.evaluate(at) for extent in operand.shape)
            needed, room = -(-elements * operand.dtype.bits // 8), memory.capacity_bytes
            if memory.kind != "scratchpad" or room is None or needed <= room or memory.name in told:
                continue
            told.add(memory.name)
            yield Diagnostic(
                "memory-too-small",
                f"`{operand.name}` of `{item.name}` takes {needed} bytes, "
                f"and all of `{memory.name}` has {room}",
                item.span,
                notes=("no schedule can issue it",),
                severity="warning",
                help=f"correct `bytes` of `{memory.name}` in `language`, or make the operand smaller",
            )


# --- links ------------------------------------------------------------------------------------------------

# Eight times is what bits are of bytes; figures are rounded.
_AS_BITS = (7.0, 11.0)


def _odd_bandwidths(machine: Machine) -> Iterator[Diagnostic]:
    """Yield a warning for each link that is about eight times as fast as its neighbours, as if bits were bytes.

    Neighbours begin at the same memory. A link without one is compared with those that lead on from its end,
    which are commonly the faster ones.
    """
    for link in machine.links:
        neighbours = [o for o in machine.links if o is not link and _are_alike(o, link, machine)]
        neighbours = neighbours or [o for o in machine.links if o.source_memory == link.target_memory]
        ratios = [link.bandwidth_bytes_per_ns / o.bandwidth_bytes_per_ns for o in neighbours]
        if ratios and all(_AS_BITS[0] <= ratio <= _AS_BITS[1] for ratio in ratios):
            compared = ", ".join(
                f"{o.bandwidth_bytes_per_ns:g} from `{o.source_memory}` to `{o.target_memory}`"
                for o in neighbours
            )
            yield Diagnostic(
                "link-in-bits",
                f"the link from `{link.source_memory}` to `{link.target_memory}` carries "
                f"{link.bandwidth_bytes_per_ns:g} bytes in a ns, about {ratios[0]:.3g} times its neighbour",
                link.span,
                notes=(f"compared with {compared}",),
                severity="warning",
                help=f"if the number is in bits, write `bandwidth_bytes_per_ns: "
                f"{link.bandwidth_bytes_per_ns / 8:g}`",
            )


def _are_alike(one: Link, other: Link, machine: Machine) -> bool:
    """Return whether two links leave one memory and end in memories of one kind, with registers of equal size."""
    ends = [machine.memories[link.target_memory] for link in (one, other)]
    kinds = {(end.kind, end.register_bytes if end.kind == "registers" else None) for end in ends}
    return one.source_memory == other.source_memory and len(kinds) == 1


def _missing_links(machine: Machine, files: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield a warning for each pair of memories between which instructions copy but no links exist."""
    joined = _linked_pairs(machine)
    told: set[frozenset[str]] = set()
    for item in machine.instructions.values():
        ends = _copied_operands(item.instruction)
        if ends is None:
            continue
        source, target = (files[end.memory] for end in ends if end.memory is not None)
        kinds = {machine.memories[end].kind for end in (source, target)}
        pair = frozenset((source, target))
        if len(pair) < 2 or kinds == {"registers"} or pair in told or pair in joined:
            continue
        told.add(pair)
        yield Diagnostic(
            "link-missing",
            f"`{item.name}` copies from `{source}` to `{target}`, and no link leads there",
            item.span,
            notes=("a copy takes at least its link's time for the bytes; without a link it takes no time",),
            severity="warning",
            help=f"add `{{from: {source}, to: {target}, bandwidth_bytes_per_ns: …}}` to `links`, the memory "
            "farther from the units first",
        )


def _linked_pairs(machine: Machine) -> set[frozenset[str]]:
    """Return the pairs of memories that links connect."""
    nearer: dict[str, set[str]] = {}
    for link in machine.links:
        nearer.setdefault(link.source_memory, set()).add(link.target_memory)

    def below(name: str) -> Iterator[str]:
        for target in nearer.get(name, ()):
            yield target
            yield from below(target)

    return {frozenset((name, target)) for name in nearer for target in below(name)}


def _copied_operands(instruction: Instruction) -> tuple[Operand, Operand] | None:
    """Return the operands between which an instruction copies or converts, or None if it computes."""
    values = [value for statement in instruction.body for value in _values(statement)]
    if len(instruction.operands) != 2 or not all(isinstance(value, Read) for value in values):
        return None
    source, target = sorted(instruction.operands, key=lambda o: o.role == "out")
    known = source.memory is not None and target.memory is not None
    return (source, target) if known and (source.role, target.role) == ("in", "out") else None


def _values(statement: Stmt) -> Iterator[Expr | None]:
    """Yield the assigned values without their conversions. None represents an accumulation."""
    if isinstance(statement, Loop):
        for inner in statement.body:
            yield from _values(inner)
    else:
        value = statement.value.value if isinstance(statement.value, Cast) else statement.value
        yield value if statement.op is None else None
