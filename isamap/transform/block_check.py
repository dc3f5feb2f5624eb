"""Check that a kernel in blocks computes what the original kernel computes, by tracing every row.

The trace gives each row of an array a number for its value's origin: rows of inputs, and rows computed
before. The original kernel and the kernel in blocks must leave equal numbers in all rows of persistent
arrays. Other axes and other arrays are compared as text.

    T[c, 5] += X[c, 5 + r] * F[c, r];   Y[k, 5] += T[c, 5] * G[k, c];    before: row 5 of Y from row 5 of T
    T[c, 1] += X[c, 5 + r] * F[c, r];   Y[k, 5] += T[c, 1] * G[k, c];    in blocks of 4: row 1 of the second

The check finds temporaries that are too short, blocks that read rows which another block wrote or has not
yet written, and persistent rows that are computed twice. If rows are known to be independent, a sample of
them is enough, because equal blocks do the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import assert_never

from isamap.ir.index import Index
from isamap.ir.nodes import Assign, Call, Cast, Const, Expr, IndexValue, Kernel, Loop, Read, Scalar, Stmt
from isamap.ir.substitute import substitute_expr
from isamap.source.records import dataclass, field

Key = tuple[str, int]
"""An array and one of its rows."""
_ALL = -1  # a row that is not told from others, of arrays without rows


@dataclass(frozen=True, slots=True)
class Samples:
    """The rows to trace, and the `iterations` that compute them: iterations of the loop over blocks."""

    rows: frozenset[int]
    iterations: frozenset[int]


def check_blocks(
    before: Kernel, after: Kernel, rows: Mapping[str, int], samples: Samples | None = None
) -> tuple[str, ...]:
    """Return the differences between the blocked kernel and the original, or () if both compute the same.

    `rows` says of arrays that both write which dimension their rows are. Others have none. All rows are
    looked at if there are no `samples`.
    """
    numbers: dict[object, int] = {}
    known = frozenset(_ordered_axes(before.body))
    one = _Trace(before, rows, numbers, samples and samples.rows)
    other = _Trace(after, rows, numbers, iterations=samples and samples.iterations)
    try:
        for trace in (one, other):
            trace.run(trace.kernel.body, {}, known)
    except _WrongRow as wrong:
        return (str(wrong),)
    short = {o.name for o, p in zip(before.operands, after.operands, strict=True) if o.shape != p.shape}
    keys = sorted(key for key in one.held.keys() | other.held.keys() if key[0] not in short)
    wrong = (key for key in keys if one.held.get(key) != other.held.get(key))
    return tuple(f"row {row} of `{name}` is computed otherwise" for name, row in islice(wrong, 1))


class _WrongRow(Exception):
    """An exception: a row does not hold the value that its reader needs."""


def _ordered_axes(body: tuple[Stmt, ...]) -> Iterator[str]:
    """Yield the axes of the ordered loops in statements."""
    for s in body:
        if isinstance(s, Loop):
            yield from (a.name for a in s.axes if s.ordered)
            yield from _ordered_axes(s.body)


@dataclass(slots=True)
class _Trace:
    """The origin of each row computed so far. Equal `numbers` mean equal origins in both kernels.

    `only` and `iterations` select the rows and the iterations of a loop over blocks that are traced; None for all.
    """

    kernel: Kernel
    rows: Mapping[str, int]
    numbers: dict[object, int]
    only: frozenset[int] | None = None
    iterations: frozenset[int] | None = None
    held: dict[Key, int] = field(default_factory=dict[Key, int])

    def run(self, body: tuple[Stmt, ...], at: Mapping[str, int], known: frozenset[str]) -> None:
        """Run every statement for every row, block by block. Ordered loops in `known` run once. Raises: _WrongRow."""
        for s in body:
            match s:
                case Assign():
                    self.assign(s, {}, at)
                case Loop(axes, inner, True):
                    new = [a for a in axes if a.name not in known]
                    for iteration in range(new[0].extent.evaluate({}) if new else 1):
                        if new and self.iterations is not None and iteration not in self.iterations:
                            continue
                        self.run(inner, {**at, **{a.name: iteration for a in new}}, known)
                case Loop(axes, inner):
                    for assign in inner:
                        assert isinstance(assign, Assign), "statements of canonical kernels stand alone"
                        self.assign(assign, {a.name: a.extent.value or 0 for a in axes}, at)
                case _:
                    assert_never(s)

    def assign(self, s: Assign, extents: Mapping[str, int], at: Mapping[str, int]) -> None:
        """Perform one statement for each row that it writes."""
        for row in self._rows_of(s.target, extents):
            if self.only is not None and not self.only.issuperset(row.values()):
                continue
            here = {**at, **row}
            (key,) = self._keys(s.target, extents, here)
            old: object = None
            if s.op is not None:
                old = self._find_key(key)
            elif self._is_part(s.target, extents):
                old = self.held.get(key)
            value = substitute_expr(s.value, here)  # what is not a number yet becomes the same number in both
            parts = (s.op, old, self._without_row(s.target, here), *self._parts(value, extents))
            self.held[key] = self.numbers.setdefault(parts, len(self.numbers))

    def _find_key(self, key: Key) -> int | None:
        found = self.held.get(key)
        if found is None and self.kernel.operand(key[0]).role in ("temp", "out"):
            raise _WrongRow(f"`{key[0]}` is used in row {key[1]} before it is filled")
        return found

    def _rows_of(self, target: Read, extents: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Yield the values of the axes that distinguish the rows of a target."""
        dimension = self.rows.get(target.buffer)
        if dimension is None:
            yield {}
            return
        moving = sorted(target.index[dimension].symbols & extents.keys())
        yield from _points(moving, extents)

    def _is_part(self, target: Read, extents: Mapping[str, int]) -> bool:
        """Return whether an assignment may leave elements of a row unchanged."""
        shape = self.kernel.operand(target.buffer).shape
        own = [d for d in range(len(shape)) if d != self.rows.get(target.buffer)]
        names = [name for d in own for name in target.index[d].symbols]
        whole = all(_counts(target.index[d], extents) == shape[d].value for d in own)
        return not whole or len(set(names)) < len(names)

    # --- what is read -------------------------------------------------------------------------------------

    def _parts(self, e: Expr, extents: Mapping[str, int]) -> Iterator[object]:
        """Yield the parts that a value is computed from, in order."""
        match e:
            case Const() | Scalar() | IndexValue():
                yield e
            case Read():
                yield self._without_row(e, {})
                yield from (self._find_key(key) for key in self._keys(e, extents, {}))
            case Call(op, args, _, mode):
                yield op, mode
                for a in args:
                    yield from self._parts(a, extents)
            case Cast(value, dtype, mode):
                yield dtype, mode
                yield from self._parts(value, extents)
            case _:
                assert_never(e)

    def _keys(self, r: Read, extents: Mapping[str, int], at: Mapping[str, int]) -> Iterator[Key]:
        """Yield the rows that an access covers."""
        dimension = self.rows.get(r.buffer)
        if dimension is None:
            yield r.buffer, _ALL
            return
        index = r.index[dimension].substitute(at)
        extent = self.kernel.operand(r.buffer).shape[dimension].value or 0
        for point in _points(sorted(index.symbols & extents.keys()), extents):
            row = index.evaluate(point)
            if not 0 <= row < extent:
                raise _WrongRow(f"`{r.buffer}` is used in row {row}, and has {extent}")
            yield r.buffer, row

    def _without_row(self, r: Read, at: Mapping[str, int]) -> object:
        """Return an access as text, without the subscript of the row."""
        dimension = self.rows.get(r.buffer)
        return r.buffer, *(str(i.substitute(at)) for d, i in enumerate(r.index) if d != dimension)


def _counts(index: Index, extents: Mapping[str, int]) -> int | None:
    """Return the number of values of a subscript that takes each value from 0 on once, else None."""
    total = 1
    for monomial, step in sorted(index.terms, key=lambda term: term[1]):
        match monomial:
            case (str(name),) if name in extents and step == total:
                total *= extents[name]
            case _:
                return None
    return total


def _points(names: list[str], extents: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield all combinations of the values of some axes."""
    if not names:
        yield {}
        return
    for value in range(extents[names[0]]):
        for rest in _points(names[1:], extents):
            yield {names[0]: value, **rest}
