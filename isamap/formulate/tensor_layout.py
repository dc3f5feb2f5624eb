"""Describe the layout of an operand's tensor under a mapping's loops: axes of its subscripts, and its rows.

X[n, c, 2*p + r, q] of f32[1, 64, 112, 112] -> ((n, 1),), ((c, 1),), ((p, 2), (r, 1)), ((q, 1),); dense
along q, rows 448 bytes apart.

Rows that are shorter than a line and follow each other without a gap, as in F[k, c, r, s] of 3 by 3, do not
count as rows; the contiguous direction then includes the outer axes.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import Expr, Index, Kernel
from isamap.plan.problem import TileOperand, with_fields
from isamap.transform import reads

Subscript = tuple[tuple[str, int], ...]


def lay_out(
    operand: TileOperand,
    subject: Expr | None,
    kernel: Kernel,
    profile: Mapping[str, int],
    line_bytes: int = 0,
) -> TileOperand:
    """Return the operand with the tensor layout of its element `subject`, unchanged for complex subscripts.

    Units: `line_bytes` of a cache's line.
    """
    found = () if subject is None else reads(subject)
    placed = {o.memory for o in kernel.operands if o.memory and any(o.name == r.buffer for r in found)}
    operand = with_fields(operand, main=placed.pop()) if len(placed) == 1 else operand
    if len(found) != 1 or not found[0].index:
        return with_fields(operand, in_rows=False)
    subject = found[0]
    subscripts = [subscript_of(index) for index in subject.index]
    known = [subscript for subscript in subscripts if subscript is not None]
    if len(known) < len(subscripts):
        return with_fields(operand, in_rows=False)
    operand = with_fields(operand, in_rows=subject.fill is None)
    tensor = next((o for o in kernel.operands if o.name == subject.buffer), None)
    row = tensor.shape[-1].substitute(profile).value if tensor and tensor.shape else None
    if row and tensor and tensor.strides and row * subject.dtype.size_bytes < line_bytes:
        behind_each_other = tensor.strides[-2:-1] == (tensor.shape[-1],)
        row = None if behind_each_other else row
    dense = known[-1][0][0] if len(known[-1]) == 1 and known[-1][0][1] == 1 else ""
    behind = known[-2] if len(known) > 1 else ()
    moved = [axis for subscript in known for axis, _ in subscript]
    pitch = (row or 0) * subject.dtype.size_bytes if len(known) > 1 else 0
    windows = len(moved) > len(set(moved)) or any(len(s) > 1 or any(c != 1 for _, c in s) for s in known)
    return with_fields(
        operand,
        subscripts=tuple(known) if windows else (),
        dense_axis=dense if row else "",
        pitch_bytes=pitch,
        least_row_bytes=min(pitch, line_bytes),
        next_row=behind[0][0] if len(behind) == 1 and behind[0][1] == 1 else "",
    )


def subscript_of(index: Index) -> Subscript | None:
    """Return the axes with coefficients in a subscript, or None if it divides or multiplies by a size."""
    found: list[tuple[str, int]] = []
    for monomial, coefficient in index.terms:
        if not monomial:
            continue
        atom = monomial[0]
        if len(monomial) > 1 or not isinstance(atom, str) or not atom.startswith("@"):
            return None
        found.append((atom[1:], coefficient))
    return tuple(found)
