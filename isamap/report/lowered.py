"""Print a lowered program as text, with one line per node.

for n1 < 4
  # load c
  load_zmm_f32 z = v0, a = C + 16*n1 [1]

The result of a pass is the steps of nests, or the program:

nest 0: C[m, n] += A[m, k] * B[k, n];
  vfmadd_zmm_f32 { i: n } (a = A, b = B, c = C)
  for n by 512
    stage b ahead 1 in 2 buffers
      hold
        issue, unrolled m by 1, n by 16
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from isamap.ir import Const, Index, print_expr
from isamap.lower import program as lir
from isamap.lower.passes import State
from isamap.lower.steps import Copies, Hold, Issues, LoopNode, PackedOperand, Step, ThreadLoops, Tree, Unroll
from isamap.lower.walk import children
from isamap.plan.schedule import LoopStep


def print_program(program: lir.LoweredProgram) -> str:
    """Return the program as text, with a newline at its end."""
    sizes = ", ".join(f"{name} = {value}" for name, value in program.sizes)
    lines = [f"program {program.name} on {program.machine}{': ' if sizes else ''}{sizes}"]
    for tensor in program.tensors:
        shape, strides = (", ".join(map(str, axes)) for axes in (tensor.shape, tensor.strides))
        lines.append(f"{tensor.role} {tensor.name}: {tensor.dtype}[{shape}] strides [{strides}]")
    lines += [f"buffer {b.name}: {b.dtype}[{b.elements}]" for b in program.buffers]
    return "\n".join([*lines, "", *_nodes(program.body, "")]) + "\n"


def _nodes(nodes: tuple[lir.Node, ...], indent: str) -> Iterator[str]:
    for node in nodes:
        yield f"{indent}{_line(node)}"
        yield from _nodes(children(node), indent + "  ")


def _line(node: lir.Node) -> str:
    """Return the line of a node without the nodes inside it."""
    match node:
        case lir.Issue(instruction, operands, params, _):
            given = [f"{name} = {_operand(ref)}" for name, ref in operands]
            given += [f"{name} = {_argument(value)}" for name, value in params]
            return f"{instruction} {', '.join(given)}"
        case lir.Configure(instruction, state, fields, release):
            if release:
                return f"{instruction} releases {state}"
            values = [f"{n}{'' if i is None else f'[{i}]'} = {v}" for n, i, v in fields]
            return f"{instruction} sets {state}: {', '.join(values)}"
        case lir.Fill(buffer, offset, elements):
            return f"zero {buffer} + {offset}, {elements} elements"
        case lir.Hint(instruction, operand, place):
            return f"{instruction} {operand} = {_operand(place)}"
        case lir.Barrier(level, in_flight):
            return f"barrier of {level}" + (f", {in_flight} groups of copies in flight" if in_flight else "")
        case lir.ProductGroup(None):
            return "end of a group of products"
        case lir.ProductGroup(in_flight):
            return "wait for products" + (f", {in_flight} groups in flight" if in_flight else "")
        case lir.Declare(values):
            shown = (v.name if v.register is None else f"{v.name} in {v.memory}{v.register}" for v in values)
            return f"registers {', '.join(shown)}"
        case lir.For(variable, trips):
            return f"for {variable} < {trips}"
        case lir.Parallel(counters):
            instances = f" of {node.level}" if node.level else ""
            return f"parallel{instances} {', '.join(f'{variable} < {trips}' for variable, trips in counters)}"
        case lir.If(conditions):
            return f"if {' and '.join(f'{a} {c} {b}' for a, c, b in conditions)}"
        case lir.Block(note):
            return f"# {note}"
        case lir.Begin(work, pieces, trips):
            return f"begin {work}, {pieces} pieces in {trips} shares"
        case lir.WorkSlice(work, now, trips):
            return f"share {now} of {trips} of {work}"


def _operand(ref: lir.OperandRef) -> str:
    if isinstance(ref, lir.RegisterRef):
        return ref.value
    strides = f" [{', '.join(map(str, ref.strides))}]" if ref.strides else ""
    return f"{ref.buffer} + {ref.offset}{strides}"


def _argument(value: lir.Argument) -> str:
    match value:
        case int() | Index():
            return str(value)
        case Const():
            return str(value.value)
        case _:
            return print_expr(value)


def print_state(state: State) -> str:
    """Return the text of a pass's result, with a newline at its end."""
    if isinstance(state, lir.LoweredProgram):
        return print_program(state)
    return "\n".join(line for tree in state for line in _tree(tree)) + "\n"


def _tree(tree: Tree) -> Iterator[str]:
    yield f"nest {tree.schedule.statement}: {tree.note}"
    yield f"  {tree.schedule.mapping}"
    for depth, step in enumerate(tree.steps, 1):
        yield f"{'  ' * depth}{', '.join(_words(step))}"


def _words(step: Step) -> Iterator[str]:
    match step:
        case PackedOperand(stage):
            yield f"packed {stage.operand}"
        case Copies(stage, slots, hosts, spread):
            ahead = f" ahead {stage.ahead}" if stage.ahead else ""
            where = f" in {stage.memory}" if stage.memory else ""
            yield f"stage {stage.operand}{ahead}{where}"
            if slots > 1:
                yield f"{slots} buffers"
            if spread:
                yield "written back an iteration later"
            if hosts:
                yield f"dealt to {' and '.join(_loop(loop) for _, loop in hosts)}"
        case ThreadLoops(loops, split):
            yield f"parallel {' and '.join(_loop(loop) for loop in loops)}"
            if split:
                yield "sums in parts"
        case LoopNode(_, loop, carried, hints, rest, first_apart):
            yield f"for {_loop(loop)}"
            yield from (f"carries {copies.stage.operand}" for copies in carried)
            yield from (f"prefetches {p.operand} ahead {p.ahead} into {p.cache}" for p in hints)
            yield from ["then the remainder"] if rest else []
            yield from ["the first iteration peeled"] if first_apart else []
        case Hold(unrolled):
            yield "hold"
            yield from _print_unrolled(unrolled)
        case Issues(unrolled, axis):
            yield f"issue, carried along {axis}" if axis else "issue"
            yield from _print_unrolled(unrolled)
        case _:
            assert_never(step)


def _print_unrolled(unrolled: Sequence[Unroll]) -> Iterator[str]:
    for one in unrolled:
        blocks = f" of blocks by {one.block.step}" if one.block is not None else ""
        yield f"unrolled {one.axis} by {one.step}{blocks}"


def _loop(loop: LoopStep) -> str:
    return f"{loop.axis} by {loop.step}"
