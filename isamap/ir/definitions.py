"""Everything that is read was written, and outputs are written as far as they say.

Checked by running the routine's index expressions, without data, on a few small sizes: what this finds is a
counterexample with numbers; what it does not find is not a proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from isamap.ir.facts import find_sites, guard_facts
from isamap.ir.index import Index, typical_value
from isamap.ir.nodes import Assign, Call, Expr, Loop, Operand, Param, Read, Routine, Stmt
from isamap.ir.samples import evaluate_on, grid, sample_sizes
from isamap.ir.walk import reads
from isamap.source import Diagnostic

_POINTS = 40_000
_SAMPLES = 5

Masks = dict[str, "np.ndarray"]


def check_definitions(routine: Routine, constants: tuple[Param, ...]) -> Iterator[Diagnostic]:
    """Outputs never or partly written, and elements read before they are written."""
    never = list(_never_written(routine))
    yield from never
    if never or not any(o.role in ("out", "temp") for o in routine.operands):
        return
    for env in sample_sizes(routine, constants, _SAMPLES):
        finding = _trace(routine, env, constants)
        if finding is not None:
            yield finding
            return


def _never_written(routine: Routine) -> Iterator[Diagnostic]:
    sites = find_sites(routine)
    written = {s.assign.target.buffer for s in sites}
    plainly = {s.assign.target.buffer for s in sites if s.assign.op is None}
    for operand in routine.operands:
        name = operand.name
        if operand.role in ("out", "inout") and name not in written:
            yield Diagnostic(
                "never-written",
                f"`{name}` is an output, but nothing is assigned to it",
                operand.span,
                help="assign to it, or declare it `in`",
            )
        elif operand.role in ("out", "temp") and name in written and name not in plainly:
            yield Diagnostic(
                "read-before-write",
                f"`{name}` is reduced into before it has a value",
                operand.span,
                help=f"assign `{name}` a first value"
                + (
                    ", or declare it `inout`: then the sum starts from the old value"
                    if operand.role == "out"
                    else ""
                ),
            )


# --- running the indices ----------------------------------------------------------------------------------


class _Found(Exception):
    """Carries the first finding out of the trace."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class _TooLarge(Exception):
    """This sample has more points than are worth visiting."""


def _trace(routine: Routine, env: dict[str, int], constants: tuple[Param, ...]) -> Diagnostic | None:
    watched = [o for o in routine.operands if o.role in ("out", "temp")]
    masks: Masks = {}
    total = _steps(routine.body, env)
    for o in watched:
        shape = tuple(int(e.evaluate(env)) for e in o.shape)
        total += int(np.prod(shape, dtype=object)) if shape else 1
        if total > _POINTS:
            return None
        masks[o.name] = np.zeros(shape, dtype=np.bool_)
    sizes = {p.name: env[p.name] for p in (*constants, *routine.params) if p.name in env}
    shown = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    try:
        for statement in routine.body:
            _run(statement, env, {}, (), False, masks, shown)
    except _Found as found:
        return found.diagnostic
    except _TooLarge:
        return None
    return next((d for o in watched if (d := _partly(o, masks[o.name], shown)) is not None), None)


def _steps(body: tuple[Stmt, ...], env: Mapping[str, int]) -> int:
    """How many iterations all statements together run."""
    total = 0
    for statement in body:
        if isinstance(statement, Loop):
            trips = 1
            for axis in statement.axes:
                trips *= max(0, typical_value(axis.extent, env) or 0)
            total += trips * _steps(statement.body, env)
        else:
            total += 1
    return total


def _partly(o: Operand, mask: np.ndarray, shown: str) -> Diagnostic | None:
    if o.role != "out" or o.outside is not None or mask.all():
        return None
    first = tuple(int(x) for x in np.argwhere(~mask)[0])
    element = f"`{o.name}[{', '.join(map(str, first))}]`" if first else f"`{o.name}`"
    return Diagnostic(
        "partly-written",
        f"`{o.name}` is not written everywhere, and nothing says what it holds elsewhere",
        o.span,
        notes=(f"{element} is not assigned" + (f" for {shown}" if shown else ""),),
        help="add `outside zero`, `outside keep` or `outside undefined` to it, or assign the rest",
    )


def _run(
    s: Stmt,
    env: Mapping[str, int],
    extents: dict[str, Index],
    guards: tuple[Index, ...],
    data_guarded: bool,
    masks: Masks,
    shown: str,
) -> None:
    match s:
        case Loop(axes, body, ordered, guard, _):
            inner = (*guards, *guard_facts(guard))
            by_data = data_guarded or not _is_index_guard(guard)
            own = {a.name: a.extent for a in axes}
            if not ordered:
                for child in body:
                    _run(child, env, {**extents, **own}, inner, by_data, masks, shown)
                return
            for point in _points_in_order(own, env):
                for child in body:
                    _run(child, {**env, **point}, extents, inner, by_data, masks, shown)
        case Assign():
            _assign(s, env, extents, (*guards, *guard_facts(s.guard)), data_guarded, masks, shown)


def _points_in_order(extents: dict[str, Index], env: Mapping[str, int]) -> Iterator[dict[str, int]]:
    points = grid(extents, env, 4096)
    if points is None:
        raise _TooLarge
    arrays: dict[str, list[int]] = {name: values.tolist() for name, values in points.items()}
    for point in zip(*arrays.values(), strict=True):
        yield dict(zip(arrays, point, strict=True))


def _assign(
    s: Assign,
    env: Mapping[str, int],
    extents: dict[str, Index],
    guards: tuple[Index, ...],
    data_guarded: bool,
    masks: Masks,
    shown: str,
) -> None:
    points = grid(extents, env, _POINTS)
    if points is None:
        raise _TooLarge
    count = len(next(iter(points.values()))) if points else 1
    active = np.ones(count, dtype=np.bool_)
    for guard in guards:
        active &= evaluate_on(guard, env, points, count) >= 0
    read_here = [*reads(s.value), *(reads(s.guard) if s.guard is not None else ())]
    for read in [*read_here, *([s.target] if s.op is not None else [])]:
        if read.buffer in masks:
            _check_read(read, masks[read.buffer], active, env, points, count, shown)
    if s.target.buffer in masks and not data_guarded and _is_index_guard(s.guard):
        mask = masks[s.target.buffer]
        index, inside = _elements(s.target, mask.shape, env, points, count)
        keep = active & inside
        mask[tuple(i[keep] for i in index)] = True if index else bool(keep.any() or mask)


def _check_read(
    read: Read,
    mask: np.ndarray,
    active: np.ndarray,
    env: Mapping[str, int],
    points: Mapping[str, np.ndarray],
    count: int,
    shown: str,
) -> None:
    index, inside = _elements(read, mask.shape, env, points, count)
    keep = active & inside
    found = mask[tuple(i[keep] for i in index)] if index else np.broadcast_to(mask, (int(keep.sum()),))
    if found.all():
        return
    at = int(np.flatnonzero(keep)[int((~found).argmax())])
    element = f"{read.buffer}[{', '.join(str(int(i[at])) for i in index)}]" if index else read.buffer
    raise _Found(
        Diagnostic(
            "read-before-write",
            f"`{read.buffer}` is read where nothing was written before",
            read.span,
            notes=(f"`{element}` has no value" + (f" for {shown}" if shown else ""),),
            help=f"assign `{read.buffer}` first, over all elements that are read",
        )
    )


def _elements(
    read: Read, shape: tuple[int, ...], env: Mapping[str, int], points: Mapping[str, np.ndarray], count: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """The element of every point, and whether it lies inside."""
    index = [evaluate_on(i, env, points, count) for i in read.index]
    inside = np.ones(count, dtype=np.bool_)
    for values, extent in zip(index, shape, strict=True):
        inside &= (values >= 0) & (values < extent)
    return index, inside


def _is_index_guard(guard: Expr | None) -> bool:
    """Whether a guard is made of comparisons of indices only, so that the trace follows it exactly."""
    match guard:
        case None:
            return True
        case Call("and", (left, right), _, _, _):
            return _is_index_guard(left) and _is_index_guard(right)
        case Call("ne", _, _, _, _):
            return False
        case _:
            return bool(guard_facts(guard))
