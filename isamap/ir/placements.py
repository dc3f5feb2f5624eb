"""Placements put every element somewhere, and no two elements into one place.

Checked by listing all elements for the parameters' smallest and some larger values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isamap.ir.nodes import Operand, Param, Routine
from isamap.ir.samples import evaluate_on, grid, sample_sizes
from isamap.source import Diagnostic

_POINTS = 300_000


def check_placements(routine: Routine, constants: tuple[Param, ...]) -> Iterator[Diagnostic]:
    """A finding for every placement that is not one-to-one."""
    for operand in routine.operands:
        if operand.placement is None:
            continue
        for env in sample_sizes(routine, constants, 6):
            finding = _check(operand, env)
            if finding is not None:
                yield finding
                break


def _check(operand: Operand, env: dict[str, int]) -> Diagnostic | None:
    placement = operand.placement
    assert placement is not None
    points = grid(dict(zip(placement.indices, operand.shape, strict=True)), env, _POINTS)
    if not points:
        return None
    count = len(next(iter(points.values())))
    places = np.stack([evaluate_on(e, env, points, count) for _, e in placement.coordinates])
    names = [name for name, _ in placement.coordinates]
    if (places < 0).any():
        row, at = (int(x) for x in np.argwhere(places < 0)[0])
        where = f"element {_point(points, at)} has {names[row]} = {int(places[row, at])}"
        return Diagnostic(
            "placement-negative",
            f"a coordinate of `{operand.name}` is negative",
            placement.span,
            notes=(where,),
        )
    _, first, inverse = np.unique(places, axis=1, return_index=True, return_inverse=True)
    if len(first) == count:
        return None
    at = next(i for i, group in enumerate(inverse.ravel().tolist()) if first[group] != i)
    other = int(first[inverse.ravel()[at]])
    place = ", ".join(f"{n} = {int(v)}" for n, v in zip(names, places[:, at], strict=True))
    return Diagnostic(
        "placement-not-one-to-one",
        f"two elements of `{operand.name}` are placed at one spot",
        placement.span,
        notes=(f"elements {_point(points, other)} and {_point(points, at)} are both at {place}",),
        help="let every index decide some coordinate",
    )


def _point(points: dict[str, np.ndarray], at: int) -> str:
    return f"[{', '.join(str(int(values[at])) for values in points.values())}]"
