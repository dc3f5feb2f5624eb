"""Hints: instructions whose only output lies in a cache. They bring memory nearer and change no value.

    instruction prefetch_l2() {
      in a: u8[64] @ mem;
      out z: u8[64] @ l2;
      for i in 64 { z[i] = a[i]; }
    }

The language says honestly what such an instruction does: it copies a line. But a cache holds no buffers, so
nothing can name the copy, and the schedule may drop or repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isamap.ir import Instruction
from isamap.machine.model import Machine, MachineInstruction, Memory


@dataclass(frozen=True, slots=True)
class LineHint:
    """A hint that brings one line into a cache: its instruction and the operand that names the line.

    Units: `line_bytes`.
    """

    item: MachineInstruction
    cache: str
    operand: str
    line_bytes: int


def is_hint(instruction: Instruction, memories: Mapping[str, Memory]) -> bool:
    """Whether all outputs of an instruction lie in caches."""
    outputs = [o for o in instruction.operands if o.role in ("out", "inout")]
    return bool(outputs) and all(o.memory is not None and memories[o.memory].kind == "cache" for o in outputs)


def line_hints(machine: Machine) -> Mapping[str, LineHint]:
    """By cache, the hint that brings a row of bytes out of addressable memory into it."""
    found: dict[str, LineHint] = {}
    for item in machine.hints.values():
        hint = _line_hint(item, machine)
        if hint is not None:
            found.setdefault(hint.cache, hint)
    return found


def _line_hint(item: MachineInstruction, machine: Machine) -> LineHint | None:
    operands = item.instruction.operands
    sources, targets = ([o for o in operands if o.role == role] for role in ("in", "out"))
    if len(sources) != 1 or len(targets) != 1 or len(operands) != 2 or item.instruction.params:
        return None
    source, cache = sources[0], targets[0].memory
    length = source.shape[0].value if len(source.shape) == 1 else None
    memory = machine.memories[source.memory] if source.memory else None
    if cache is None or length is None or (memory is not None and memory.kind != "addressable"):
        return None
    return LineHint(item, cache, source.name, length * source.dtype.size_bytes)
