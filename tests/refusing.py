"""Machines given as text, and what is said of a kernel and the last of their instructions."""

from __future__ import annotations

from functools import cache

from isamap.ir import F64, Const, ConstantDecl, Instruction, Kernel, MemoryDecl, Module, StateDecl
from isamap.machine import Machine
from isamap.machine.model import (
    ConfigurationState,
    Cost,
    EmitNothing,
    EmitSemantics,
    MachineInstruction,
    Memory,
    Target,
    Unit,
)
from isamap.match import Rejection, find_groups, find_mappings, fixes, refusals
from isamap.source import Source, Span
from isamap.syntax import parse_kernel, parse_module

MEMORIES = """memory mem: addressable();
memory reg: registers(count = 8, bytes = 64, named = compiler);
"""
MOVES = """instruction load_{t}(scalar L: 1..16) {{
  in a: {t}[L] @ mem strides(any);
  out z: {t}[16] @ reg outside zero;
  for i in L {{ z[i] = a[i]; }}
}}
instruction store_{t}(scalar L: 1..16) {{
  in a: {t}[16] @ reg;
  out z: {t}[L] @ mem strides(any);
  for i in L {{ z[i] = a[i]; }}
}}
"""
TYPES = ("f64", "f32", "f16", "bf16", "i32", "i16", "i8", "u8", "bool")


@cache
def _usual() -> Module:
    """Memory, registers, and moves between them."""
    return parse_module(Source("moves.isa", MEMORIES + "".join(MOVES.format(t=t) for t in TYPES)))


def machine(text: str, *, emitted: bool = True) -> Machine:
    """Return a machine of the declarations in a text; with `mem`, `reg` and moves when it names no memory."""
    known = Module(()) if "memory " in text else _usual()
    module = parse_module(Source("machine.isa", text), known)
    everything = (*known.declarations, *module.declarations)
    zero = Const(0.0, F64)
    emit = EmitSemantics() if emitted else EmitNothing()
    return Machine(
        name="machine",
        summary="",
        chain=("machine",),
        constants=tuple(d.param for d in everything if isinstance(d, ConstantDecl)),
        memories={d.name: Memory(d) for d in everything if isinstance(d, MemoryDecl)},
        states={d.name: ConfigurationState(d, 0, {}) for d in everything if isinstance(d, StateDecl)},
        units={"unit": Unit("unit", 1)},
        links=(),
        instructions={
            d.name: MachineInstruction(d, emit, Cost("unit", zero, zero))
            for d in everything
            if isinstance(d, Instruction)
        },
        target=Target(),
        clock_ghz=None,
        thread_start_ns=0.0,
        sources={},
        digest="",
    )


def kernel(text: str) -> Kernel:
    return parse_kernel(Source("kernel.ir", text))


def rejection(routine: Kernel, on: Machine, instruction: str | None = None) -> Rejection | None:
    """Return what is said of the last instruction, or of the one named, and the first statement that lacks it."""
    name = instruction or list(on.instructions)[-1]
    return next((r for r in refusals(routine, on) if r.instruction == name), None)


def said(routine: Kernel, on: Machine, instruction: str | None = None) -> str:
    """Return the refusal with both places, and the kernel after its fix."""
    found = rejection(routine, on, instruction)
    if found is None:
        name = instruction or list(on.instructions)[-1]
        mappings = (*find_mappings(routine, on), *find_groups(routine, on))
        own = [m for m in mappings if m.instruction == name and m.kind != "degenerate"]
        return f"performs it as {own[0].ident}\n"
    lines = [f"[{found.reason}] {found.message}", *_place(found.span), *_place(found.instruction_span)]
    lines += [f"edit: {found.edit}"] if found.edit else ["no edit"]
    fixed = fixes(routine, on, [found])
    for fix in fixed:
        lines += [
            f"=== fixed, {'the same result' if fix.keeps_result else 'another result'}",
            fix.text.rstrip(),
        ]
        lines += ["=== performs it as", fix.mapping.ident]
    return "\n".join(lines) + "\n"


def _place(span: Span | None) -> list[str]:
    if span is None:
        return ["  nowhere"]
    line = span.source.line_text(span.line)
    text = line.strip()
    offset = max(0, span.column - 1 - (len(line) - len(line.lstrip())))
    width = max(1, min(span.end - span.start, len(text) - offset))
    return [f"  {span}", f"    {text}", f"    {' ' * offset}{'^' * width}"]
