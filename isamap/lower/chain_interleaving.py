"""Interleave dependence chains of issues, so that none waits for its own latency.

    load v0; exp v1 of v0; tanh v2 of v1; store v2      load v0; load v3; exp v1 of v0; exp v4 of v3;
    load v3; exp v4 of v3; tanh v5 of v4; store v5  ->  tanh v2 of v1; tanh v5 of v4; store v2; store v5

An out-of-order core overlaps the chains within its window. A function of dozens of operations fills the
window, so two consecutive functions take their latencies instead of their intervals. Registers limit the
number of interleaved chains: values that several chains read stay in registers, chains use half of the
others, and intermediate results the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from isamap.ir import Index
from isamap.lower.program import Declare, Issue, LoweredProgram, MemoryRef, Node, Value
from isamap.lower.software_pipeline import ACCESSES, file_of, time_of
from isamap.lower.walk import children, issues_in, with_children
from isamap.machine import Machine
from isamap.source.records import dataclass, replace
from isamap.transform import reads

MOST = 8
"""Chains side by side: beyond them nothing was gained."""
LONG = 16
"""Intervals of the program's shortest issue in one that is many operations: a window holds few of those."""


@dataclass(frozen=True, slots=True)
class IssueEffects:
    """The values and arrays that an issue reads and writes, and whether it is a long function."""

    reads: frozenset[str]
    writes: frozenset[str]
    loads: frozenset[str]
    stores: frozenset[str]
    is_long: bool


@dataclass(frozen=True, slots=True)
class Core:
    """The machine, and the interval above which an issue counts as a long function. Units: nanoseconds."""

    machine: Machine
    long_ns: float


def side_by_side(program: LoweredProgram, machine: Machine) -> LoweredProgram:
    """Return the program with dependence chains of long functions interleaved. Other code is unchanged."""
    issues = [issue for issue in issues_in(program.body) if isinstance(issue, Issue)]
    times = {one.instruction: _interval_ns(one, machine) for one in issues}
    shortest = min((t for t in times.values() if t > 0), default=0.0)
    if max(times.values(), default=0.0) < LONG * shortest:
        return program
    return replace(program, body=_nodes(program.body, Core(machine, LONG * shortest)))


def _interval_ns(issue: Issue, machine: Machine) -> float:
    return time_of(machine.instructions[issue.instruction], issue, machine, latency=False)


def _nodes(nodes: tuple[Node, ...], core: Core) -> tuple[Node, ...]:
    found: list[Node] = []
    run: list[Declare | Issue] = []
    for node in nodes:
        if isinstance(node, Declare | Issue):
            run.append(node)
            continue
        found += _side_by_side(run, core)
        run = []
        found.append(with_children(node, _nodes(children(node), core)))
    return (*found, *_side_by_side(run, core))


def _side_by_side(run: Sequence[Declare | Issue], core: Core) -> Sequence[Node]:
    """Return straight-line code with its dependence chains interleaved in groups."""
    issues = [node for node in run if isinstance(node, Issue)]
    touched = [_touched_places(issue, core) for issue in issues]
    values = {value.name: value for node in run if isinstance(node, Declare) for value in node.values}
    chains = list(_chains(touched))
    if not any(_waits(chain, touched) for chain in chains) or not _may_move(touched, values, core.machine):
        return run
    most = _most(chains, touched, values, core.machine)
    groups = (chains[n : n + most] for n in range(0, len(chains), most))
    order = [n for group in groups for n in _by_level([n for chain in group for n in chain], touched)]
    written = {name for one in touched for name in one.writes}
    outer = tuple(value for name, value in values.items() if name not in written)
    found: list[Node] = [Declare(outer)] if outer else []
    for n in order:
        own = tuple(values[name] for name in sorted(touched[n].writes))
        found += (Declare(own), issues[n]) if own else (issues[n],)
    return found


def _touched_places(issue: Issue, core: Core) -> IssueEffects:
    instruction = core.machine.instructions[issue.instruction].instruction
    values: tuple[set[str], set[str]] = set(), set()
    arrays: tuple[set[str], set[str]] = set(), set()
    for name, ref in issue.operands:
        where, thing = (arrays, ref.buffer) if isinstance(ref, MemoryRef) else (values, ref.value)
        for things, does in zip(where, ACCESSES[instruction.operand(name).role], strict=True):
            things.update({thing} if does else ())
    arrays[0].update(r.buffer for _, v in issue.params if not isinstance(v, int | Index) for r in reads(v))
    is_long = _interval_ns(issue, core.machine) >= core.long_ns
    (reading, writing), (loading, storing) = values, arrays
    return IssueEffects(
        frozenset(reading), frozenset(writing), frozenset(loading), frozenset(storing), is_long
    )


def _may_move(touched: Sequence[IssueEffects], values: Mapping[str, Value], machine: Machine) -> bool:
    """Return whether code may be reordered: no array is read and written, and each value is written once.

    The C compiler must name the registers of all values, and all values must be declared in this code.
    """
    written = [name for one in touched for name in one.writes]
    loads = {name for one in touched for name in one.loads}
    stores = {name for one in touched for name in one.stores}
    numbered = any(machine.memories[value.memory].named == "immediate" for value in values.values())
    once = len(set(written)) == len(written) and set(written) <= values.keys()
    return once and not numbered and not loads & stores


def _chains(touched: Sequence[IssueEffects]) -> Iterator[list[int]]:
    """Yield the chains of issues, each of which ends with an issue that writes memory."""
    chain: list[int] = []
    for number, one in enumerate(touched):
        chain.append(number)
        if one.stores:
            yield chain
            chain = []
    if chain:
        yield chain


def _waits(chain: Sequence[int], touched: Sequence[IssueEffects]) -> bool:
    """Return whether a chain has a long function that depends on another long function of the chain."""
    behind: set[str] = set()
    for one in (touched[n] for n in chain):
        waits = bool(one.reads & behind)
        if one.is_long and waits:
            return True
        if one.is_long or waits:
            behind |= one.writes
    return False


def _most(
    chains: Sequence[Sequence[int]],
    touched: Sequence[IssueEffects],
    values: Mapping[str, Value],
    machine: Machine,
) -> int:
    """Return the number of chains to interleave: they use half of the registers that shared values leave free."""
    last = {name: n for n, one in enumerate(touched) for name in one.reads}
    own = {
        name
        for chain in chains
        for n in chain
        for name in touched[n].writes
        if last.get(name, n) <= chain[-1]
    }
    files = {name: file_of(machine, value.memory) for name, value in values.items()}
    taken = {name: value.registers for name, value in values.items()}
    common = _alive([one.writes - own for one in touched], range(len(touched)), last, files, taken)
    most = MOST
    for chain in chains:
        alive = _alive([one.writes & own for one in touched], chain, last, files, taken)
        for file, needed in alive.items():
            if count := machine.memories[file].count:
                most = min(most, max(1, min(count // 2, count - common.get(file, 0)) // needed))
    return most


def _alive(
    writes: Sequence[frozenset[str]],
    chain: Iterable[int],
    last: Mapping[str, int],
    files: Mapping[str, str],
    taken: Mapping[str, int],
) -> dict[str, int]:
    """Return the most registers of each file that are in use at once. `taken` has the registers of each value."""
    alive: dict[str, set[str]] = {}
    most: dict[str, int] = {}
    for n in chain:
        for name in writes[n]:
            alive.setdefault(files[name], set()).add(name)
        for file, names in alive.items():
            most[file] = max(most.get(file, 1), sum(taken[name] for name in names))
            names -= {name for name in names if last.get(name, n) <= n}
    return most


def _by_level(group: Sequence[int], touched: Sequence[IssueEffects]) -> list[int]:
    """Return the issues sorted by their depth in dependence chains.

    An issue without inputs stands directly before its reader. Issues that write memory come last, in order.
    """
    level: dict[int, int] = {}
    maker = {name: n for n in group for name in touched[n].writes}
    for n in group:
        before = [level[maker[name]] for name in touched[n].reads if name in maker]
        level[n] = max(before, default=-1) + 1
    least: dict[int, int] = {}
    for n in group:
        for name in touched[n].reads & maker.keys():
            least[maker[name]] = min(least.get(maker[name], level[n]), level[n])
    top = max(level.values(), default=0)

    def key(n: int) -> tuple[float, int]:
        if touched[n].stores:
            return top + 1, n
        return (least[n] - 0.5 if level[n] == 0 and n in least else level[n]), n

    return sorted(group, key=key)
