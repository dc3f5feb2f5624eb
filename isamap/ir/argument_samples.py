"""Samples of the arguments that a kernel's operations meet, drawn without running the kernel.

Of `top[m] max= x[m, n]` over 100 columns each sample of `top` is the largest of some samples of `x`, and of `s
+= a[k] * b[k]` over K terms a sample is a sum of some products, enlarged as sums of K terms are. Samples of an
array are all alike: the element that a statement reads is drawn anew. So the work depends on the length of the
text and not on sizes. Samples show the size of arguments, not their correlation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod, sqrt
from typing import Any

import numpy as np

from isamap.ir.buffers import take_scalars
from isamap.ir.dtypes import DType
from isamap.ir.evaluate import Env, evaluate_expr
from isamap.ir.index import typical_value
from isamap.ir.nodes import Assign, Expr, Loop, Read, Routine, Stmt
from isamap.ir.rounding import Array, wrap
from isamap.ir.updates import UFUNCS, identity, widen
from isamap.ir.walk import symbols, walk
from isamap.source.records import dataclass, field

SAMPLES = 64
"""Samples of an array."""
TERMS = 24
"""Terms that are drawn of a reduction."""
ITERATIONS = 3
"""Iterations of a loop that runs in order."""


def sample_arguments(
    routine: Routine, needed: Collection[Expr], given: Mapping[str, Array], scalars: Mapping[str, float]
) -> dict[Expr, Array]:
    """Return samples of the values of the `needed` subexpressions of a routine, floats unrounded.

    `given` has samples of inputs, each of `SAMPLES` values. The routine's sizes are bound.
    """
    start = {o.name: given.get(o.name, np.zeros(SAMPLES, o.dtype.numpy())) for o in routine.operands}
    work = _Work(routine, frozenset(needed), start, take_scalars(routine, scalars))
    with np.errstate(all="ignore"):
        for statement in routine.body:
            work.run(statement, {}, ())
    return {e: np.concatenate([np.ravel(v) for v in found]) for e, found in work.found.items()}


@dataclass(frozen=True, slots=True)
class _Work:
    """The samples of all arrays, updated statement by statement, and the samples that were requested."""

    routine: Routine
    needed: frozenset[Expr]
    values: dict[str, Array]
    scalars: Mapping[str, Array]
    found: dict[Expr, list[Array]] = field(default_factory=dict[Expr, "list[Array]"])
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def run(self, s: Stmt, extents: Mapping[str, int], guards: tuple[Expr, ...]) -> None:
        guards = guards if s.guard is None else (*guards, s.guard)
        match s:
            case Assign():
                self._perform(s, extents, guards)
            case Loop(axes, body, ordered):
                within = {**extents, **{a.name: max(1, typical_value(a.extent, {}) or 1) for a in axes}}
                for _ in range(min(ITERATIONS, prod(within[a.name] for a in axes)) if ordered else 1):
                    for child in body:
                        self.run(child, within, guards)

    def _perform(self, s: Assign, extents: Mapping[str, int], guards: tuple[Expr, ...]) -> None:
        operand = self.routine.operand(s.target.buffer)
        reduced = extents.keys() - symbols(s.target) if s.op is not None else frozenset[str]()
        count = prod(extents[name] for name in reduced)
        drawn = min(count, TERMS)
        at = {
            name: self.rng.integers(0, n, size=(SAMPLES, drawn if name in reduced else 1))
            for name, n in extents.items()
        }
        loaded: dict[Read, Array] = {}

        def load(read: Read) -> Array:
            if read not in loaded:
                size = (SAMPLES, drawn if reduced & symbols(read) else 1)
                values = self.rng.choice(self.values[read.buffer], size=size)
                if read.fill is not None:
                    outside: Any = read.fill.value
                    values = np.where(self.rng.random(size) < 1 / 8, outside, values).astype(values.dtype)
                loaded[read] = values
            return loaded[read]

        env = Env(at, self.scalars, load, exact=True)
        for e in (s.value, *guards):
            for part in walk(e):
                if part in self.needed:
                    self.found.setdefault(part, []).append(evaluate_expr(part, env))
        values = np.broadcast_to(evaluate_expr(s.value, env), (SAMPLES, drawn))
        holds = np.asarray(True)
        for guard in guards:
            holds = holds & evaluate_expr(guard, env)
        old = self.values[operand.name]
        if s.op is None:
            made = np.where(holds, values, old[:, None])[:, -1]
        else:
            dtype = operand.accumulate or operand.dtype
            terms = np.where(holds, widen(values), identity(s.op, dtype))
            total = UFUNCS[s.op].reduce(terms, axis=1)
            if s.op == "add" and drawn < count:  # as large as all terms: the mean grows, deviations add up
                total = count * terms.mean() + sqrt(count / drawn) * (total - drawn * terms.mean())
            made = UFUNCS[s.op](widen(old), total)
        self.values[operand.name] = _store_values(made, operand.dtype)


def _store_values(values: Array, dtype: DType) -> Array:
    if dtype.is_float:
        return values.astype(np.float64)
    return wrap(values if values.dtype.kind in "biu" else values.astype(np.int64), dtype)
