"""Warn about costs below the hardware's limits: a unit's peak, a link's bandwidth, equal costs of more work.

execute: {count: 1, products_per_cycle: 1024}
c: i32[256, 32] += a[256, 32] * b[32, 32]        262144 products in 1 cycle   ->   told
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from isamap.ir import Call, Expr, Loop, Stmt
from isamap.ir.walk import walk
from isamap.machine.costs import cost_value, is_allowed, names_in, parameter_ranges
from isamap.machine.model import Machine, MachineInstruction, Memory
from isamap.source import Diagnostic, Span

_SLACK = 1.01  # what rounding in a description may come to


def find_cost_warnings(machine: Machine) -> Iterator[Diagnostic]:
    """Yield a warning for each instruction whose cost cannot be."""
    told: set[tuple[str, Span | None]] = set()
    for item in machine.instructions.values():
        found = _beats_unit(item, machine) or _ignores_size(item, machine) or _beats_link(item, machine)
        found = found or _ends_early(item, machine)
        if found is not None and (found.code, found.span) not in told:  # once for each family
            told.add((found.code, found.span))
            yield found


def _beats_unit(item: MachineInstruction, machine: Machine) -> Diagnostic | None:
    """Return where it does more products in its interval than one copy of its unit can."""
    unit = machine.units[item.cost.unit]
    if unit.products_per_cycle is None or machine.clock_ghz is None:
        return None
    for at in _allowed(item, machine):
        products = _products(item, at)
        cycles = cost_value(item.cost.interval_ns, at) * machine.clock_ghz
        if products > _SLACK * cycles * unit.products_per_cycle:
            needed = products / unit.products_per_cycle
            return _warning(
                "cost-beats-unit", item,
                f"`{item.name}` does {products} products in {cycles:g} cycles{_where(item, at)}; "
                f"`{unit.name}` does {unit.products_per_cycle} in one",
                f"state an interval of {needed:g} cycles or more, or correct `products_per_cycle`",
            )  # fmt: skip
    return None


def _ignores_size(item: MachineInstruction, machine: Machine) -> Diagnostic | None:
    """Return where the scheduler may choose more work for the same time.

    Registers bound what is worked on; rows that are streamed from a memory are not bounded by hardware.
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
    return _warning(
        "cost-ignores-size", item,
        f"`{item.name}` takes the same time for {few} products and for {many}, whatever "
        f"{' and '.join(sorted(chosen))} is",
        f"let its interval depend on it, as in `interval_cycles: {min(chosen)}`",
    )  # fmt: skip


def _is_streamed(memory: Memory) -> bool:
    return memory.kind != "registers"


def _beats_link(item: MachineInstruction, machine: Machine) -> Diagnostic | None:
    """Return where what is stated for a copy is less than its link needs for the bytes."""
    if item.stated is None:
        return None
    for at in _allowed(item, machine)[-1:]:
        stated, counted = (cost_value(cost.interval_ns, at) for cost in (item.stated, item.cost))
        if counted > _SLACK * stated:
            return _warning(
                "cost-beats-link", item,
                f"`{item.name}` states {stated:g} ns{_where(item, at)}; its link needs {counted:g} ns for "
                "the bytes",
                f"{counted:g} ns count: correct the cost, or the link's `bandwidth_bytes_per_ns`",
            )  # fmt: skip
    return None


def _ends_early(item: MachineInstruction, machine: Machine) -> Diagnostic | None:
    """Return where its results are there before all copies of its unit together can have done the work."""
    unit = machine.units[item.cost.unit]
    if all(o.role == "in" for o in item.instruction.operands):
        return None
    cost = item.stated or item.cost
    for at in _allowed(item, machine):
        interval, latency = (cost_value(part, at) for part in (cost.interval_ns, cost.latency_ns))
        if interval > _SLACK * latency * unit.count:
            return _warning(
                "cost-ends-early", item,
                f"`{item.name}` has its result after {latency:g} ns{_where(item, at)}, and keeps "
                f"`{unit.name}` busy for {interval:g} ns",
                "state a latency of at least the interval, or the interval for which the unit is busy",
            )  # fmt: skip
    return None


def _warning(code: str, item: MachineInstruction, said: str, advice: str) -> Diagnostic:
    return Diagnostic(code, said, item.span, severity="warning", help=advice)


def find_corners(item: MachineInstruction, machine: Machine) -> tuple[dict[str, int], dict[str, int]]:
    """Return the parameters at their least and at their greatest values; machine constants as they typically are."""
    usual = {p.name: p.default for p in machine.constants if p.default is not None}
    ranges = parameter_ranges(item.instruction, machine.constants)
    least = {name: low for name, low, _ in ranges} | usual
    return least, {name: high for name, _, high in ranges} | usual


def _allowed(item: MachineInstruction, machine: Machine) -> list[dict[str, int]]:
    """Return those of the corners that `where` does not rule out: costs need be numbers nowhere else."""
    return [at for at in find_corners(item, machine) if is_allowed(at, item.instruction.where)]


def _where(item: MachineInstruction, at: Mapping[str, int]) -> str:
    shown = ", ".join(f"{p.name} = {at[p.name]}" for p in item.instruction.params if p.name in at)
    return f" at {shown}" if shown else ""


def _products(item: MachineInstruction, at: Mapping[str, int]) -> int:
    """Return how many multiplications one issue performs; those under guards, which may not happen, aside."""
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
