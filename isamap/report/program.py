"""A lowered program as text, for people: one line per node.

for n1 < 4
  # load c
  load_zmm_f32 z = v0, a = C + 16*n1 [1]
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.ir import Const, Index, print_expr
from isamap.lower.program import (
    Argument,
    Block,
    Configure,
    Declare,
    Fill,
    For,
    Hint,
    If,
    Issue,
    LoweredProgram,
    Node,
    OperandRef,
    Parallel,
    RegisterRef,
)


def print_program(program: LoweredProgram) -> str:
    """The program as text, with a newline at its end."""
    sizes = ", ".join(f"{name} = {value}" for name, value in program.sizes)
    lines = [f"program {program.name} on {program.machine}{': ' if sizes else ''}{sizes}"]
    for tensor in program.tensors:
        shape, strides = (", ".join(map(str, axes)) for axes in (tensor.shape, tensor.strides))
        lines.append(f"{tensor.role} {tensor.name}: {tensor.dtype}[{shape}] strides [{strides}]")
    lines += [f"buffer {b.name}: {b.dtype}[{b.elements}]" for b in program.buffers]
    return "\n".join([*lines, "", *_nodes(program.body, "")]) + "\n"


def _nodes(nodes: tuple[Node, ...], indent: str) -> Iterator[str]:
    for node in nodes:
        yield from _node(node, indent)


def _node(node: Node, indent: str) -> Iterator[str]:
    inner = indent + "  "
    match node:
        case Issue(instruction, operands, params, _):
            given = [f"{name} = {_operand(ref)}" for name, ref in operands]
            given += [f"{name} = {_argument(value)}" for name, value in params]
            yield f"{indent}{instruction} {', '.join(given)}"
        case Configure(instruction, state, fields, release):
            if release:
                yield f"{indent}{instruction} releases {state}"
                return
            values = [f"{n}{'' if i is None else f'[{i}]'} = {v}" for n, i, v in fields]
            yield f"{indent}{instruction} sets {state}: {', '.join(values)}"
        case Fill(buffer, offset, elements):
            yield f"{indent}zero {buffer} + {offset}, {elements} elements"
        case Hint(instruction, operand, place):
            yield f"{indent}{instruction} {operand} = {_operand(place)}"
        case Declare(values):
            names = [
                f"{v.name}" + ("" if v.register is None else f" in {v.memory}{v.register}") for v in values
            ]
            yield f"{indent}registers {', '.join(names)}"
        case For(variable, trips, body, _):
            yield f"{indent}for {variable} < {trips}"
            yield from _nodes(body, inner)
        case Parallel(counters, body, _):
            yield f"{indent}parallel {', '.join(f'{variable} < {trips}' for variable, trips in counters)}"
            yield from _nodes(body, inner)
        case If(conditions, body):
            yield f"{indent}if {' and '.join(f'{a} {c} {b}' for a, c, b in conditions)}"
            yield from _nodes(body, inner)
        case Block(note, body):
            yield f"{indent}# {note}"
            yield from _nodes(body, inner)


def _operand(ref: OperandRef) -> str:
    if isinstance(ref, RegisterRef):
        return ref.value
    strides = f" [{', '.join(map(str, ref.strides))}]" if ref.strides else ""
    return f"{ref.buffer} + {ref.offset}{strides}"


def _argument(value: Argument) -> str:
    match value:
        case int() | Index():
            return str(value)
        case Const():
            return str(value.value)
        case _:
            return print_expr(value)
