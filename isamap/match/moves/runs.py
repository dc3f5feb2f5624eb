"""Copies of fused axes as runs: as far as elements follow each other along one of them, one move takes many.

    X[(@pq + ~pq) / 56, (@pq + ~pq) % 56, c]     a tile of 256 pixels of rows of 56
    X[@pq / 56 + j, o + start + ~pq - 56*j, c]   run j of it, with o = @pq % 56, start = max(0, 56*j - o)

Counters of one axis that tiles cut anywhere become two, of runs and of what is in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isamap.ir import Index, Read, index_min
from isamap.ir.atoms import FloorDiv, Mod
from isamap.ir.index import ZERO, index_max
from isamap.ir.walk import map_reads
from isamap.match.moves.transfers import Copy
from isamap.transform import reads

Counts = Mapping[str, Index]


def in_runs(copy: Copy, counts: Counts) -> tuple[Copy, dict[str, Index]] | None:
    """The copy with the counter of a fused axis in runs; None where no counter is one of a fused axis."""
    for counter in copy.counters:
        found = {(atom.value, atom.divisor) for atom in _divisions(copy, counter)}
        if len(found) != 1:
            continue
        ((value, divisor),) = found
        before = value - Index.of(counter)
        if divisor.value is None or before.symbols & set(copy.counters):
            continue
        return _cut(copy, counts, counter, before, divisor.value)
    return None


def _cut(
    copy: Copy, counts: Counts, counter: str, before: Index, length: int
) -> tuple[Copy, dict[str, Index]] | None:
    """The copy with a counter in runs no longer than `length`, the first begun `before` its start."""
    run, inside, count = f"{counter}/", Index.of(counter), counts[counter]
    here, skipped = Index.of(run) * length, before.mod(length)
    start = here if skipped.value == 0 else index_max(0, here - skipped)
    end = index_min(count, here + length - skipped)
    most = count.value
    if most is None:
        return None
    runs = index_min((most + length - 1 + length - 1) // length, (skipped + count).ceildiv(length))
    within = Index.of(length) if skipped.value == 0 and most % length == 0 else index_min(length, end - start)
    quotient = before.floordiv(length) + Index.of(run)
    remainder = skipped + start + inside - here

    def moved(index: Index) -> Index:
        return _replaced(index, counter, start + inside, quotient, remainder)

    def at(read: Read) -> Read:
        return Read(read.buffer, tuple(map(moved, read.index)), read.dtype, read.fill, span=read.span)

    counters = tuple(c for name in copy.counters for c in ((run, name) if name == counter else (name,)))
    made = Copy(at(copy.target), map_reads(copy.value, at), counters)
    return made, {**counts, run: runs, counter: within}


def _divisions(copy: Copy, counter: str) -> Iterator[FloorDiv | Mod]:
    """The divisions of a copy that a counter moves."""
    for read in (copy.target, *reads(copy.value)):
        for index in read.index:
            for monomial, _ in index.terms:
                for atom in monomial:
                    if isinstance(atom, FloorDiv | Mod) and counter in atom.value.symbols:
                        yield atom


def _replaced(index: Index, counter: str, plain: Index, quotient: Index, remainder: Index) -> Index:
    """The index with a counter, and its divisions, in terms of runs."""
    found = ZERO
    for monomial, coefficient in index.terms:
        product = Index.of(coefficient)
        for atom in monomial:
            if atom == counter:
                product = product * plain
            elif isinstance(atom, FloorDiv) and counter in atom.value.symbols:
                product = product * quotient
            elif isinstance(atom, Mod) and counter in atom.value.symbols:
                product = product * remainder
            else:
                product = product * Index.of(atom)
        found = found + product
    return found
