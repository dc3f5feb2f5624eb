"""Recurrences in `seq` loops: iterations that start from values that the program itself computed.

    seq t in T { …; h[j] = tanh(u[j]); Y[t, j] = h[j]; }

shows its state: `h` is in `Y[t - 1]` when iteration t begins. With `Y` as an input more, `Y_found`, that is

    seq t in T { for j in H { h[j] = Y_found[t - 1, j] if t > 0; } …; h[j] = tanh(u[j]); Y[t, j] = h[j]; }

whose iterations are independent. So a recurrence that amplifies rounding errors is judged by the error of
single iterations: a program is right if each of its iterations is. If an iteration reads an output of earlier
ones, such as `h[t, k]` in `h[t + 1, j]`, it reads `h_found` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import assert_never

from isamap.ir import nodes as ir
from isamap.ir.dtypes import BOOL, I64
from isamap.ir.index import Index
from isamap.ir.walk import map_reads, reads, symbols
from isamap.source.records import dataclass, replace

FURTHEST = 4
"""The largest dependence distance, in iterations, that is searched for."""


@dataclass(frozen=True, slots=True)
class ParallelKernel:
    """A kernel with independent iterations. `shown` maps each new input to the output that has its values."""

    kernel: ir.Kernel
    shown: Mapping[str, str]


def iterations_apart(kernel: ir.Kernel) -> ParallelKernel | None:
    """Return the kernel with carried values as inputs, or None if no output contains the carried values."""
    shown: dict[str, str] = {}
    body = _read_all_from_outputs(kernel.body, frozenset(), frozenset(), kernel, shown)
    if not shown:
        return None
    given = tuple(
        ir.Operand(name, "in", kernel.operand(output).dtype, kernel.operand(output).shape)
        for output, name in shown.items()
    )
    made = replace(kernel, operands=(*given, *kernel.operands), body=body)
    return ParallelKernel(made, {name: output for output, name in shown.items()})


def _read_all_from_outputs(
    body: tuple[ir.Stmt, ...],
    around: frozenset[str],
    later: frozenset[str],
    kernel: ir.Kernel,
    shown: dict[str, str],
) -> tuple[ir.Stmt, ...]:
    """Return the statements, which read earlier values from outputs. Later statements assign the arrays `later`."""
    behind = [later | {a.target.buffer for a in _assigns(body[n + 1 :])} for n in range(len(body))]
    return tuple(_read_from_outputs(s, around, b, kernel, shown) for s, b in zip(body, behind, strict=True))


def _read_from_outputs(
    s: ir.Stmt, around: frozenset[str], later: frozenset[str], kernel: ir.Kernel, shown: dict[str, str]
) -> ir.Stmt:
    """Return a statement that reads the values of earlier iterations from outputs that contain them.

    An array that is assigned `later` no longer holds the values that the loop left.
    """
    if isinstance(s, ir.Assign):
        return s
    within = around | {a.name for a in s.axes}
    again = _assigned_again(s) if s.ordered else frozenset[str]()
    loop = replace(s, body=_read_all_from_outputs(s.body, within, later | again, kernel, shown))
    if not loop.ordered or len(loop.axes) != 1:
        return loop
    later |= again
    axis, written = loop.axes[0].name, list(_assigns(s.body))
    starts: list[ir.Stmt] = []
    for number, assign in enumerate(written):
        copied = _find_copied(assign, axis, around, kernel)
        behind = (other.target.buffer for other in written[number + 1 :])
        shows = assign.target.buffer not in later and _is_alone(assign, written)
        if copied is not None and copied.buffer not in behind and shows:
            starts.append(_start(assign.target, copied, axis, kernel, shown))
    reread = (read for read in _reads_of_earlier(written, axis, kernel) if read.buffer not in later)
    lagging = {read: _name(read.buffer, kernel, shown) for read in reread}
    reread = _with_reads(loop, lambda r: replace(r, buffer=lagging[r]) if r in lagging else r)
    assert isinstance(reread, ir.Loop)
    return replace(reread, body=(*starts, *reread.body))


def _assigned_again(loop: ir.Loop) -> frozenset[str]:
    """Return the arrays with an element that two iterations of the loop may both assign.

    A subscript excludes that if it is a multiple of the axis plus a term bounded inside the loop.
    """
    inner = {a.name for s in loop.body for a in _axes(s)}

    def moves(i: Index, axis: str) -> bool:
        slope = i.coefficient(axis)
        others = i.symbols - {axis}
        return slope is not None and bool(slope.value) and i.is_affine_in((axis,)) and not others & inner

    axes = [a.name for a in loop.axes]
    return frozenset(
        assign.target.buffer
        for assign in _assigns(loop.body)
        if not all(any(moves(i, axis) for i in assign.target.index) for axis in axes)
    )


def _axes(s: ir.Stmt) -> tuple[ir.Axis, ...]:
    """Return the axes of a statement and of all loops in it."""
    return () if isinstance(s, ir.Assign) else (*s.axes, *(a for b in s.body for a in _axes(b)))


def _assigns(body: tuple[ir.Stmt, ...]) -> Iterator[ir.Assign]:
    for statement in body:
        match statement:
            case ir.Assign():
                yield statement
            case ir.Loop():
                yield from _assigns(statement.body)
            case _:
                assert_never(statement)


def _find_copied(assign: ir.Assign, axis: str, around: frozenset[str], kernel: ir.Kernel) -> ir.Read | None:
    """Return the temporary that an output stores at a different place in each iteration, or None."""
    if assign.op is not None or assign.guard is not None or not isinstance(assign.value, ir.Read):
        return None
    source, target = kernel.operand(assign.value.buffer), kernel.operand(assign.target.buffer)
    names = [str(i) for i in assign.value.index]
    plain = len({*names}) == len(names) and all(
        i.symbols == frozenset((n,)) for i, n in zip(assign.value.index, names, strict=True)
    )
    inside = source.role == "temp" and source.accumulate is None and assign.value.fill is None
    placed = symbols(assign.target)
    own = axis in placed and placed <= {axis, *names, *around} and not around & {*names}
    return assign.value if plain and inside and own and target.role in ("out", "inout") else None


def _is_alone(assign: ir.Assign, written: list[ir.Assign]) -> bool:
    """Return whether no other statement assigns to the same output."""
    return sum(other.target.buffer == assign.target.buffer for other in written) == 1


def _start(target: ir.Read, copied: ir.Read, axis: str, kernel: ir.Kernel, shown: dict[str, str]) -> ir.Stmt:
    """Return the statement that initialises the array: `h[j] = Y_found[t - 1, j] if t > 0`."""
    earlier = tuple(i.substitute({axis: Index.of(axis) - 1}) for i in target.index)
    found = ir.Read(_name(target.buffer, kernel, shown), earlier, target.dtype, ir.Const(0, target.dtype))
    later = ir.Call("gt", (ir.IndexValue(Index.of(axis), I64), ir.Const(0, I64)), BOOL)
    assign = ir.Assign(copied, None, found, later)
    axes = tuple(
        ir.Axis(str(i), extent)
        for i, extent in zip(copied.index, kernel.operand(copied.buffer).shape, strict=True)
    )
    return ir.Loop(axes, (assign,)) if axes else assign


def _name(output: str, kernel: ir.Kernel, shown: dict[str, str]) -> str:
    """Return the name of the new input that contains a given output's results."""
    taken = {o.name for o in kernel.operands} | {p.name for p in kernel.params}
    name = f"{output}_found"
    while name in taken:
        name += "_"
    return shown.setdefault(output, name)


def _reads_of_earlier(written: list[ir.Assign], axis: str, kernel: ir.Kernel) -> Iterator[ir.Read]:
    """Yield the reads of elements that earlier iterations of the axis wrote."""
    places: dict[str, set[tuple[Index, ...]]] = {}
    for assign in written:
        if kernel.operand(assign.target.buffer).role in ("out", "inout"):
            places.setdefault(assign.target.buffer, set()).add(_of_axis(assign.target, axis))
    for assign in written:
        for e in (assign.value, assign.guard):
            for read in reads(e) if e is not None else ():
                now = places.get(read.buffer, set())
                then = {
                    tuple(i.substitute({axis: Index.of(axis) - back}) for i in place)
                    for place in now
                    for back in range(1, FURTHEST)
                }
                here = _of_axis(read, axis)
                if len(now) == 1 and here not in now and here in then:
                    yield read


def _of_axis(read: ir.Read, axis: str) -> tuple[Index, ...]:
    """Return the subscripts, with 0 in place of those that do not depend on the axis."""
    return tuple(i if axis in i.symbols else Index.of(0) for i in read.index)


def _with_reads(s: ir.Stmt, change: Callable[[ir.Read], ir.Read]) -> ir.Stmt:
    """Return the statement with the reads in its values and guards changed."""
    guard = map_reads(s.guard, change) if s.guard is not None else None
    match s:
        case ir.Assign():
            return replace(s, value=map_reads(s.value, change), guard=guard)
        case ir.Loop():
            return replace(s, body=tuple(_with_reads(b, change) for b in s.body), guard=guard)
        case _:
            assert_never(s)
