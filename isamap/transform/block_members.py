"""Which statements may share a loop over blocks of an axis, and which of their temporaries shrink to a block.

    T[c, p] += X[c, p + r] * F[c, r];      over blocks of p: T[c, p] is read where p says, so that a block of
    Y[k, p] += T[c, p] * G[k, c];          the second statement needs that block of T and no other

A temporary that only these statements use shrinks along the one axis by which they read it; what fills it
runs for what a block reads, halos of windows included, once for each block that reads it. Other arrays that
they write are used block by block alike, so that no statement needs what another one does in a later block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from isamap.ir import Axis, Index, Kernel, Loop, Stmt
from isamap.ir.dependences import check_dependences
from isamap.ir.facts import known_facts
from isamap.transform.rewrite import accesses, alone, shown
from isamap.transform.shared_elements import Conflicts, never_meet, writes_all
from isamap.transform.statements import Statement, in_ordered_loops, statements


@dataclass(frozen=True, slots=True)
class Members:
    """Statements of one loop over blocks, by number, in their order.

    `rows` names the axis of each that is cut; `shrunk` are temporaries with the dimension in which they
    shrink. `fillers` are the statements that fill these: they run for what is read. `moved` are statements
    in between that take no part, and run before. The loop over blocks stands inside so many, `depth`, of the
    ordered loops around them; `are_independent` says that no row needs another one.
    """

    given: tuple[Statement, ...]
    extent: int
    rows: dict[int, str]
    shrunk: dict[str, int]
    moved: tuple[int, ...]
    depth: int
    are_independent: bool = False

    @property
    def fillers(self) -> frozenset[int]:
        return frozenset(n for n in self.rows if self.given[n].assign.target.buffer in self.shrunk)

    @property
    def fits(self) -> bool:
        """Whether what shrinks is read at the rows of the block and at no others: fillers run for these."""
        reads = ((r, name) for n, name in self.rows.items() for r in accesses(self.given[n]))
        return all(
            str(r.index[self.shrunk[r.buffer]]) == name for r, name in reads if r.buffer in self.shrunk
        )

    @property
    def loops(self) -> tuple[int, ...]:
        """The numbers of the ordered loops around them."""
        return self.given[min(self.rows)].ordered_loops

    @property
    def written(self) -> frozenset[str]:
        """Arrays that they write, and that do not shrink."""
        return frozenset(self.given[n].assign.target.buffer for n in self.rows) - self.shrunk.keys()

    @property
    def dimensions(self) -> dict[str, int]:
        """The dimension in which each array that they write is cut, those that are cut in none left out."""
        at: dict[str, set[int]] = {}
        for n, name in self.rows.items():
            for r in accesses(self.given[n]):
                plain = {d for d, i in enumerate(r.index) if str(i) == name}
                at[r.buffer] = at.get(r.buffer, plain) & plain
        return {name: min(at[name]) for name in sorted(self.written) if at[name]} | self.shrunk


def find_members(
    kernel: Kernel, axis: str, own: frozenset[str] = frozenset(), kept: frozenset[str] = frozenset()
) -> Members | str:
    """The statements that share blocks of an axis; or why there are none. `kept` temporaries do not shrink.

    The last statement over an axis of that name says how long it is, and in which ordered loops they stand;
    around those of the axes `own` that of the blocks may stand.
    """
    given = statements(kernel)
    last = max((n for n, s in enumerate(given) if _axis(s, axis)), default=None)
    if last is None:
        return f"no statement has a loop over `{axis}` that is free of order"
    run = _run_before(given, last)
    end = _axis(given[last], axis)
    extent = end.extent.value if end else None
    if extent is None:
        return f"how long `{axis}` is has to be known"
    while True:
        rows, shrunk, wrong = _followed(kernel, given, run, axis, extent, kept)
        if wrong is None:
            break
        kept |= {wrong}
    moved = tuple(n for n in run if min(rows) < n and n not in rows)
    members = Members(given, extent, rows, shrunk, moved, len(given[last].sequence))
    if _are_independent(kernel, members, axis):
        members = replace(members, depth=_depth(members, own), are_independent=True)
    if not shrunk and members.depth == len(given[last].sequence):
        return f"no temporary shrinks to blocks of `{axis}`"
    return _objection(kernel, members) or members


def _are_independent(kernel: Kernel, members: Members, axis: str) -> bool:
    """Whether no row needs what another one does, through all turns of the ordered loops around them.

    Proved by the verifier of a kernel in which the axis is one loop around the statements, free of order.
    """
    axes = [_axis(members.given[n], name) for n, name in members.rows.items()]
    if members.moved or any(a is None or (a.name, a.extent.value) != (axis, members.extent) for a in axes):
        return False
    inside: list[tuple[Statement, Stmt]] = []
    for n in sorted(members.rows):
        s = members.given[n]
        inside.append((s, alone(replace(s, axes=tuple(a for a in s.axes if a.name != axis)))))
    body = in_ordered_loops(inside, lambda a, inner: Loop((a,), inner, ordered=True))
    whole = Loop((Axis(axis, Index.of(members.extent)),), body)
    return not any(check_dependences(replace(kernel, body=(whole,)), known_facts(kernel)))


def _depth(members: Members, own: frozenset[str]) -> int:
    """In how many ordered loops that of independent blocks stands: in front of the kernel's own ones."""
    around = members.given[min(members.rows)].sequence
    first = next((d for d, a in enumerate(around) if a.name in own), len(around))
    number = members.loops[first : first + 1]
    inside = {n for n, s in enumerate(members.given) if s.ordered_loops[first : first + 1] == number}
    return first if inside == members.rows.keys() else len(around)


def _axis(s: Statement, name: str) -> Axis | None:
    return next((a for a in s.axes if a.name == name), None)


def _run_before(given: Sequence[Statement], last: int) -> range:
    """The statement with those in front of it in the same ordered loops."""
    start = last
    while start and given[start - 1].ordered_loops == given[last].ordered_loops:
        start -= 1
    return range(start, last + 1)


def _followed(
    kernel: Kernel, given: Sequence[Statement], run: range, axis: str, extent: int, kept: frozenset[str]
) -> tuple[dict[int, str], dict[str, int], str | None]:
    """Axes and temporaries, from the last statement back to what fills what it reads.

    The third is a temporary that stays as it is, to begin anew with.
    """
    may_shrink = {o.name for o in kernel.operands if o.role == "temp" and o.strides is None} - kept
    rows: dict[int, str] = {}
    shrunk: dict[str, int] = {}
    for n in reversed(run):
        s, target = given[n], given[n].assign.target
        if target.buffer in shrunk:
            leading = _leading(target.index[shrunk[target.buffer]], s)
            if leading is None:
                return rows, shrunk, target.buffer
            rows[n] = leading
        elif (own := _axis(s, axis)) and own.extent.value == extent:
            rows[n] = axis
        else:
            continue
        for r in accesses(s):
            if r.buffer in may_shrink:
                at = [d for d, i in enumerate(r.index) if rows[n] in i.symbols]
                if (
                    len(at) != 1
                    or shrunk.setdefault(r.buffer, at[0]) != at[0]
                    or not _is_linear(r.index[at[0]], s)
                ):
                    return rows, shrunk, r.buffer
    for n, s in enumerate(given):
        for r in accesses(s):
            if r.buffer in shrunk and n not in rows:
                return rows, shrunk, r.buffer
    return rows, shrunk, None


def _is_linear(index: Index, s: Statement) -> bool:
    """Whether a subscript adds multiples of the statement's own axes, and nothing else."""
    names = {a.name for a in s.axes if a.extent.value is not None}
    return index.symbols <= names and all(
        len(m) <= 1 and all(isinstance(a, str) for a in m) for m, _ in index.terms
    )


def _leading(index: Index, s: Statement) -> str | None:
    """The axis that moves a subscript farthest; None where that is no axis, or one that goes backwards."""
    if not _is_linear(index, s):
        return None
    steps = sorted(((c, m[0]) for m, c in index.terms if m), reverse=True, key=lambda t: t[0])
    return str(steps[0][1]) if steps and steps[-1][0] > 0 else None


# --- what must hold ---------------------------------------------------------------------------------------


def _objection(kernel: Kernel, members: Members) -> str | None:
    """Why statements may not share their blocks; None where they may."""
    of = Conflicts.of(kernel)
    return next((why for check in (_in_step, _filled, _movable) for why in check(members, of)), None)


def _in_step(members: Members, of: Conflicts) -> Iterator[str]:
    """Arrays that do not shrink are touched in one block by what is for that block."""
    cut = members.dimensions
    for n in members.rows:
        for r in accesses(members.given[n]):
            if r.buffer not in members.written:
                continue
            early = n in members.fillers and not members.fits
            if r.buffer not in cut or early or r.buffer in of.whole:
                yield f"`{shown(members.given[n])}` may need what a later block does to `{r.buffer}`"


def _filled(members: Members, of: Conflicts) -> Iterator[str]:
    """Inside ordered loops nothing of a temporary is left from the iteration before."""
    for name in members.shrunk:
        own = [members.given[n] for n in sorted(members.rows)]
        touching = [s for s in own if any(r.buffer == name for r in accesses(s))]
        reading = (i for i, s in enumerate(touching) if s.assign.op or _is_read(name, s))
        filling = touching[: next(reading, len(touching))]
        if own[0].sequence and not writes_all(filling, of.kernel.operand(name), of):
            yield f"`{name}` may hold what an earlier iteration of the loop around left in it"


def _is_read(name: str, s: Statement) -> bool:
    return any(r.buffer == name for r in accesses(s)[1:])


def _movable(members: Members, of: Conflicts) -> Iterator[str]:
    """Statements in between that take no part can run before all blocks."""
    for n in members.moved:
        for m in members.rows:
            if m < n and not never_meet(members.given[m], members.given[n], of):
                yield f"`{shown(members.given[n])}` needs `{shown(members.given[m])}` as a whole"
