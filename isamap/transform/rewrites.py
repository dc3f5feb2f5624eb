"""All rewrites of a kernel: single ones, and sequences in which one rewrite enables the next.

For a recurrent cell with separately written gates, the last one is the most useful: it merges equal
statements and hoists those that do not depend on the state out of the loop over time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

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
"""The most consecutive rewrites; each removes a statement or moves one out of a loop."""


def _merge_ordered(kernel: Kernel) -> Iterator[Rewrite]:
    return (r for r in batchings(kernel) if isinstance(r, Rewrite))


REWRITINGS: Mapping[str, Callable[[Kernel], Iterable[Rewrite]]] = {
    "fission": lambda kernel: filter(None, [fission(kernel)]),
    "batching": _merge_ordered,
    "hoisting": hoistings,
    "retention": retentions,
    "distribution": distributions,
    "merging": merges,
    "splitting": splits,
    "flattening": flattenings,
    "shifting": shifts,
    "zero points": without_zero_points,
    "fusion": fusions,
    "reordering": reorderings,
    "parting": partings,
    "inlining": inlinings,
}
"""Single rewrites, in the order in which they are listed; `tests/snapshots/rewrites` has an example of each."""


def rewrites(kernel: Kernel) -> tuple[Rewrite, ...]:
    """Return kernels equivalent to a verified kernel, each by rewrites that are proved legal.

    Single rewrites come first, in the order of `REWRITINGS`. Then come sequences: all inlining; batching, hoisting
    and retention to the end, also followed by parting. No two are equal, and none is the kernel as written.
    Factorisations are separate (`factorisations`): they change float results by more than the order of sums.
    """
    if not is_rewritable(kernel):
        return ()
    found: dict[Kernel, Rewrite] = {}
    single = chain.from_iterable(make(kernel) for make in REWRITINGS.values())
    for r in (*single, *_together(kernel)):
        if r.kernel != kernel:
            found.setdefault(r.kernel, r)
    return tuple(found.values())


def refused_rewrites(kernel: Kernel) -> tuple[Refusal, ...]:
    """Return the batchings that declared strides prevent, and the temporaries that are not inlined."""
    if not is_rewritable(kernel):
        return ()
    merged = (r for r in batchings(kernel) if isinstance(r, Refusal))
    return tuple(dict.fromkeys((*merged, *refused_inlinings(kernel))))


def _together(kernel: Kernel) -> Iterator[Rewrite]:
    """Yield the kernel after all batching, then after all hoisting, and then with sums of gates split.

    A sum with its own temporary can be merged with others, whatever it is added to. In some cells two gates
    add the input's part and the state's, and the third one keeps them separate.
    """
    moves = (_merge_ordered, hoistings, retentions)
    batched = _apply_until_done(Rewrite(kernel, ()), (_merge_ordered,))
    parted = _apply_until_done(Rewrite(kernel, ()), (splits,))
    together = _apply_until_done(batched, moves)
    for last in (
        inline_temporaries(kernel),
        batched,
        together,
        _apply_until_done(together, (partings,)),
        _apply_until_done(parted, moves),
    ):
        if len(last.steps) > 1 and last.steps != parted.steps:
            yield last


def _apply_until_done(start: Rewrite, make: Iterable[Callable[[Kernel], Iterator[Rewrite]]]) -> Rewrite:
    """Return the kernel after rewriting by the first rewrite again and again, until there is none."""
    for _ in range(_MOST_STEPS):
        following = next((r for m in make for r in m(start.kernel)), None)
        if following is None:
            break
        start = Rewrite(following.kernel, (*start.steps, *following.steps))
    return start
