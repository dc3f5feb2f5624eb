"""Insert prefetches: loops of hints for the lines that later iterations of a loop will read.

What stands in a buffer is one run of elements; what is read in place is rows of its tensor. No line outside
is touched: each hint names an element that the iteration reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.ir import Expr, Index, Read, index_min
from isamap.ir.index import ONE, ZERO
from isamap.lower.place import Place
from isamap.lower.program import For, Hint, MemoryRef, Names, Node
from isamap.lower.staging import Staged
from isamap.machine import LineHint
from isamap.match import OperandTile, Suppliers
from isamap.source import Diagnostic, UsageProblem
from isamap.transform import reads


def buffer_lines(staged: Staged, number: int, place: Place, hint: LineHint, names: Names) -> tuple[Node, ...]:
    """Hints about the tiles that an iteration of loop `number` reads from a buffer."""
    trips = {n: place.trips.get(n, ZERO) if n <= number else ZERO for n, _ in staged.loops}
    elements = dict(staged.loops)[number]
    size_bytes = staged.operand.dtype.size_bytes
    here, lines = _lines(staged.buffer, staged.offset(trips), elements, elements, size_bytes, hint, names)
    return _nested(lines, here)


def tensor_lines(
    operand: OperandTile,
    place: Place,
    hint: LineHint,
    suppliers: Suppliers,
    names: Names,
    by_lines: bool,
    whole: Place | None = None,
) -> tuple[Node, ...]:
    """Hints about the elements of a tensor that are read at a place, row by row; or line by line of all rows,
    where their length is known.

    With `whole`, a place of an iteration that nothing cuts short, there are as many lines as it has: one that
    a shorter iteration lacks is named by its first element.

    Raises: UsageProblem where they are no box.
    """
    read = _read_of(operand.subject)
    box = _box(read, place) if read is not None and read.fill is None else None
    if read is None or box is None:
        raise UsageProblem(
            Diagnostic(
                "schedule-overlap",
                f"`{operand.name}` cannot be prefetched: the reads of its iterations are not a box of one array",
                help=f"stage it, and prefetch the buffer; or drop `prefetch {operand.name}`",
            )
        )
    strides = suppliers.strides[read.buffer]
    start, loops = ZERO, list[tuple[str, Index]]()
    for (low, count), stride in zip(box[:-1], strides, strict=False):
        variable = names.fresh("row")
        start = start + low * stride
        if count.value != 1:
            start = start + Index.of(variable) * stride
            loops.append((variable, count))
    low, count = box[-1]
    longest = _box(read, whole) if whole is not None else None
    most = longest[-1][1] if longest is not None else count
    here, lines = _lines(
        read.buffer, start + low * strides[-1], count, most, read.dtype.size_bytes, hint, names
    )
    counted = all(count.value is not None for _, count in lines)
    return _nested((*lines, *loops) if by_lines and counted else (*loops, *lines), here)


def goes_along(operand: OperandTile, axis: str) -> bool:
    """Return whether a loop over an axis goes along the rows of what an operand reads."""
    read = _read_of(operand.subject)
    return read is not None and _moves(read.index[-1], axis)


def goes_across(operand: OperandTile, axis: str) -> bool:
    """Return whether a loop over an axis goes from row to row of what an operand reads."""
    read = _read_of(operand.subject)
    if read is None or _moves(read.index[-1], axis):
        return False
    return any(_moves(subscript, axis) for subscript in read.index[:-1])


def _moves(subscript: Index, axis: str) -> bool:
    """Return whether a subscript moves with an axis."""
    factor = subscript.coefficient(f"@{axis}")
    return factor is None or factor.value != 0


def _lines(
    buffer: str, start: Index, elements: Index, most: Index, size_bytes: int, hint: LineHint, names: Names
) -> tuple[Hint, tuple[tuple[str, Index], ...]]:
    """Return a hint about a line of a run of elements, at an element of it, and the loop over the lines of a run of
    as many elements as there may be.

    Elements are counted back from the last one: the line that the first one lies in has mostly come with what
    lies before it, that of the last one has not.
    """
    each = max(1, hint.line_bytes // size_bytes)
    count = most.ceildiv(each)
    variable = names.fresh("line")
    counter = ZERO if count.value == 1 else Index.of(variable)
    back = (count - 1 - counter) * each
    if elements != most:
        back = index_min(elements - 1, back)
    here = Hint(hint.item.name, hint.operand, MemoryRef(buffer, start + (elements - 1) - back, (ONE,)))
    return here, () if count.value == 1 else ((variable, count),)


def _nested(loops: Sequence[tuple[str, Index]], here: Node) -> tuple[Node, ...]:
    """Return a node inside loops, the first outermost."""
    for variable, count in reversed(loops):
        here = For(variable, count, (here,))
    return (here,)


def _read_of(expr: Expr) -> Read | None:
    """Return the one read that an element is made of, by itself or with constants: `u8(B[k, n] ^ -128)`."""
    found = reads(expr)
    return found[0] if len(found) == 1 else None


def _box(read: Read, place: Place) -> list[tuple[Index, Index]] | None:
    """Per subscript of a read its least value at a place and how many values it takes; None if not affine."""
    positions = {f"@{axis}": position for axis, position in place.position.items()}
    found: list[tuple[Index, Index]] = []
    for subscript in read.index:
        low, count = subscript, ONE
        for axis, left in place.left.items():
            factor = subscript.coefficient(f"@{axis}")
            if factor is None or factor.value is None:
                return None
            count = count + (left - 1) * abs(factor.value)
            if factor.value < 0:
                low = low + (left - 1) * factor.value
        found.append((low.substitute(positions), count))
    return found or None
