"""Whether the operands of an instruction fit into their registers.

`f32[16] @ ymm` where a register of `ymm` has 32 bytes is refused: the registers that a schedule counts, and
what it keeps in them, would be others than those of the machine. Looked at for a number of small and large
parameters, so that what is found is real.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from isamap.ir import Instruction, MemoryDecl, Operand, Param
from isamap.ir.samples import sample_sizes
from isamap.machine.findings import Findings
from isamap.machine.model import Memory
from isamap.machine.world import Entry, World
from isamap.source import Diagnostic, Span, SpecProblem

_SAMPLES = 40
_OWN = (
    "shorten the operand, or give the registers their bytes; where several are used as one, declare a memory "
    "of such groups"
)
_INHERITED = "give the registers their bytes, or `remove` the inherited instruction, or replace it"


def check_inherited_room(
    parent: World, world: World, entries: Mapping[str, Entry], findings: Findings
) -> None:
    """Report, at each memory that is declared anew, an inherited instruction for which it is too small."""
    kept = [e.built.instruction for n, e in entries.items() if parent.instructions.get(n) is e]
    for name, old in parent.memories.items():
        new = world.memories[name]
        if new.decl == old.decl:
            continue
        users = [i for i in kept if any(o.memory == name for o in i.operands)]
        with findings.collect():  # the first speaks for all
            for instruction in users:
                check_room(instruction, {name: new}, world.constants, new.decl.span)


def check_room(
    instruction: Instruction,
    memories: Mapping[str, Memory],
    constants: tuple[Param, ...],
    at: Span | None = None,
) -> None:
    """Refuse an operand that is larger than a register of its memory, at its place or at another.

    Raises: SpecProblem.
    """
    held = [o for o in instruction.operands if _is_in_one_register(o, memories)]
    fixed = all(_is_fixed(o, memories) for o in held)
    for env in ({},) if fixed else sample_sizes(instruction, constants, _SAMPLES):
        for o in held:
            decl = memories[o.memory or ""].decl
            needed, there = _bits(o, env), 8 * _register_bytes(decl, env)
            if needed > there:
                raise SpecProblem(_finding(instruction, o, decl, -(-needed // 8), there // 8, env, at))


def _is_in_one_register(o: Operand, memories: Mapping[str, Memory]) -> bool:
    """Whether all of an operand lies in one register: a placement may say that it takes several."""
    memory = memories.get(o.memory or "")
    placed = [name for name, _ in o.placement.coordinates] if o.placement is not None else []
    return memory is not None and memory.kind == "registers" and "register" not in placed


def _is_fixed(o: Operand, memories: Mapping[str, Memory]) -> bool:
    known = memories[o.memory or ""].register_bytes is not None
    return known and all(extent.value is not None for extent in o.shape)


def _bits(o: Operand, env: Mapping[str, int]) -> int:
    """What an operand needs: a predicate's element may be one bit of a mask register."""
    one = 1 if o.dtype.kind == "bool" else o.dtype.bits
    return one * prod(int(extent.evaluate(env)) for extent in o.shape)


def _register_bytes(decl: MemoryDecl, env: Mapping[str, int]) -> int:
    given = {name: value.evaluate(env) for name, value in decl.attributes if not isinstance(value, str)}
    return given["bytes"] if "bytes" in given else given["rows"] * given["row_bytes"]


def _finding(
    instruction: Instruction,
    o: Operand,
    decl: MemoryDecl,
    needed: int,
    there: int,
    env: Mapping[str, int],
    at: Span | None,
) -> Diagnostic:
    used = {s for e in o.shape for s in e.symbols}
    used |= {s for _, value in decl.attributes if not isinstance(value, str) for s in value.symbols}
    shown = ", ".join(f"{name} = {value}" for name, value in env.items() if name in used)
    fitting = 8 * there // (1 if o.dtype.kind == "bool" else o.dtype.bits)
    return Diagnostic(
        "operand-too-large",
        f"`{o.name}` of `{instruction.name}` has {needed} bytes; a register of `{decl.name}` has {there}",
        at or o.span,
        notes=(
            *((f"for {shown}",) if shown else ()),
            f"a register of `{decl.name}` holds {fitting} elements of {o.dtype}",
        ),
        help=_INHERITED if at is not None else _OWN,
    )
