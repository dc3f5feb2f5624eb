"""A mapping's properties in a few characters each, for tables.

i ← n.p.q, j ← k, (k, p) ← c.r.s      a, c in place; b packed      94 %      1.2 ms
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.ir import print_expr
from isamap.match import Mapping, is_read_of, places
from isamap.report.columns import shortened
from isamap.report.facts import Facts

OPEN = "-"
_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))


def axes_text(mapping: Mapping, order: Sequence[str] = ()) -> str:
    """Which kernel axes run on which axes of the instruction, in its order; axes left empty have a 1."""
    shown = [(g.instruction_axes[0], f"{_together(g.instruction_axes)} ← {g.name}") for g in mapping.groups]
    shown += [(axis, f"{axis} ← 1") for axis in mapping.empty]
    if order:
        shown.sort(key=lambda s: order.index(s[0]))
    return ", ".join(text for _, text in shown) or OPEN


def _together(axes: tuple[str, ...]) -> str:
    return axes[0] if len(axes) == 1 else f"({', '.join(axes)})"


def operands_text(mapping: Mapping) -> str:
    """What each operand stands for: the array where it is the only element of it, else the expression."""
    arrays = [is_read_of(b.subject) for b in mapping.bindings]
    shown: list[str] = []
    for (name, binding), array in zip(places(mapping.bindings), arrays, strict=True):
        alone = array is not None and arrays.count(array) == 1
        text = array if alone and array is not None else shortened(print_expr(binding.subject), 32)
        shown.append(f"{name} = {text}")
    return ", ".join(shown) or OPEN


def kind_text(mapping: Mapping) -> str:
    """The kind, and whether an operand has to be computed first."""
    return f"{mapping.kind}, composed" if mapping.composed else mapping.kind


def movement_text(facts: Facts) -> str:
    """How each operand moves, operands of one kind together: `a, c in place; b packed`."""
    kinds: dict[str, list[str]] = {}
    for m in facts.movements or ():
        kinds.setdefault("cannot move" if m.kind == "none" else m.kind, []).append(m.operand)
    return "; ".join(f"{', '.join(names)} {kind}" for kind, names in kinds.items()) or OPEN


def utilisation_text(facts: Facts) -> str:
    """The share of lanes that do work; while sizes are open, what it cannot exceed, if that is known."""
    if facts.utilisation is not None:
        return _percent(facts.utilisation)
    return OPEN if facts.bound is None else f"≤ {_percent(facts.bound)}"


def cost_text(facts: Facts) -> str:
    """The estimated time with three digits; while sizes are open, nothing."""
    return OPEN if facts.cost_ns is None else time_text(facts.cost_ns)


def time_text(ns: float) -> str:
    """A time in the unit that leaves its number readable."""
    unit, size = next(((u, s) for u, s in _UNITS if ns >= s), _UNITS[-1])
    return f"{ns / size:.0f} {unit}" if ns / size >= 100 else f"{ns / size:.3g} {unit}"


def _percent(share: float) -> str:
    shown = 100 * share
    return f"{shown:.0f} %" if shown >= 10 or shown == 0 else f"{shown:.2g} %"
