"""Two iterations of a `for` that touch one element, found by listing what small loops touch.

`for n in N { y[n / 2] = x[n]; }` has them: "y[0] for N = 2, n = 0 and n = 1".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from isamap.ir.nodes import Param, Read, Routine
from isamap.ir.samples import evaluate_on, grid, may_hold_on, sample_sizes, symbols_of
from isamap.ir.sites import Site

_POINTS = 200_000
# Of counterexamples: sizes that show something are small, and a refusal should not be long in coming.
_SAMPLES = 12
_SAMPLE_POINTS = 20_000

_Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """An access and where it stands."""

    read: Read
    site: Site

    @property
    def symbols(self) -> frozenset[str]:
        """What is to be known to list what it touches."""
        found = {s for index in self.read.index for s in index.symbols}
        return frozenset(found.union(*(symbols_of(c) for c in self.site.conditions)))


def listed_apart(f: Access, g: Access, unordered: list[str]) -> bool:
    """Whether, all extents being small numbers, listing all elements shows that no two iterations meet."""
    axes = (*f.site.axes, *g.site.axes)
    if any(x.ordered or x.extent.value is None for x in axes):
        return False
    known = f.site.extents.keys() | g.site.extents.keys()
    if not f.symbols | g.symbols <= known:
        return False
    mine, its = _touched(f, (), unordered, {}, _POINTS), _touched(g, (), unordered, {}, _POINTS)
    if mine is None or its is None:
        return False
    return all(len(mine[e] | its[e]) == 1 for e in mine.keys() & its.keys())


def find_meeting(routine: Routine, f: Access, g: Access, axis: str, constants: Iterable[Param]) -> str | None:
    """Two iterations that differ in an axis and touch one element, in words; None where none is found."""
    loop = next(x.loop for x in f.site.axes if x.name == axis)
    outer = [x.name for x in f.site.axes if x.ordered and x.loop < loop]
    for env in sample_sizes(routine, constants, _SAMPLES):
        mine = _touched(f, outer, [axis], env, _SAMPLE_POINTS) or {}
        its = (_touched(g, outer, [axis], env, _SAMPLE_POINTS) or {}) if mine else {}
        for key in sorted(mine.keys() & its.keys()):
            both = (mine[key], its[key])
            if len(both[0] | both[1]) > 1:
                return _in_words(routine, f, axis, env, key[: len(f.read.index)], *both)
    return None


def _in_words(
    routine: Routine,
    f: Access,
    axis: str,
    env: Mapping[str, int],
    element: _Key,
    mine: set[_Key],
    its: set[_Key],
) -> str:
    first, second = next((a, b) for (a,) in sorted(mine) for (b,) in sorted(its) if a != b)
    subscripts = f"[{', '.join(map(str, element))}]" if element else ""
    sizes = "".join(f"{p.name} = {env[p.name]}, " for p in routine.params if p.name in env)
    return f"both touch {f.read.buffer}{subscripts}: for {sizes}{axis} = {first} and {axis} = {second}"


def _touched(
    access: Access, fixed: Iterable[str], axes: list[str], env: Mapping[str, int], limit: int
) -> dict[_Key, set[_Key]] | None:
    """The values of axes that touch each element, at each value of the fixed ones; None where too many."""
    site = access.site
    points = grid(site.extents, env, limit)
    if points is None:
        return None
    count = len(next(iter(points.values()))) if points else 1
    runs = [may_hold_on(condition, env, points, count) for condition in site.conditions]
    keys = [evaluate_on(i, env, points, count).tolist() for i in access.read.index]
    keys += [points[name].tolist() for name in fixed]
    values = [points[name].tolist() for name in axes]
    found: dict[_Key, set[_Key]] = {}
    for n in range(count):
        if all(run[n] for run in runs):
            key = tuple(at[n] for at in keys)
            found.setdefault(key, set()).add(tuple(at[n] for at in values))
    return found
