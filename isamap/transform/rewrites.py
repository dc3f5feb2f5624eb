"""All rewrites of a kernel: single ones, and sequences that enable each other.

Of a recurrent cell whose gates are written one by one the last is the one to look at: equal statements
merged, then taken out of the loop over time as far as they do not depend on the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from isamap.ir import Kernel
from isamap.transform.batching import batchings
from isamap.transform.flattening import flattenings
from isamap.transform.fusion import fission, fusions, reorderings
from isamap.transform.inlining import inline_temporaries, inlinings, refused_inlinings
from isamap.transform.ordered_loops import distributions, hoistings, retentions
from isamap.transform.rewrite import Refusal, Rewrite, is_rewritable
from isamap.transform.split_sums import merges, partings, splits
from isamap.transform.zero_points import shifts, without_zero_points

_MOST_STEPS = 40
"""Rewrites that are made one after the other; each removes a statement or takes one out of a loop."""


def rewrites(kernel: Kernel) -> tuple[Rewrite, ...]:
    """Return kernels that compute what a verified kernel does, each by rewrites that are proved legal.

    First what a single rewrite gives: fission, batching, hoisting, retention, ordered loops as several,
    merged and split initialisations, flattened arrays, shifted factors, zero points taken out, fusion,
    reordering, parting, inlining. Then all inlining; batching, hoisting and retention together, as far as
    they go, and parting behind them. No two are equal, and none is the kernel as written.
    Factorisations are apart (`factorisations`): they change what is computed in floats by more than the
    order of sums.
    """
    if not is_rewritable(kernel):
        return ()
    found: dict[Kernel, Rewrite] = {}
    for r in (*_single(kernel), *_together(kernel)):
        if r.kernel != kernel:
            found.setdefault(r.kernel, r)
    return tuple(found.values())


def refused_rewrites(kernel: Kernel) -> tuple[Refusal, ...]:
    """Return merges that other declarations of arrays would allow, and temporaries that are not inlined."""
    if not is_rewritable(kernel):
        return ()
    merged = (r for r in batchings(kernel) if isinstance(r, Refusal))
    return tuple(dict.fromkeys((*merged, *refused_inlinings(kernel))))


def _single(kernel: Kernel) -> Iterator[Rewrite]:
    parted = fission(kernel)
    if parted is not None:
        yield parted
    for make in (
        _merged,
        hoistings,
        retentions,
        distributions,
        merges,
        splits,
        flattenings,
        shifts,
        without_zero_points,
        fusions,
        reorderings,
        partings,
        inlinings,
    ):
        yield from make(kernel)


def _merged(kernel: Kernel) -> Iterator[Rewrite]:
    return (r for r in batchings(kernel) if isinstance(r, Rewrite))


def _together(kernel: Kernel) -> Iterator[Rewrite]:
    """Yield the kernel after all batching; after that and all hoisting; after that with sums of gates parted again;
    and after both with all sums by themselves.

    A sum that has a temporary of its own can be merged with others whatever they are added to: the gates of
    a cell of which two add the input's part and the state's, and the third keeps them apart.
    """
    moves = (_merged, hoistings, retentions)
    batched = _exhausted(Rewrite(kernel, ()), (_merged,))
    parted = _exhausted(Rewrite(kernel, ()), (splits,))
    together = _exhausted(batched, moves)
    for last in (
        inline_temporaries(kernel),
        batched,
        together,
        _exhausted(together, (partings,)),
        _exhausted(parted, moves),
    ):
        if len(last.steps) > 1 and last.steps != parted.steps:
            yield last


def _exhausted(start: Rewrite, make: Iterable[Callable[[Kernel], Iterator[Rewrite]]]) -> Rewrite:
    """Return the last of the kernels of which each is the first rewrite of the one before."""
    for _ in range(_MOST_STEPS):
        following = next((r for m in make for r in m(start.kernel)), None)
        if following is None:
            break
        start = Rewrite(following.kernel, (*start.steps, *following.steps))
    return start
