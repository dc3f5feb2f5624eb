"""Derivatives of kernels by differences: what a small step of the inputs along some direction changes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from isamap.adjoint import gradient
from isamap.ir import Call, Cast, Const, DType, Expr, Kernel, Loop, Operand, Read, Routine, Stmt, interpret
from isamap.ir.domains import drawn_values
from isamap.ir.dtypes import F64
from isamap.ir.interpret import bind_all
from isamap.ir.rounding import Array
from isamap.source import UsageProblem

STEP = 1e-6


def in_f64(kernel: Kernel) -> Kernel:
    """Return the kernel with f64 in place of all floats, so that nothing is rounded to speak of."""
    operands = tuple(replace(o, dtype=_wider(o.dtype), accumulate=None) for o in kernel.operands)
    params = tuple(replace(p, dtype=_wider(p.dtype) if p.dtype else None) for p in kernel.params)
    return replace(kernel, operands=operands, params=params, body=tuple(map(_stmt, kernel.body)))


def _wider(dtype: DType) -> DType:
    return F64 if dtype.is_float else dtype


def _stmt(s: Stmt) -> Stmt:
    guard = _expr(s.guard) if s.guard is not None else None
    if isinstance(s, Loop):
        return replace(s, body=tuple(map(_stmt, s.body)), guard=guard)
    target = replace(s.target, dtype=_wider(s.target.dtype))
    return replace(s, target=target, value=_expr(s.value), guard=guard)


def _expr(e: Expr) -> Expr:
    match e:
        case Call(_, args):
            return replace(e, args=tuple(map(_expr, args)), dtype=_wider(e.dtype))
        case Cast(value):
            return replace(e, value=_expr(value), dtype=_wider(e.dtype))
        case Read(_, _, _, Const() as fill):
            return replace(e, fill=_expr(fill), dtype=_wider(e.dtype))  # type: ignore[arg-type]
        case _:
            return replace(e, dtype=_wider(e.dtype))


def some_sizes(kernel: Kernel, seed: int = 0) -> dict[str, int]:
    """Small random sizes that hold what the kernel asks for."""
    rng = random.Random(seed)
    names = [p.name for p in kernel.params if p.dtype is None and p.default is None]
    drawn = ({name: rng.randint(1, 6) for name in names} for _ in range(10_000))
    return next(sizes for sizes in drawn if max(sizes.values()) > 2 and _fits(kernel, sizes))


def _fits(kernel: Kernel, sizes: dict[str, int]) -> bool:
    try:
        bind_all(kernel, sizes)
    except UsageProblem:
        return False
    return True


def directional(
    kernel: Kernel,
    sizes: dict[str, int],
    of: list[str],
    by: list[str],
    seed: int = 0,
) -> tuple[float, float]:
    """Return the derivative of a random sum of results along a random direction: by the kernel, by differences.

    Everything is computed in f64.
    """
    kernel = in_f64(kernel)
    rng = np.random.default_rng(seed)
    bound = bind_all(kernel, sizes)
    scalars = {p.name: float(rng.uniform(0.5, 1)) for p in kernel.params if p.dtype is not None}
    inputs = {o.name: _values(rng, o) for o in bound.operands if o.role in ("in", "inout")}
    weights = {name: rng.normal(size=_shape(bound, name)) for name in of}
    along = {name: rng.normal(size=_shape(bound, name) if name in inputs else ()) for name in by}

    def total(step: float) -> float:
        moved = {n: a + step * along[n] if n in along else a for n, a in inputs.items()}
        given = {n: float(v + step * along[n]) if n in along else v for n, v in scalars.items()}
        found = interpret(kernel, moved, sizes, given)
        return float(sum((weights[n] * found[n].astype(np.float64)).sum() for n in of))

    back = gradient(kernel, of, by)
    known = {**inputs, **{f"d_{n}": w for n, w in weights.items()}}
    asked = {o.name: known[o.name] for o in back.operands if o.role == "in"}
    used = {p.name: scalars[p.name] for p in back.params if p.dtype is not None}
    found = interpret(back, asked, sizes, used)
    outputs = [o.name for o in back.operands if o.role == "out"]
    mine = sum(
        float((found[name].astype(np.float64) * along[n]).sum()) for n, name in zip(by, outputs, strict=True)
    )
    return mine, (total(STEP) - total(-STEP)) / (2 * STEP)


def _shape(bound: Routine, name: str) -> tuple[int, ...]:
    return tuple(int(e.value or 0) for e in bound.operand(name).shape)


def _values(rng: np.random.Generator, of: Operand) -> Array:
    """Of a bound kernel's operand: values that it may have."""
    shape = tuple(int(e.value or 0) for e in of.shape)
    if of.domain is not None:
        return drawn_values(shape, of.domain, rng)
    return rng.uniform(-1, 1, size=shape) if of.dtype.is_float else rng.integers(0, 4, size=shape)
