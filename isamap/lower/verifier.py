"""Verify lowered programs: all names are declared, and all numbers are within their limits.

    check_program(program, machine)   ->  ("load_zmm_f32 reads v7, which is declared nowhere around it",)

It checks only the structure of a program, which is fast enough to run after every pass.
`isamap.lower.touched` checks the accesses of issues once, with numbers.

The verifier of a nest's steps checks that each step has a place from which nodes can be built.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import assert_never

from isamap.ir import Const, Expr, Index, Instruction
from isamap.lower import program as lir
from isamap.lower.steps import Copies, Hold, Issues, LoopNode, PackedOperand, ThreadLoops, Tree, Unroll
from isamap.machine import Machine
from isamap.plan.schedule import Stage
from isamap.source.records import dataclass
from isamap.transform import reads, symbols

Said = Iterator[str]


def check_program(program: lir.LoweredProgram, machine: Machine) -> tuple[str, ...]:
    """Return a sentence for each structural error of a program, or ()."""
    return tuple(_program(program, machine))


@dataclass(frozen=True, slots=True)
class _Around:
    """The names in scope at a node: symbols with values, arrays, declared values, and work that was started."""

    machine: Machine
    symbols: frozenset[str]
    arrays: Mapping[str, lir.Tensor | lir.Buffer]
    values: Mapping[str, lir.Value]
    begun: Set[str] = frozenset()
    in_parallel: bool = False


def _program(program: lir.LoweredProgram, machine: Machine) -> Said:
    if program.machine != machine.name:
        yield f"the program is for {program.machine}, not for {machine.name}"
    arrays = [*program.tensors, *program.buffers]
    names = [array.name for array in arrays]
    yield from (
        f"there are two arrays called {name}" for name in sorted({n for n in names if names.count(n) > 1})
    )
    sizes = frozenset(name for name, _, _ in program.symbols)
    given = sizes.union(*(s.symbols for tensor in program.tensors for s in tensor.strides))
    for array in arrays:
        yield from _array(array, sizes, machine)
    around = _Around(machine, given, {array.name: array for array in arrays}, {})
    yield from (said for condition in program.checks for said in _condition(condition, around))
    yield from _nodes(program.body, around)
    for pack in program.packs:
        yield from (f"{pack.name}: {said}" for said in _program(pack, machine))


def _array(array: lir.Tensor | lir.Buffer, sizes: frozenset[str], machine: Machine) -> Said:
    shape = array.shape if isinstance(array, lir.Tensor) else (array.elements,)
    for extent in shape:
        if extent.value is not None and extent.value < 1:
            yield f"{array.name} has {extent} elements along an axis"
        yield from _unknown(extent, sizes, f"the size of {array.name}")
    if isinstance(array, lir.Tensor):
        if len(array.strides) != len(array.shape):
            yield f"{array.name} has {len(array.shape)} axes and {len(array.strides)} strides"
        return
    if array.offset is not None and array.offset < 0:
        yield f"{array.name} begins at {array.offset}"
    if array.life is not None and array.life[0] > array.life[1]:
        yield f"{array.name} ends before it begins"
    if array.memory and array.memory not in machine.memories:
        yield f"{array.name} lies in {array.memory}, a memory that {machine.name} has not"


# --- nodes ------------------------------------------------------------------------------------------------


def _nodes(nodes: Iterable[lir.Node], around: _Around) -> Said:
    """Yield the errors in nodes. Each node sees the values that the previous ones declare."""
    values, begun = dict(around.values), set(around.begun)
    here = _Around(around.machine, around.symbols, around.arrays, values, begun, around.in_parallel)
    for node in nodes:
        match node:
            case lir.Issue():
                yield from _issue(node, here)
            case lir.Configure():
                yield from _configure(node, here)
            case lir.Fill(buffer, offset, elements):
                yield from _place("what zeros are written to", buffer, (offset, elements), here)
                yield from _check_written("what zeros are written to", buffer, here)
            case lir.Hint(instruction, operand, place):
                yield from _hint(instruction, operand, place, here)
            case lir.Barrier(level):
                if level not in {one.name for one in here.machine.levels}:
                    yield f"a barrier is of {level}, which is not a level of {here.machine.name}"
            case lir.ProductGroup(in_flight):
                if not here.machine.levels or (in_flight or 0) < 0:
                    yield f"a wait for all but {in_flight} groups of products of {here.machine.name}"
            case lir.Declare(declared):
                yield from (said for value in declared for said in _check_declared(value, here))
                values |= {value.name: value for value in declared}
            case lir.For(variable, trips, body):
                yield from _loop(((variable, trips),), body, here, here.in_parallel)
            case lir.Parallel(counters, body):
                if here.in_parallel and not node.level:
                    yield f"parallel {', '.join(v for v, _ in counters)} stands inside another parallel loop"
                yield from _loop(counters, body, _Around(here.machine, here.symbols, here.arrays, {}), True)
            case lir.If(conditions, body):
                yield from (said for condition in conditions for said in _condition(condition, here))
                yield from _nodes(body, here)
            case lir.Block(_, body):
                yield from _nodes(body, here)
            case lir.Begin(work, pieces, trips):
                yield from _unknown(pieces, here.symbols, f"how many pieces {work} has")
                yield from _unknown(trips, here.symbols, f"into how many shares {work} is cut")
                begun |= {work}
            case lir.WorkSlice():
                yield from _share(node, here)
            case _:
                assert_never(node)


def _loop(
    counters: Iterable[tuple[str, Index]], body: Iterable[lir.Node], around: _Around, in_parallel: bool
) -> Said:
    known = around.symbols
    for variable, trips in counters:
        if variable in known:
            yield f"the loop over {variable} stands where {variable} is known already"
        if trips.value is not None and trips.value < 1:
            yield f"the loop over {variable} runs {trips} times"
        yield from _unknown(trips, around.symbols, f"how often {variable} counts")
        known |= {variable}
    yield from _nodes(
        body, _Around(around.machine, known, around.arrays, around.values, around.begun, in_parallel)
    )


def _share(node: lir.WorkSlice, around: _Around) -> Said:
    if node.work not in around.begun:
        yield f"a share of {node.work} stands where that has not begun"
    for what, index in (("which", node.now), ("of how many", node.trips)):
        yield from _unknown(index, around.symbols, f"{what} share of {node.work} it is")
    if len(node.depths) != len(node.body):
        yield f"{node.work} has {len(node.body)} parts, and counts pieces of {len(node.depths)}"
    yield from _nodes(node.body, around)


def _condition(condition: lir.Condition, around: _Around) -> Said:
    left, comparison, right = condition
    yield from _unknown(left, around.symbols, f"the condition {left} {comparison} {right}")
    yield from _unknown(right, around.symbols, f"the condition {left} {comparison} {right}")


def _check_declared(value: lir.Value, around: _Around) -> Said:
    memory = around.machine.memories.get(value.memory)
    if value.name in around.values:
        yield f"{value.name} is declared where it is declared already"
    if memory is None or memory.kind != "registers":
        yield f"{value.name} lies in {value.memory}, which is not a register memory of {around.machine.name}"
        return
    if any(extent < 1 for extent in value.shape):
        yield f"{value.name} has the shape {value.shape}"
    if value.register is not None and not 0 <= value.register <= (memory.count or 0) - value.registers:
        yield f"{value.name} is in {value.memory}{value.register}, of {memory.count or 0} registers"


# --- issues -----------------------------------------------------------------------------------------------


def _issue(issue: lir.Issue, around: _Around) -> Said:
    name = issue.instruction
    item = around.machine.instructions.get(name)
    if item is None:
        yield f"{name} is not an instruction of {around.machine.name}"
        return
    instruction = item.instruction
    given = [operand for operand, _ in issue.operands]
    needed = [operand.name for operand in instruction.operands if operand.role != "temp"]
    if sorted(given) != sorted(needed):
        yield f"{name} takes the operands {', '.join(needed)}, not {', '.join(given)}"
        return
    for operand, ref in issue.operands:
        known = instruction.operand(operand)
        yield from _operand(f"{operand} of {name}", ref, known.memory or "", around)
        if known.role != "in" and isinstance(ref, lir.MemoryRef):
            yield from _check_written(f"{operand} of {name}", ref.buffer, around)
    params = {param.name for param in instruction.params}
    named = [param for param, _ in issue.params]
    if len(set(named)) != len(named) or not set(named) <= params:
        yield f"{name} takes the parameters {', '.join(sorted(params)) or 'none'}, not {', '.join(named)}"
    for param, argument in issue.params:
        yield from _argument(f"{param} of {name}", argument, around)


def _operand(what: str, ref: lir.OperandRef, memory: str, around: _Around) -> Said:
    """Return the errors in an operand that lies in a memory, or in a view of it."""
    match ref:
        case lir.RegisterRef(name):
            value = around.values.get(name)
            if value is None:
                yield f"{what} is {name}, which is declared nowhere around it"
            elif _base(value.memory, around.machine) != _base(memory, around.machine):
                yield f"{what} lies in {memory}, and {name} in {value.memory}"
        case lir.MemoryRef(buffer, offset, strides):
            if memory in around.machine.memories and around.machine.memories[memory].kind == "registers":
                yield f"{what} lies in registers, and is given as a place in {buffer}"
            yield from _place(what, buffer, (offset, *strides), around)


def _place(what: str, buffer: str, numbers: Iterable[Index], around: _Around) -> Said:
    if buffer not in around.arrays:
        yield f"{what} is in {buffer}, which is not an array of the program"
    for number in numbers:
        yield from _unknown(number, around.symbols, f"{what}, in {buffer},")


def _check_written(what: str, buffer: str, around: _Around) -> Said:
    array = around.arrays.get(buffer)
    if isinstance(array, lir.Tensor) and array.role == "in":
        yield f"{what} is in {buffer}, which the caller passes to be read"


def _argument(what: str, argument: lir.Argument, around: _Around) -> Said:
    match argument:
        case int() | Const():
            pass
        case Index():
            yield from _unknown(argument, around.symbols, what)
        case _:
            yield from _expression(what, argument, around)


def _expression(what: str, value: Expr, around: _Around) -> Said:
    for read in reads(value):
        if read.buffer not in around.arrays:
            yield f"{what} reads {read.buffer}, which is not an array of the program"
    missing = symbols(value) - around.symbols
    if missing:
        yield f"{what} depends on {', '.join(sorted(missing))}, which nothing around it counts"


def _hint(instruction: str, operand: str, place: lir.MemoryRef, around: _Around) -> Said:
    item = around.machine.hints.get(instruction)
    if item is None:
        yield f"{instruction} is not a hint of {around.machine.name}"
    elif operand not in {o.name for o in item.instruction.operands}:
        yield f"{instruction} has no operand {operand}"
    yield from _place(f"{operand} of {instruction}", place.buffer, (place.offset, *place.strides), around)


def _configure(node: lir.Configure, around: _Around) -> Said:
    name, item = node.instruction, around.machine.instructions.get(node.instruction)
    state = around.machine.states.get(node.state)
    if item is None or state is None:
        yield f"{name} or the state {node.state} is not of {around.machine.name}"
        return
    own: Instruction = item.instruction
    if node.state not in (own.releases_state if node.release else own.sets_state):
        yield f"{name} does not {'release' if node.release else 'set'} {node.state}"
    counts = {f.name: f.count for f in state.decl.fields}
    for field, number, _ in node.fields:
        if field not in counts:
            yield f"{node.state} has no field {field}"
        elif (number is None) != (counts[field] is None) or (number or 0) not in range(counts[field] or 1):
            yield f"{node.state} has no {field}[{number}]"


def _base(memory: str, machine: Machine) -> str:
    """Return the memory that a view lies on, or the memory itself."""
    found = machine.memories.get(memory)
    while found is not None and found.base is not None:
        memory, found = found.base, machine.memories.get(found.base)
    return memory


def _unknown(index: Index, known: frozenset[str], what: str) -> Said:
    missing = index.symbols - known
    if missing:
        yield f"{what} depends on {', '.join(sorted(missing))}, which nothing around it counts"


def check_tree(tree: Tree) -> tuple[str, ...]:
    """Return a sentence for each error in the steps of a nest, or ()."""
    return tuple(f"nest {tree.schedule.statement}: {said}" for said in _steps(tree))


def _steps(tree: Tree) -> Iterator[str]:
    """Yield the errors of steps, from the outside inward. `depth` is the number of loops around."""
    depth, is_held, staged = 0, False, set[str]()
    for place, step in enumerate(tree.steps):
        match step:
            case PackedOperand(stage) | Copies(stage):
                yield from _check_staged(tree, stage, depth, staged)
                staged.add(stage.operand)
            case ThreadLoops(loops):
                if depth or is_held or loops != tree.schedule.loops[: len(loops)]:
                    yield "the loops whose iterations are distributed over threads are not its outermost"
                depth = len(loops)
            case LoopNode():
                yield from _iterations(tree, step, depth)
                depth = step.number + 1
            case Hold(unrolled):
                if is_held or tree.tile.accumulator is None:
                    yield "it holds what it does not sum, or holds it twice"
                is_held = True
                yield from _check_unrolled(tree, unrolled, depth)
            case Issues(unrolled):
                yield from _check_unrolled(tree, unrolled, depth)
                if place + 1 < len(tree.steps):
                    yield "something stands inside its issues"
            case _:
                assert_never(step)
    if not tree.steps or not isinstance(tree.steps[-1], Issues):
        yield "it issues nothing"


def _check_staged(tree: Tree, stage: Stage, depth: int, staged: set[str]) -> Iterator[str]:
    tile = tree.tile
    known = {o.name for o in (tile.accumulator, *tile.inputs) if o is not None}
    owner = stage.operand.partition(".")[0] if stage.packed else stage.operand
    if owner not in known:
        yield f"`{stage.operand}` is staged, and is not an operand of {tile.mapping.instruction}"
    if stage.operand in staged:
        yield f"`{stage.operand}` is staged twice"
    if stage.depth != depth:
        yield f"`{stage.operand}` is staged inside {depth} loops, not {stage.depth}"


def _iterations(tree: Tree, step: LoopNode, depth: int) -> Iterator[str]:
    loop = step.loop
    if step.number != depth or tree.schedule.loops[depth : depth + 1] != (loop,):
        yield f"loop {step.number} over {loop.axis} stands inside {depth} loops"
    if loop.step < 1 or loop.axis not in {axis.name for axis in tree.tile.axes}:
        yield f"loop {step.number} goes by {loop.step} along {loop.axis}"
    inside = [s for s in tree.steps if isinstance(s, Copies)]
    if any(c not in inside or c.slots < 2 or c.stage.depth != step.number + 1 for c in step.carried):
        yield f"loop {step.number} carries what is not staged inside it for several iterations"
    if any(hint.depth != step.number + 1 for hint in step.hints):
        yield f"loop {step.number} prefetches what stands elsewhere"


def _check_unrolled(tree: Tree, unrolled: tuple[Unroll, ...], depth: int) -> Iterator[str]:
    for one in unrolled:
        loop = tree.schedule.loops[one.number : one.number + 1]
        if one.number < depth or [(s.axis, s.step) for s in loop] != [(one.axis, one.step)]:
            yield f"loop {one.number} over {one.axis} is unrolled elsewhere"
        if one.block is not None and one.block.axis != one.axis:
            yield f"loop {one.number} over {one.axis} has blocks of {one.block.axis}"
