"""Block several statements by one shared loop over an axis: each block runs all statements in order.

    for c in C, p in 8 { T[c, p] = …; }              seq p_block in 2 {
    for k in K, c in C, p in 8 {              →        for c in C, p in 4 { T[c, p] = … p + 4*p_block …; }
      Y[k, p] += T[c, p] * G[k, c];                    for k in K, c in C, p in 4 {
    }                                                    Y[k, p + 4*p_block] += T[c, p] * G[k, c]; } }

with `T: f32[C, 4]` instead of `T: f32[C, 8]`: the rows that a block fills are read while they are in a near
cache. Blocks of another shape, at the edges of an image and at the end of an axis, are separate. Each block
fills the rows that it reads: rows that two blocks read are computed twice.

If iterations of the axis are independent through all iterations of an ordered loop, the loop over blocks is
outside that loop: values carried from one iteration to the next then stay in a near cache, or in registers.

    seq t in T { for n in 64 {             →         seq n_block in 2 { seq t in T { for n in 32 {
      c[n] = cos(a[n]); a[n] += c[n]; } }              c[n] = cos(a[n + 32*n_block]); … } } }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from isamap.ir import Assign, Axis, Index, Kernel, Loop, Operand, Read, Stmt, substitute_stmt
from isamap.ir.dependences import check_dependences
from isamap.ir.facts import known_facts
from isamap.source import UsageProblem, dataclass, replace
from isamap.transform import rewrite
from isamap.transform.block_check import Samples, check_blocks
from isamap.transform.shared_elements import Conflicts, never_meet, writes_all
from isamap.transform.statements import Statement, in_ordered_loops, statements

MOST = 1 << 14
"""Rows that are looked at one by one, and blocks whose shapes are compared."""
Span = tuple[int, int]
"""The first row, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks along an axis. Units: `size` in elements of the axis."""

    axis: str
    size: int

    def __str__(self) -> str:
        return f"{self.axis} by {self.size}"


def in_blocks(kernel: Kernel, blocks: Sequence[Blocks]) -> Kernel:
    """Return a canonical kernel with statements in loops over blocks, the first of `blocks` outermost.

    Raises: UsageProblem if statements may not share a loop, or share nothing.
    """
    own = ordered_axes(kernel)
    for one in blocks:
        found = share_blocks(kernel, one, own)
        if isinstance(found, str):
            raise UsageProblem.of(
                "blocks-refused",
                f"the kernel cannot run in blocks `{one}`: {found}",
                help="`isamap explain blocks-refused` lists the conditions on the statements",
            )
        kernel = found
    return kernel


def ordered_axes(kernel: Kernel) -> frozenset[str]:
    """Return the axes of a kernel's ordered loops."""
    return frozenset(a.name for s in statements(kernel) for a in s.sequence)


def share_blocks(kernel: Kernel, blocks: Blocks, own: frozenset[str] = frozenset()) -> Kernel | str:
    """Return the kernel with statements in one loop over blocks, or the reason why that is impossible.

    `own` are the axes of ordered loops of the kernel itself, outside of which the new loop may be.
    """
    kept: frozenset[str] = frozenset()
    while True:
        members = find_members(kernel, blocks.axis, own, kept)
        if isinstance(members, str):
            return members
        if blocks.size >= members.extent:
            return kernel
        what, each = ("blocks", blocks.size) if members.are_independent else ("iterations", 1)
        if (many := members.extent // each) > MOST:
            return f"`{blocks.axis}` has {many} {what}; the limit is {MOST}"
        rows = [_rows(members, span) for span in _spans(members.extent, blocks.size)]
        whole = {name for name in members.shrunk if _length(name, rows) >= _extent(kernel, members, name)}
        if not whole:
            break
        kept |= whole
    after = _build_kernel(kernel, members, rows, blocks.axis)
    if not rewrite.is_accepted(kernel, after, batched=True):
        return "what comes of it is not a kernel"
    samples = _samples(members.extent, blocks.size) if members.are_independent else None
    said = check_blocks(kernel, after, members.dimensions, samples)
    return f"in blocks, {said[0]}" if said else after


def _samples(extent: int, size: int) -> Samples:
    """Return the first and the last blocks. If all are equal, they represent all but the remainder."""
    whole = extent // size
    iterations = frozenset(t for t in (0, 1, whole - 1) if 0 <= t < whole)
    rows = {r for t in iterations for r in range(t * size, (t + 1) * size)}
    return Samples(frozenset(rows.union(range(whole * size, extent))), iterations)


# --- which rows -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one block, by statement number and by temporary."""

    of: dict[int, Span]
    held: dict[str, Span]

    def has_same_rows(self, other: Rows) -> bool:
        """Return whether another block has the same numbers of rows."""
        return self.of.keys() == other.of.keys() and all(
            mine[1] - mine[0] == its[1] - its[0]
            for one, two in ((self.of, other.of), (self.held, other.held))
            for mine, its in zip(one.values(), two.values(), strict=True)
        )

    @property
    def starts(self) -> tuple[int, ...]:
        return (*(low for low, _ in self.of.values()), *(low for low, _ in self.held.values()))


def _spans(extent: int, size: int) -> Iterator[Span]:
    return ((low, min(low + size, extent)) for low in range(0, extent, size))


def _length(name: str, rows: Sequence[Rows]) -> int:
    return max(high - low for one in rows for low, high in (one.held[name],))


def _extent(kernel: Kernel, members: Members, name: str) -> int:
    return kernel.operand(name).shape[members.shrunk[name]].value or 0


def _rows(members: Members, span: Span) -> Rows:
    """Return the rows of one block, with all rows of temporaries that they need."""
    of = {n: span for n in members.rows if n not in members.fillers}
    held: dict[str, Span] = {}
    while True:
        before = dict(held)
        for n in sorted(members.rows, reverse=True):
            s, target = members.given[n], members.given[n].assign.target
            if n in members.fillers:
                if target.buffer not in held:
                    continue
                of[n] = _find_writing_rows(s, members, n, held[target.buffer])
            if of[n][0] >= of[n][1]:
                continue
            for r in rewrite.accesses(s):
                if r.buffer in members.shrunk:
                    need = _subscript_range(r.index[members.shrunk[r.buffer]], s, members.rows[n], of[n])
                    a = held.get(r.buffer, need)
                    held[r.buffer] = min(a[0], need[0]), max(a[1], need[1])
        if held == before:
            break
    return Rows(
        {n: of[n] for n in sorted(of) if of[n][0] < of[n][1]},
        {t: held.get(t, (0, 0)) for t in members.shrunk},
    )


def _subscript_range(index: Index, s: Statement, row: str, span: Span) -> Span:
    """Return the range of a subscript if the row axis is within a span."""
    low = high = index.constant
    for axis in s.axes:
        step = _step(index, axis.name)
        first, last = (span[0], span[1] - 1) if axis.name == row else (0, _extent_of(axis) - 1)
        low, high = low + min(step * first, step * last), high + max(step * first, step * last)
    return low, high + 1


def _find_writing_rows(s: Statement, members: Members, n: int, held: Span) -> Span:
    """Return the rows of a statement that write elements of the buffer."""
    name = members.rows[n]
    index = s.assign.target.index[members.shrunk[s.assign.target.buffer]]
    step, extent = _step(index, name), next(_extent_of(a) for a in s.axes if a.name == name)
    low, high = _subscript_range(index, s, name, (0, 1))  # of row 0
    return max(0, -((high - 1 - held[0]) // step)), min(extent, (held[1] - 1 - low) // step + 1)


def _step(index: Index, axis: str) -> int:
    found = index.coefficient(axis)
    return (found.value if found is not None else None) or 0


def _extent_of(axis: Axis) -> int:
    assert axis.extent.value is not None, "sizes of what is cut are known"
    return axis.extent.value


# --- the loops --------------------------------------------------------------------------------------------


def _build_kernel(kernel: Kernel, members: Members, rows: Sequence[Rows], axis: str) -> Kernel:
    """Return the kernel with a loop for each run of consecutive blocks at equal distances."""
    iteration = rewrite.free_name(kernel, f"{axis}_block")
    numbers = count(1 + max((n for s in members.given for n in s.ordered_loops), default=0))
    first, last = min(members.rows), max(members.rows)
    inside = [s for run in _runs(rows) for s in _run_blocks(members, run, iteration, numbers)]
    moved = (members.given[n] for n in members.moved)
    operands = [_shrink_shape(o, members, rows) for o in kernel.operands]
    every = (*members.given[:first], *moved, *inside, *members.given[last + 1 :])
    return rewrite.with_statements(kernel, every, operands)


def _runs(rows: Sequence[Rows]) -> Iterator[tuple[Rows, ...]]:
    run: list[Rows] = []
    for block in rows:
        if run and not (run[-1].has_same_rows(block) and _is_as_far(run, block)):
            yield tuple(run)
            run = []
        run.append(block)
    yield tuple(run)


def _is_as_far(run: Sequence[Rows], block: Rows) -> bool:
    return len(run) < 2 or _distances(run[-1], block) == _distances(*run[:2])


def _distances(a: Rows, b: Rows) -> tuple[int, ...]:
    return tuple(y - x for x, y in zip(a.starts, b.starts, strict=True))


def _run_blocks(
    members: Members, run: Sequence[Rows], iteration: str, numbers: Iterator[int]
) -> Iterator[Statement]:
    """Yield the statements of some blocks, inside a loop if there are several blocks."""
    first, following = run[0], run[min(1, len(run) - 1)]
    iterations = Index.of(iteration) if len(run) > 1 else Index.of(0)
    around = (Axis(iteration, Index.of(len(run))),) if len(run) > 1 else ()
    loops = tuple(next(numbers) for _ in around)
    inner = {n: next(numbers) for n in members.loops[members.depth :]}

    def start(mine: Span, its: Span) -> Index:
        return iterations * (its[0] - mine[0]) + mine[0]

    held = {name: start(first.held[name], following.held[name]) for name in members.shrunk}
    for n, span in first.of.items():
        s, name = members.given[n], members.rows[n]
        cut = _cut_rows(s, name, start(span, following.of[n]), span[1] - span[0])
        cut = rewrite.map_accesses(cut, lambda r: _held_read(r, members, held))
        outer, own = cut.sequence[: members.depth], cut.sequence[members.depth :]
        yield replace(
            cut,
            sequence=(*outer, *around, *own),
            ordered_loops=(*members.loops[: members.depth], *loops, *inner.values()),
        )


def _cut_rows(s: Statement, name: str, start: Index, length: int) -> Statement:
    """Return the statement for some rows only, counted from the first. A single row needs no axis."""
    here = start if length == 1 else start + Index.of(name)
    assign = substitute_stmt(s.assign, {name: here})
    assert isinstance(assign, Assign)
    shorter = (replace(a, extent=Index.of(length)) if a.name == name else a for a in s.axes)
    return replace(s, assign=assign, axes=tuple(a for a in shorter if length > 1 or a.name != name))


def _held_read(read: Read, members: Members, held: dict[str, Index]) -> Read:
    at = members.shrunk.get(read.buffer)
    if at is None:
        return read
    return replace(read, index=(*read.index[:at], read.index[at] - held[read.buffer], *read.index[at + 1 :]))


def _shrink_shape(o: Operand, members: Members, rows: Sequence[Rows]) -> Operand:
    at = members.shrunk.get(o.name)
    if at is None:
        return o
    return replace(o, shape=(*o.shape[:at], Index.of(_length(o.name, rows)), *o.shape[at + 1 :]))


# Which statements may share a loop over blocks of an axis, and which of their temporaries shrink to a block.
#
#     T[c, p] += X[c, p + r] * F[c, r];      over blocks of p: T[c, p] is read where p says, so that a block
#     Y[k, p] += T[c, p] * G[k, c];          of the second statement needs that block of T and no other
#
# A temporary that only these statements use shrinks along the one axis by which they read it; what fills it
# runs for what a block reads, halos of windows included, once for each block that reads it. Other arrays that
# they write are used block by block alike, so that no statement needs what another one does in a later block.


@dataclass(frozen=True, slots=True)
class Members:
    """Statements of one loop over blocks, by number, in order.

    `rows` names the axis of each that is cut. `shrunk` are temporaries with the dimension in which they
    shrink. `fillers` are the statements that fill these: they run for the rows that are read. `moved` are
    statements in between that are not members, and run before. The loop over blocks is inside the `depth`
    outermost ordered loops around the members. `are_independent` says that no row needs another one.
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
        """Return whether shrinking arrays are only read at rows of the block, which fillers write."""
        reads = ((r, name) for n, name in self.rows.items() for r in rewrite.accesses(self.given[n]))
        return all(
            str(r.index[self.shrunk[r.buffer]]) == name for r, name in reads if r.buffer in self.shrunk
        )

    @property
    def loops(self) -> tuple[int, ...]:
        """The numbers of the ordered loops around the members."""
        return self.given[min(self.rows)].ordered_loops

    @property
    def written(self) -> frozenset[str]:
        """The arrays that the members write and that do not shrink."""
        return frozenset(self.given[n].assign.target.buffer for n in self.rows) - self.shrunk.keys()

    @property
    def dimensions(self) -> dict[str, int]:
        """The dimension in which each written array is split. Arrays that are not split are omitted."""
        at: dict[str, set[int]] = {}
        for n, name in self.rows.items():
            for r in rewrite.accesses(self.given[n]):
                plain = {d for d, i in enumerate(r.index) if str(i) == name}
                at[r.buffer] = at.get(r.buffer, plain) & plain
        return {name: min(at[name]) for name in sorted(self.written) if at[name]} | self.shrunk


def find_members(
    kernel: Kernel, axis: str, own: frozenset[str] = frozenset(), kept: frozenset[str] = frozenset()
) -> Members | str:
    """Return the statements that share blocks of an axis, or a reason. `kept` temporaries do not shrink.

    The last statement over an axis of that name determines its length and the ordered loops around. The loop
    over blocks may be outside the loops of the axes `own`.
    """
    given = statements(kernel)
    last = max((n for n, s in enumerate(given) if _axis(s, axis)), default=None)
    if last is None:
        return f"no statement has a loop over `{axis}` that is free of order"
    start = last
    while start and given[start - 1].ordered_loops == given[last].ordered_loops:
        start -= 1
    run = range(start, last + 1)
    end = _axis(given[last], axis)
    extent = end.extent.value if end else None
    given_by_call = next((a.name for n in run for a in given[n].axes if a.extent.value is None), None)
    if extent is None or given_by_call is not None:
        return f"how long `{given_by_call or axis}` is has to be known"
    while True:
        rows, shrunk, wrong = _follow_temporaries(kernel, given, run, axis, extent, kept)
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
    """Return whether no row depends on another row, through all iterations of the ordered loops around them.

    The verifier proves it for a kernel in which the axis is one unordered loop around the statements.
    """
    axes = [_axis(members.given[n], name) for n, name in members.rows.items()]
    if members.moved or any(a is None or (a.name, a.extent.value) != (axis, members.extent) for a in axes):
        return False
    inside: list[tuple[Statement, Stmt]] = []
    for n in sorted(members.rows):
        s = members.given[n]
        inside.append((s, rewrite.alone(replace(s, axes=tuple(a for a in s.axes if a.name != axis)))))
    body = in_ordered_loops(inside, lambda a, inner: Loop((a,), inner, ordered=True))
    whole = Loop((Axis(axis, Index.of(members.extent)),), body)
    return not any(check_dependences(replace(kernel, body=(whole,)), known_facts(kernel)))


def _depth(members: Members, own: frozenset[str]) -> int:
    """Return the number of ordered loops around the loop over independent blocks."""
    around = members.given[min(members.rows)].sequence
    first = next((d for d, a in enumerate(around) if a.name in own), len(around))
    number = members.loops[first : first + 1]
    inside = {n for n, s in enumerate(members.given) if s.ordered_loops[first : first + 1] == number}
    return first if inside == members.rows.keys() else len(around)


def _axis(s: Statement, name: str) -> Axis | None:
    return next((a for a in s.axes if a.name == name), None)


def _follow_temporaries(
    kernel: Kernel, given: Sequence[Statement], run: range, axis: str, extent: int, kept: frozenset[str]
) -> tuple[dict[int, str], dict[str, int], str | None]:
    """Return axes and temporaries, traced from the last statement back to the statements that fill its inputs.

    The third result is a temporary that cannot shrink, for a new attempt.
    """
    may_shrink = {o.name for o in kernel.operands if o.role == "temp" and o.strides is None} - kept
    rows: dict[int, str] = {}
    shrunk: dict[str, int] = {}
    for n in reversed(run):
        s, target = given[n], given[n].assign.target
        if target.buffer in shrunk:
            leading = _leading_axis(target.index[shrunk[target.buffer]], s)
            if leading is None:
                return rows, shrunk, target.buffer
            rows[n] = leading
        elif (own := _axis(s, axis)) and own.extent.value == extent:
            rows[n] = axis
        else:
            continue
        for r in rewrite.accesses(s):
            if r.buffer in may_shrink:
                at = [d for d, i in enumerate(r.index) if rows[n] in i.symbols]
                if (
                    len(at) != 1
                    or shrunk.setdefault(r.buffer, at[0]) != at[0]
                    or not _is_linear(r.index[at[0]], s)
                ):
                    return rows, shrunk, r.buffer
    for n, s in enumerate(given):
        for r in rewrite.accesses(s):
            if r.buffer in shrunk and n not in rows:
                return rows, shrunk, r.buffer
    return rows, shrunk, None


def _is_linear(index: Index, s: Statement) -> bool:
    """Return whether a subscript is a sum of multiples of the statement's own axes."""
    names = {a.name for a in s.axes if a.extent.value is not None}
    return index.symbols <= names and all(
        len(m) <= 1 and all(isinstance(a, str) for a in m) for m, _ in index.terms
    )


def _leading_axis(index: Index, s: Statement) -> str | None:
    """Return the axis with the largest step in a subscript, or None if it is no axis or the step is negative."""
    if not _is_linear(index, s):
        return None
    steps = sorted(((c, m[0]) for m, c in index.terms if m), reverse=True, key=lambda t: t[0])
    return str(steps[0][1]) if steps and steps[-1][0] > 0 else None


# --- what must hold ---------------------------------------------------------------------------------------


def _objection(kernel: Kernel, members: Members) -> str | None:
    """Return why statements may not share their blocks, or None."""
    of = Conflicts.of(kernel)
    return next(
        (why for check in (_in_step, _find_remaining, _find_immovable) for why in check(members, of)), None
    )


def _in_step(members: Members, of: Conflicts) -> Iterator[str]:
    """Yield accesses to arrays that may read a result of a later block."""
    cut = members.dimensions
    for n in members.rows:
        for r in rewrite.accesses(members.given[n]):
            if r.buffer not in members.written:
                continue
            early = n in members.fillers and not members.fits
            if r.buffer not in cut or early or r.buffer in of.whole:
                yield f"`{rewrite.line_of(members.given[n])}` may read a later block's result in `{r.buffer}`"


def _find_remaining(members: Members, of: Conflicts) -> Iterator[str]:
    """Yield temporaries with values that survive from one iteration of an ordered loop to the next."""
    for name in members.shrunk:
        own = [members.given[n] for n in sorted(members.rows)]
        touching = [s for s in own if any(r.buffer == name for r in rewrite.accesses(s))]
        reading = (i for i, s in enumerate(touching) if s.assign.op or _is_read(name, s))
        filling = touching[: next(reading, len(touching))]
        if own[0].sequence and not writes_all(filling, of.kernel.operand(name), of):
            yield f"`{name}` may hold a value from an earlier iteration of the loop around"


def _is_read(name: str, s: Statement) -> bool:
    return any(r.buffer == name for r in rewrite.accesses(s)[1:])


def _find_immovable(members: Members, of: Conflicts) -> Iterator[str]:
    """Yield why statements between members cannot run before all blocks."""
    for n in members.moved:
        for m in members.rows:
            if m < n and not never_meet(members.given[m], members.given[n], of):
                yield f"`{rewrite.line_of(members.given[n])}` needs `{rewrite.line_of(members.given[m])}` as a whole"
