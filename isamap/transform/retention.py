"""What an ordered loop overwrites kept for all iterations, so that sums of it need not run inside.

    seq t in T {                                     seq t in T {
      h[j] = tanh(x[t, j] + h[j]);                     h[j] = tanh(x[t, j] + h[j]);
      Y[t, k] += h[j] * V[j, k];         →             h_all[t, j] = h[j];
    }                                                }
                                                     for t in T { Y[t, k] += h_all[t, j] * V[j, k]; }

The projection of a recurrent state is one product over all time steps then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from isamap.ir import Assign, Axis, Index, Kernel, Operand, Read
from isamap.transform.conflicts import Conflicts
from isamap.transform.hoisting import movable, moved_out
from isamap.transform.rewrite import Rewrite, accesses, free_name, map_accesses, with_statements
from isamap.transform.sequences import Sequential, sequential_loops
from isamap.transform.statements import Statement, statements


def retentions(kernel: Kernel) -> Iterator[Rewrite]:
    """The kernel with one sum of an ordered loop moved behind it, for each that copies make independent."""
    for loop in sequential_loops(statements(kernel)):
        if not Conflicts.of(kernel).positive(loop.axis.extent):
            continue
        free = movable(kernel, loop, behind=True)
        for n, unit in enumerate(loop.units):
            if n not in free and len(unit) == 1 and unit[0].is_reduction and unit[0].reduction_axes:
                found = _retained(kernel, loop, unit[0])
                if found is not None:
                    yield found


def _retained(kernel: Kernel, loop: Sequential, s: Statement) -> Rewrite | None:
    """The kernel with copies of what a sum reads and the loop changes, and the sum behind the loop."""
    changed = {t.assign.target.buffer for t in loop.inside} - {s.assign.target.buffer}
    names = [n for n in dict.fromkeys(r.buffer for r in accesses(s)) if n in changed]
    if not names:
        return None
    kept: dict[str, Operand] = {}
    for name in names:
        taken = replace(kernel, operands=(*kernel.operands, *kept.values()))
        o = kernel.operand(name)
        shape = (loop.axis.extent, *o.shape)
        kept[name] = Operand(free_name(taken, f"{name}_all"), "temp", o.dtype, shape)
    t = Index.of(loop.axis.name)

    def change(read: Read) -> Read:
        if read.buffer not in kept:
            return read
        return replace(read, buffer=kept[read.buffer].name, index=(t, *read.index))

    at = loop.inside.index(s)
    copies = [_copy(kernel, s, kernel.operand(n), kept[n], t) for n in names]
    inside = (*loop.inside[:at], *copies, map_accesses(s, change), *loop.inside[at + 1 :])
    longer = replace(loop, inside=inside)
    operands = (*kernel.operands, *kept.values())
    changed_kernel = with_statements(kernel, (*loop.before, *inside, *loop.behind), operands)
    return _behind(kernel, changed_kernel, longer, inside[at + len(copies)], names)


def _behind(
    before: Kernel, kernel: Kernel, loop: Sequential, s: Statement, names: Sequence[str]
) -> Rewrite | None:
    number = next(n for n, unit in enumerate(loop.units) if unit == (s,))
    if movable(kernel, loop, behind=True, only=number) != [number]:
        return None
    steps = [f"retention: `{n}` of every iteration of `{loop.axis.name}` is kept" for n in names]
    return moved_out(before, kernel, loop, [number], steps, behind=True)


def _copy(kernel: Kernel, s: Statement, source: Operand, target: Operand, t: Index) -> Statement:
    """All elements of an array copied to the place of an iteration, in the loops of a statement."""
    own = with_statements(kernel, [s])
    names = [free_name(own, f"e{d}") for d in range(len(source.shape))]
    axes = tuple(Axis(n, e) for n, e in zip(names, source.shape, strict=True))
    here = tuple(Index.of(n) for n in names)
    assign = Assign(Read(target.name, (t, *here), target.dtype), None, Read(source.name, here, source.dtype))
    return replace(s, axes=axes, assign=assign, accumulator=target.dtype)
