"""Check the layout that instructions require of operands: `where align(a) >= 16, stride(a, 0) % 16 == 0`.

The check runs for each place from which an operand might be read, or to which it might be written. A
requirement that cannot be proved counts as unmet. Another place may meet it, such as a buffer that starts
at a multiple of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd, lcm

from isamap.ir import Constraint, Index, Kernel, Operand
from isamap.ir.bind import comparison_holds
from isamap.machine import Machine, MachineInstruction
from isamap.match.patterns.address import Location
from isamap.match.patterns.pattern import patterns_of
from isamap.transform import reads
from isamap.transform.block_storage import Side

_POWERS = tuple(1 << n for n in range(16, 0, -1))
BUFFER_BYTES = 64
"""Buffers of the workspace start at multiples of it, and so does the workspace itself."""


def layout_holds(
    where: Iterable[Constraint],
    operand: Operand,
    place: Location,
    aligned_bytes: int,
    params: Mapping[str, int],
    steps: Mapping[str, int],
) -> bool:
    """Return whether a location meets the layout that an operand requires. `steps` are as in `alignment`.

    Units: `aligned_bytes` is a divisor of the address.
    """
    strides = (s.substitute({n: step * Index.of(n) for n, step in steps.items()}) for s in place.strides)
    own = {f"stride({operand.name},{axis})": stride for axis, stride in enumerate(strides)}
    align = f"align({operand.name})"
    for constraint in where:
        named = {s for s in constraint.left.symbols | constraint.right.symbols if "(" in s}
        if not named & {align, *own}:
            continue
        known: dict[str, Index | int] = {**params, **own, align: aligned_bytes}
        left, right = constraint.left.substitute(known).value, constraint.right.substitute(known).value
        if left is None or right is None or not comparison_holds(left, constraint.comparison, right):
            return False
        if align in named and not _is_of_multiples(constraint, align):
            return False
    return True


def _is_of_multiples(constraint: Constraint, align: str) -> bool:
    """Return whether all multiples of an alignment satisfy the constraint, as for `align(a) >= 16`."""
    if constraint.comparison in (">=", ">"):
        return constraint.left == Index.of(align)
    return constraint.comparison == "==" and constraint.right == Index.of(0)


def alignment(place: Location, base_bytes: int, element_bytes: int, steps: Mapping[str, int]) -> int:
    """Return a divisor of the address of a place for all loop counters. Units: bytes.

    `steps` are the increments of symbols, in elements.
    """
    found = base_bytes
    for monomial, coefficient in place.offset.terms:
        inside = Index(((monomial, 1),)).symbols
        times = next((steps[s] for s in inside if s in steps), 1)
        found = gcd(found, coefficient * times * element_bytes)
    return found


def stated_alignments(kernel: Kernel) -> dict[str, int]:
    """Return the known alignment of each array of a kernel: its element size, or the one in `where`. Units: bytes."""
    return {
        o.name: max(
            1, o.dtype.bits // 8, *(_stated_alignment(c, Index.of(f"align({o.name})")) for c in kernel.where)
        )
        for o in kernel.operands
    }


def stated_strides(kernel: Kernel) -> dict[str, dict[str, int]]:
    """Return a divisor of each stride for which `where` states one. Units: elements."""
    found: dict[str, dict[str, int]] = {}
    for o in kernel.operands:
        for c in kernel.where:
            for axis in range(len(o.shape)):
                stride = Index.of(f"stride({o.name},{axis})")
                step = next((n for n in _POWERS if c.left == stride.mod(n)), 0)
                if step and c.comparison == "==" and c.right.value == 0:
                    found.setdefault(o.name, {})[f"{o.name}.s{axis}"] = step
    return found


def address_unit(item: MachineInstruction, operand: Operand) -> int:
    """Return the alignment that an instruction requires of an operand's address. Units: bytes."""
    align = Index.of(f"align({operand.name})")
    stated = (_stated_alignment(c, align) for c in item.instruction.where)
    return lcm(*stated, item.encoding.unit_of(operand.name) if item.encoding is not None else 1)


def address_steps(machine: Machine) -> dict[str, int]:
    """Return, per scratchpad, the alignment of buffer addresses that its instructions require. Units: bytes."""
    found = {m.name: 1 for m in machine.memories.values() if m.kind == "scratchpad"}
    for item in machine.instructions.values():
        for operand in item.instruction.operands:
            if operand.memory in found:
                found[operand.memory] = lcm(found[operand.memory], address_unit(item, operand))
    return found


def _stated_alignment(constraint: Constraint, align: Index) -> int:
    """Return the alignment that a constraint promises, or 1."""
    number = constraint.right.value
    if constraint.left == align and constraint.comparison in (">=", "==") and number:
        return 1 << (number - 1).bit_length()  # an alignment is a power of two: at least 48 means 64
    if constraint.comparison == "==" and number == 0:
        return next((n for n in _POWERS if constraint.left == align.mod(n)), 1)
    return 1


def stored_blocks(machine: Machine) -> tuple[tuple[Side, Side], ...]:
    """Return the two-axis blocks that instructions copy from main memory for reductions."""
    copied = set[tuple[str | None, str, tuple[Index, ...]]]()
    patterns = [p for item in machine.instructions.values() for p in patterns_of(item.instruction)]
    for pattern in patterns:
        for r in reads(pattern.statement.assign.value):
            source, target = pattern.instruction.operand(r.buffer), pattern.output
            block, steps = source.shape[-2:], (source.strides or ())[-2:]
            memory = machine.memories.get(source.memory or "")
            is_out_of_main = memory is not None and memory.kind == "addressable"
            is_block = len(steps) == 2 and steps == (block[-1], Index.of(1)) and block[0].value is not None
            if is_out_of_main and is_block and pattern.statement.assign.op is None:
                copied.add((target.memory, target.dtype.name, block))
    found = dict[tuple[Side, Side], None]()
    for pattern in patterns:
        summed = {axis.name for axis in pattern.statement.reduction_axes}
        for r in reads(pattern.statement.assign.value) if summed else ():
            operand = pattern.instruction.operand(r.buffer)
            if (operand.memory, operand.dtype.name, block := operand.shape[-2:]) in copied:
                sides = (
                    Side(int(extent.evaluate({})), str(index) in summed)
                    for extent, index in zip(block, r.index[-2:], strict=True)
                )
                first, second = sides
                found[first, second] = None
    return tuple(found)
