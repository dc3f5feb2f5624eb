"""Placements put every element somewhere, and no two elements into one place.

Checked by listing all elements for the parameters' smallest and some larger values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isamap.ir.index import ONE, Index
from isamap.ir.nodes import MemoryDecl, Operand, Param, Placement, Routine
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
    assert operand.placement is not None
    return _check_points(f"`{operand.name}`", operand.placement, operand.shape, env)


def _check_points(
    what: str, placement: Placement, shape: tuple[Index, ...], env: dict[str, int]
) -> Diagnostic | None:
    points = grid(dict(zip(placement.indices, shape, strict=True)), env, _POINTS)
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
            f"a coordinate of {what} is negative",
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
        f"two elements of {what} are placed at one spot",
        placement.span,
        notes=(f"elements {_point(points, other)} and {_point(points, at)} are both at {place}",),
        help="let every index decide some coordinate",
    )


# --- views ------------------------------------------------------------------------------------------------


def check_view(view: MemoryDecl, base: MemoryDecl, constants: tuple[Param, ...]) -> Iterator[Diagnostic]:
    """A finding when a view's bytes are not bytes of its memory, or two of them are one byte."""
    placement = view.placement
    if placement is None:
        return
    shape, room = _bytes_of(view), _bytes_of(base)
    if len(placement.indices) != len(shape):
        yield Diagnostic(
            "wrong-rank",
            f"`{view.name}` is made of {', '.join(shape)}; {len(placement.indices)} indices are placed",
            placement.span,
        )
        return
    unknown = [name for name, _ in placement.coordinates if name not in room]
    if unknown:
        yield Diagnostic(
            "unknown-coordinate",
            f"`{base.name}` has no coordinate called `{unknown[0]}`",
            placement.span,
            notes=(f"it is made of {', '.join(room)}",),
        )
        return
    carrier = Routine("", (), (), ())
    for env in sample_sizes(carrier, constants, 6):
        finding = _check_points(f"`{view.name}`", placement, tuple(shape.values()), env)
        finding = finding or _check_room(view.name, placement, shape, room, env)
        if finding is not None:
            yield finding
            return


def _bytes_of(memory: MemoryDecl) -> dict[str, Index]:
    """What the bytes of a memory are counted by, outermost first: registers, rows, bytes."""
    given = {name: value for name, value in memory.attributes if isinstance(value, Index)}
    count = {"register": given.get("count", ONE)}
    if "bytes" in given:
        return {**count, "byte": given["bytes"]}
    return {**count, "row": given.get("rows", ONE), "byte": given.get("row_bytes", ONE)}


def _check_room(
    view: str, placement: Placement, shape: dict[str, Index], room: dict[str, Index], env: dict[str, int]
) -> Diagnostic | None:
    points = grid(dict(zip(placement.indices, shape.values(), strict=True)), env, _POINTS)
    if not points:
        return None
    count = len(next(iter(points.values())))
    for name, coordinate in placement.coordinates:
        places = evaluate_on(coordinate, env, points, count)
        extent = int(room[name].evaluate(env))
        if (places >= extent).any():
            at = int((places >= extent).argmax())
            return Diagnostic(
                "placement-outside",
                f"bytes of `{view}` are placed outside of its memory",
                placement.span,
                notes=(f"{_point(points, at)} is at {name} = {int(places[at])}, of {extent}",),
            )
    return None


def _point(points: dict[str, np.ndarray], at: int) -> str:
    return f"[{', '.join(str(int(values[at])) for values in points.values())}]"
