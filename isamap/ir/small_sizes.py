"""Small sizes that a routine allows, for finding counterexamples. They explain an error and prove nothing.

A GEMM's samples start with M = N = K = 1, then M = 2, N = 3, K = 4.

It finds two iterations of a `for` that access one element by listing the accesses of small loops:

`for n in N { y[n / 2] = x[n]; }` gives "y[0] for N = 2, n = 0 and n = 1".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from math import lcm

import numpy as np

from isamap.ir.bind import comparison_holds
from isamap.ir.facts import Site
from isamap.ir.index import Index, Mod, typical_value
from isamap.ir.nodes import Call, Cast, Const, Constraint, Expr, IndexValue, Param, Read, Routine, Scalar
from isamap.ir.ops import OPS
from isamap.ir.walk import symbols_of_values
from isamap.source.records import dataclass

_TRIED = 4000


def sample_sizes(
    routine: Routine, constants: Iterable[Param] = (), count: int = 8
) -> Iterator[dict[str, int]]:
    """Yield up to `count` bindings of all parameters and lets that obey ranges and `where`."""
    params = [p for p in (*constants, *routine.params) if p.dtype is None]
    yield from islice(_allowed_sizes(routine, params, _steps(routine)), count)


def _steps(routine: Routine) -> dict[str, int]:
    """Return for each size the number of which `where` makes it a multiple, such as 64 for `K % 64 == 0`."""
    steps: dict[str, int] = {}
    for c in routine.where:
        for monomial, _ in c.left.terms if c.comparison == "==" and c.right == Index.of(0) else ():
            match monomial:
                case (Mod(value, divisor),) if divisor.value and len(value.symbols) == 1:
                    (name,) = value.symbols
                    steps[name] = lcm(steps.get(name, 1), divisor.value)
                case _:
                    pass
    return steps


def _allowed_sizes(
    routine: Routine, params: list[Param], steps: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    seen: set[tuple[int, ...]] = set()
    for offsets in islice(_offsets(len(params)), _TRIED):
        env = _bind(params, offsets, steps)
        if env is None or tuple(env.values()) in seen:
            continue
        seen.add(tuple(env.values()))
        try:
            for let in routine.lets:
                env[let.name] = let.value.evaluate(env)
            fine = all(_holds(c, env) for c in routine.where)
            fine = fine and all(e.evaluate(env) >= 1 for o in routine.operands for e in o.shape)
        except (KeyError, ZeroDivisionError):
            continue
        if fine:
            yield env


def _offsets(n: int) -> Iterator[tuple[int, ...]]:
    """Yield each parameter's offset above its minimum: first offsets that differ between parameters, then a grid."""
    yield (0,) * n
    yield tuple(1 + i % 3 for i in range(n))
    yield tuple(3 - i % 3 for i in range(n))
    yield (31,) * n
    yield (10**6,) * n
    for big in (3, 7):
        for i in range(n):
            yield tuple(big if j == i else 1 for j in range(n))
    yield from product((0, 1, 2, 4), repeat=n)


def _bind(params: list[Param], offsets: tuple[int, ...], steps: Mapping[str, int]) -> dict[str, int] | None:
    env: dict[str, int] = {}
    for param, offset in zip(params, offsets, strict=True):
        try:
            low = param.low.evaluate(env) if param.low is not None else 1
            high = param.high.evaluate(env) if param.high is not None else low + 31
        except KeyError:
            return None
        value = min(low + offset, high)
        if param.high is not None and offset < 10**6:
            value = min(value, low + 63)
        step = steps.get(param.name, 1)
        env[param.name] = -(-value // step) * step
    return env


def _holds(c: Constraint, env: Mapping[str, int]) -> bool:
    if any("(" in s for s in c.left.symbols | c.right.symbols):
        return True  # strides and alignments do not bear on indices
    return comparison_holds(c.left.evaluate(env), c.comparison, c.right.evaluate(env))


def grid(extents: Mapping[str, Index], env: Mapping[str, int], limit: int) -> dict[str, np.ndarray] | None:
    """Return all points of axes as flat arrays, or None if there are more than `limit`."""
    sizes = {name: max(0, typical_value(e, env) or 0) for name, e in extents.items()}
    total = 1
    for size in sizes.values():
        total *= size
    if total > limit:
        return None
    if not sizes:
        return {}
    arrays = np.indices(tuple(sizes.values()), dtype=np.int64).reshape(len(sizes), -1)
    return dict(zip(sizes, arrays, strict=True))


def evaluate_on(
    index: Index, env: Mapping[str, int], points: Mapping[str, np.ndarray], count: int
) -> np.ndarray:
    """Return the values of an index expression at all points, as an array of `count` numbers."""
    names: dict[str, np.ndarray | int] = {**env, **points}
    value = index.evaluate(names)
    return np.broadcast_to(np.asarray(value, dtype=np.int64), (count,))


def may_hold_on(
    condition: Expr, env: Mapping[str, int], points: Mapping[str, np.ndarray], count: int
) -> np.ndarray:
    """Return a mask of the points where a condition holds for some data, as `count` flags."""
    match condition:
        case Call("and" | "or" as op, (left, right), _, _, _):
            sides = (may_hold_on(left, env, points, count), may_hold_on(right, env, points, count))
            return sides[0] & sides[1] if op == "and" else sides[0] | sides[1]
        case _:
            value = _value_on(condition, env, points, count)
            return np.ones(count, dtype=np.bool_) if value is None else np.broadcast_to(value, (count,))


def _value_on(
    e: Expr, env: Mapping[str, int], points: Mapping[str, np.ndarray], count: int
) -> np.ndarray | None:
    """Return the values of an expression at all points, or None if they depend on data."""
    match e:
        case IndexValue(index, _, _):
            return evaluate_on(index, env, points, count)
        case Const(value, _, _):
            return np.asarray(value)
        case Call(op, args, _, None, _):
            values = [_value_on(a, env, points, count) for a in args]
            return None if any(v is None for v in values) else np.asarray(OPS[op].compute(*values))
        case Read() | Scalar() | Cast() | Call():
            return None


_POINTS = 200_000
# Of counterexamples: sizes that show something are small, and a refusal should not be long in coming.
_SAMPLES = 12
_SAMPLE_POINTS = 20_000

_Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GuardedAccess:
    """An access, with the loops and guards around it."""

    read: Read
    site: Site

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that must be known to list its elements."""
        found = {s for index in self.read.index for s in index.symbols}
        return frozenset(found.union(*(symbols_of_values(c) for c in self.site.conditions)))


def listed_apart(f: GuardedAccess, g: GuardedAccess, unordered: list[str]) -> bool:
    """Return whether listing all elements shows that no two iterations access the same one."""
    axes = (*f.site.axes, *g.site.axes)
    if any(x.ordered or x.extent.value is None for x in axes):
        return False
    known = f.site.extents.keys() | g.site.extents.keys()
    if not f.symbols | g.symbols <= known:
        return False
    mine, its = (
        _touched_elements(f, (), unordered, {}, _POINTS),
        _touched_elements(g, (), unordered, {}, _POINTS),
    )
    if mine is None or its is None:
        return False
    return all(len(mine[e] | its[e]) == 1 for e in mine.keys() & its.keys())


def find_meeting(
    routine: Routine, f: GuardedAccess, g: GuardedAccess, axis: str, constants: Iterable[Param]
) -> str | None:
    """Return text that names two iterations which differ in `axis` and access one element, or None."""
    loop = next(x.loop for x in f.site.axes if x.name == axis)
    outer = [x.name for x in f.site.axes if x.ordered and x.loop < loop]
    for env in sample_sizes(routine, constants, _SAMPLES):
        mine = _touched_elements(f, outer, [axis], env, _SAMPLE_POINTS) or {}
        its = (_touched_elements(g, outer, [axis], env, _SAMPLE_POINTS) or {}) if mine else {}
        for key in sorted(mine.keys() & its.keys()):
            both = (mine[key], its[key])
            if len(both[0] | both[1]) > 1:
                return _in_words(routine, f, axis, env, key[: len(f.read.index)], *both)
    return None


def _in_words(
    routine: Routine,
    f: GuardedAccess,
    axis: str,
    env: Mapping[str, int],
    element: _Key,
    mine: set[_Key],
    its: set[_Key],
) -> str:
    first, second = next((a, b) for (a,) in sorted(mine) for (b,) in sorted(its) if a != b)
    subscripts = f"[{', '.join(map(str, element))}]" if element else ""
    sizes = "".join(f"{p.name} = {env[p.name]}, " for p in routine.params if p.name in env)
    return f"both access {f.read.buffer}{subscripts}: for {sizes}{axis} = {first} and {axis} = {second}"


def _touched_elements(
    access: GuardedAccess, fixed: Iterable[str], axes: list[str], env: Mapping[str, int], limit: int
) -> dict[_Key, set[_Key]] | None:
    """Return for each element the iterations that access it, grouped by the fixed axes, or None if too many."""
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
