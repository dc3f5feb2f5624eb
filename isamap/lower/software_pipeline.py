"""Reorder an innermost loop as a software pipeline: overlapped iterations, peeled prologue and epilogue.

    for k in 8: { load a[k]; fma }      load a[0]
    load in stage 0, fma in 1      ->   for k in 7: { load a[k + 1]; fma of iteration k }
                                        fma of iteration 7

The steady state of an innermost loop has the dependences of its issues, and the units that they occupy.

Units execute operations in any order. Within an iteration an operation must follow the ones whose results it
reads. Latencies count in full around a dependence cycle, such as a sum that reads its result of the previous
iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from isamap.ir import Index
from isamap.lower.program import Block, Declare, For, If, Issue, MemoryRef, Node, RegisterRef, Value
from isamap.lower.walk import rename_in, rewrite, walk
from isamap.machine import Machine, MachineInstruction, cost_params, cost_value
from isamap.match import registers_of
from isamap.plan.steady import MAX_TICKS, Dependence, LocalValue, Operation, Pipeline, Steady, check_pipeline
from isamap.source import UsageProblem, replace

ACCESSES = {"in": (True, False), "out": (False, True), "inout": (True, True)}
"""For each role of an operand, whether it is read, and whether it is written."""


def innermost_loops(nodes: tuple[Node, ...]) -> Iterator[For]:
    """Yield the loops that contain only issues."""
    for node in walk(nodes):
        if isinstance(node, For) and all(isinstance(n, Declare | Issue) for n in node.body):
            yield node


def main_loop(nodes: tuple[Node, ...]) -> For | None:
    """Return the innermost loop with the most issues, at least two, or None."""
    loops = [loop for loop in innermost_loops(nodes) if len(issues_of(loop)) > 1]
    return max(loops, key=lambda loop: len(issues_of(loop)), default=None)


def issues_of(loop: For) -> tuple[Issue, ...]:
    """Return the issues of one iteration."""
    return tuple(node for node in loop.body if isinstance(node, Issue))


def locals_of(loop: For) -> tuple[Value, ...]:
    """Return the values that each iteration declares."""
    return tuple(v for node in loop.body if isinstance(node, Declare) for v in node.values)


def steady_of(loop: For, machine: Machine) -> Steady:
    """Return the steady state of a loop that contains only issues."""
    issues = issues_of(loop)
    items = [machine.instructions[issue.instruction] for issue in issues]
    intervals = [
        time_of(item, issue, machine, latency=False) for item, issue in zip(items, issues, strict=True)
    ]
    delays = [time_of(item, issue, machine, latency=True) for item, issue in zip(items, issues, strict=True)]
    # The shortest interval, but where another operation takes thousands of these: tables grow with ticks.
    tick = max(min((t for t in intervals if t > 0), default=1.0), sum((*intervals, *delays)) / MAX_TICKS)
    operations = tuple(
        Operation(issue.instruction, item.cost.unit, max(1, round(t / tick)))
        for issue, item, t in zip(issues, items, intervals, strict=True)
    )
    latencies = [max(1, ceil(delay / tick - 1e-9)) for delay in delays]
    own = {value.name for value in locals_of(loop)}
    used = {operation.unit for operation in operations}
    return Steady(
        operations,
        (*_through_registers(issues, machine, latencies, own), *_through_memory(issues, machine)),
        tuple(_local_values(loop, machine)),
        tuple((unit.name, max(1, unit.count)) for unit in machine.units.values() if unit.name in used),
        tuple(_free_registers(issues, loop, machine)),
        tick,
    )


def time_of(item: MachineInstruction, issue: Issue, machine: Machine, *, latency: bool) -> float:
    """Return the interval or the latency of an issue. Units: nanoseconds."""
    numbers = {n: v for n, v in issue.params if isinstance(v, int)}
    numbers |= {n: v.value for n, v in issue.params if isinstance(v, Index) and v.value is not None}
    known = cost_params(item, machine, numbers)
    return cost_value(item.cost.latency_ns if latency else item.cost.interval_ns, known)


def _registers_of(issue: Issue, machine: Machine) -> Iterator[tuple[str, bool, bool]]:
    """Yield the values that an issue accesses, with flags for reads and writes."""
    instruction = machine.instructions[issue.instruction].instruction
    for name, ref in issue.operands:
        if isinstance(ref, RegisterRef):
            yield ref.value, *ACCESSES[instruction.operand(name).role]


def _through_registers(
    issues: tuple[Issue, ...], machine: Machine, latencies: list[int], own: set[str]
) -> Iterator[Dependence]:
    """Return the register dependences (read after write, write after read, write after write) of a loop."""
    history: dict[str, list[tuple[int, bool, bool]]] = {}
    for i, issue in enumerate(issues):
        for value, reads, writes in _registers_of(issue, machine):
            history.setdefault(value, []).append((i, reads, writes))
    for value, touched in history.items():
        if not any(writes for _, _, writes in touched):
            continue
        twice = [(i, r, w, 0) for i, r, w in touched] + [(i, r, w, 1) for i, r, w in touched]
        for earlier, (i, reads, writes, _) in enumerate(twice[: len(touched)]):
            for j, reads_too, writes_too, iteration in twice[earlier + 1 :]:
                if writes and reads_too and not (iteration and value in own):
                    yield Dependence(i, j, latencies[i] if iteration else 1, iteration)
                elif writes_too and (reads or writes) and i != j:
                    yield Dependence(i, j, 0 if not writes else 1, iteration)
                if writes_too:
                    break  # what comes later waits for that one


def _through_memory(issues: tuple[Issue, ...], machine: Machine) -> Iterator[Dependence]:
    """Yield the dependences between issues that access one array. They keep their order if one of them writes."""
    touched: list[tuple[int, str, bool]] = []
    for i, issue in enumerate(issues):
        instruction = machine.instructions[issue.instruction].instruction
        for name, ref in issue.operands:
            if isinstance(ref, MemoryRef):
                touched.append((i, ref.buffer, instruction.operand(name).role != "in"))
    written = {buffer for _, buffer, writes in touched if writes}
    for i, buffer, writes in touched:
        for j, other, writes_too in touched:
            if buffer == other and buffer in written and (writes or writes_too):
                yield Dependence(i, j, 1, 0 if i < j else 1)


def _local_values(loop: For, machine: Machine) -> Iterator[LocalValue]:
    issues = issues_of(loop)
    for value in locals_of(loop):
        users = [
            (i, writes)
            for i, issue in enumerate(issues)
            for name, _, writes in _registers_of(issue, machine)
            if name == value.name
        ]
        definer = next((i for i, writes in users if writes), None)
        if definer is not None:
            later = tuple(dict.fromkeys(i for i, _ in users if i != definer))
            yield LocalValue(value.name, file_of(machine, value.memory), definer, later, value.registers)


def file_of(machine: Machine, memory: str) -> str:
    """Return the register memory that a view lies on."""
    found = machine.memories[memory]
    while found.base is not None:
        found = machine.memories[found.base]
    return found.name


def _free_registers(issues: tuple[Issue, ...], loop: For, machine: Machine) -> Iterator[tuple[str, int]]:
    """Yield the number of registers that outside values leave free in each register memory of the loop."""
    own = locals_of(loop)
    names = {value.name for value in own}
    outside: dict[str, tuple[str, int]] = {}
    for issue in issues:
        instruction = machine.instructions[issue.instruction].instruction
        numbers = {n: v for n, v in issue.params if isinstance(v, int)}
        for name, ref in issue.operands:
            if isinstance(ref, RegisterRef) and ref.value not in names:
                file = file_of(machine, instruction.operand(name).memory or "")
                outside[ref.value] = file, registers_of(instruction, name, numbers)
    for memory in sorted({file_of(machine, value.memory) for value in own}):
        count = machine.memories[memory].count
        if count:
            yield memory, count - sum(taken for where, taken in outside.values() if where == memory)


def in_pipeline(nodes: tuple[Node, ...], pipeline: Pipeline, machine: Machine) -> tuple[Node, ...]:
    """Return the nodes with their main loop, and loops with the same issues, in the order of a pipeline.

    Raises: UsageProblem if it is not a pipeline of that loop.
    """
    main = main_loop(nodes)
    if main is None:
        raise UsageProblem.of(
            "schedule-pipeline",
            "no innermost loop consists of two or more issues alone, so none can be pipelined",
            help="drop the line `pipeline`",
        )
    wrong = tuple(check_pipeline(_order_only(main, machine), pipeline))
    if wrong:
        raise UsageProblem(*wrong)
    shape = [issue.instruction for issue in issues_of(main)]
    return _in_loops(nodes, shape, pipeline, machine)


def _order_only(loop: For, machine: Machine) -> Steady:
    """Return the order constraints of a loop, without costs: results are ready before they are read."""
    steady = steady_of(loop, machine)
    waits = tuple(replace(wait, delay=min(wait.delay, 1)) for wait in steady.dependences)
    return replace(steady, dependences=waits, units=(), registers=())


def _in_loops(
    nodes: tuple[Node, ...], shape: list[str], pipeline: Pipeline, machine: Machine
) -> tuple[Node, ...]:
    def change(node: Node) -> tuple[Node, ...] | None:
        is_it = isinstance(node, For) and all(isinstance(n, Declare | Issue) for n in node.body)
        if isinstance(node, For) and is_it and [n.instruction for n in issues_of(node)] == shape:
            return _pipeline_loop(node, pipeline, machine)
        return None

    return rewrite(nodes, change)


def _pipeline_loop(loop: For, pipeline: Pipeline, machine: Machine) -> tuple[Node, ...]:
    """Return the loop in the order of a pipeline, or unchanged if they do not match or iterations are too few."""
    steady = _order_only(loop, machine)
    if any(check_pipeline(steady, pipeline)):
        return (loop,)
    later = pipeline.stages - 1
    if loop.trips.value is not None and loop.trips.value < later:
        return (loop,)
    note = f"pipelined: an iteration every {pipeline.interval} ticks, {pipeline.stages} iterations in flight"
    body = Block(note, (Declare(locals_of(loop)), *_iterations(loop, pipeline, steady)))
    if loop.trips.value is not None or not later:
        return (body,)
    enough = (Index.of(later), "<=", loop.trips)
    return (If((enough,), (body,)), If(((loop.trips, "<", Index.of(later)),), (loop,)))


def _iterations(loop: For, pipeline: Pipeline, steady: Steady) -> tuple[Node, ...]:
    """Return prologue, loop and epilogue. In round v, an operation of stage s belongs to iteration v - s."""
    issues, later = issues_of(loop), pipeline.stages - 1
    order = [(issues[i], pipeline.starts[i] // pipeline.interval) for i in _order(pipeline, steady)]

    def perform(issue: Issue, iteration: Index) -> Node:
        return rename_in((issue,), {loop.variable: iteration})[0]

    prologue = [perform(op, Index.of(v - s)) for v in range(later) for op, s in order if s <= v]
    round_ = Index.of(loop.variable) + later
    steady_body = tuple(perform(op, round_ - s) for op, s in order)
    epilogue = [perform(op, loop.trips + (v - s)) for v in range(later) for op, s in order if s > v]
    rounds = loop.trips - later
    middle = (For(loop.variable, rounds, steady_body),) if rounds.value != 0 else ()
    return (*prologue, *middle, *epilogue)


def _order(pipeline: Pipeline, steady: Steady) -> list[int]:
    """Return the operations by slot within the interval. Within a slot, reads come before writes.

    Raises: UsageProblem if two operations each have to precede the other.
    """
    slots = [start % pipeline.interval for start in pipeline.starts]
    before: dict[int, set[int]] = {i: set() for i in range(len(slots))}
    for wait in steady.dependences:
        at = pipeline.starts[wait.target] + wait.distance * pipeline.interval
        if at == pipeline.starts[wait.source] and wait.source != wait.target:
            before[wait.target].add(wait.source)
    order: list[int] = []
    for slot in range(pipeline.interval):
        mine = [i for i, s in enumerate(slots) if s == slot]
        while mine:
            free = next((i for i in mine if not before[i] & set(mine)), None)
            if free is None:
                raise UsageProblem.of(
                    "schedule-pipeline",
                    f"operations {', '.join(map(str, mine))} start at one time and each overwrites what "
                    "another one reads: no order of instructions allows this",
                    help="start one of them later",
                )
            mine.remove(free)
            order.append(free)
    return order
