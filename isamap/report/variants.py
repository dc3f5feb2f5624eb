"""The variants of mappings: orders of fusion, cuts, what lies where, tails. Those of one mapping count once.

1  matmul  i ← p.q, j ← k, k ← c  a = X, b = F: 2 orders of fusion and cuts, 2 variants
     axes                   tail    movement
     i ← p.q, j ← k, k ← c  exact   a, c packed; b strided
     i ← q.p, j ← k, k ← c  exact   a, c gathered; b strided
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from isamap.match.moves.variants import Variant, count_groupings
from isamap.report.cells import axes_text, movement_text, operands_text
from isamap.report.columns import indented, table
from isamap.report.facts import Facts, Look, Matched
from isamap.report.mappings import best_of, few_each, statement_line
from isamap.report.tally import is_computing

EACH = 6
"""Variants shown of a mapping."""

MOST = 64
"""Variants shown of a mapping when everything is asked for: an order of eight axes has 40320."""


def variants_text(matched: Matched, *, every: bool = False) -> str:
    """The best mappings of each statement that computes, or of all, each with its first variants."""
    blocks: list[str] = []
    for number, found in _best(matched, every=every):
        lines = [f"variants for {statement_line(number, matched.statements[number])}"]
        for place, facts in enumerate(found, 1):
            lines += _mapping_lines(place, facts, matched.look, MOST if every else EACH)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) or "no mapping, and hence no variants"


def _best(matched: Matched, *, every: bool) -> Iterator[tuple[int, Sequence[Facts]]]:
    """The statements that compute, or all, with the mappings that are shown of them."""
    few = None if every else few_each(matched)
    for number, statement in enumerate(matched.statements):
        if matched.of_statement(number) and (every or is_computing(statement)):
            yield number, best_of(matched, number, few)[:few]


def _mapping_lines(place: int, facts: Facts, look: Look, most: int) -> Iterator[str]:
    mapping = facts.mapping
    orders, count = count_groupings(mapping), look.count_variants(mapping)
    ways = f"{orders} orders of fusion and cuts" if orders > 1 else "one order"
    number = "more than can be counted quickly" if count is None else f"{count} variants"
    name = f"{mapping.instruction}  {axes_text(mapping, facts.order)}  {operands_text(mapping)}"
    yield f"{place:>3}  {name}: {ways}, {number}"
    found = list(islice(look.variants(mapping), most + 1))
    rows = [("axes", "tail", "movement"), *(_row(facts, variant) for variant in found[:most])]
    yield indented(table(rows), "       ")
    if len(found) > most:
        rest = "more" if count is None else f"{count - most} more"
        yield f"       … and {rest}{'' if most == MOST else f': --all lists up to {MOST}'}"


def _row(facts: Facts, variant: Variant) -> tuple[str, str, str]:
    mapping = replace(facts.mapping, groups=variant.groups)
    tail = variant.tail
    if variant.fills:
        tail += f" with {', '.join(f'{n} = {c.value}' for n, c in variant.fills)}"
    if tail == "none":
        tail = "no way"
    return axes_text(mapping, facts.order), tail, movement_text(replace(facts, movements=variant.movements))


def variants_json(matched: Matched, *, every: bool = False) -> list[dict[str, object]]:
    """The same as JSON: a list of mappings, each with its first variants and the number of all orders."""
    return [
        {
            "mapping": facts.mapping.ident,
            "statement": number,
            "orders": count_groupings(facts.mapping),
            "count": matched.look.count_variants(facts.mapping),
            "variants": [
                _variant(v) for v in islice(matched.look.variants(facts.mapping), MOST if every else EACH)
            ],
        }
        for number, found in _best(matched, every=every)
        for facts in found
    ]


def _variant(variant: Variant) -> dict[str, object]:
    return {
        "groups": [
            {"instruction_axes": list(g.instruction_axes), "kernel_axes": list(g.kernel_axes)}
            for g in variant.groups
        ],
        "tail": variant.tail,
        "fills": {name: constant.value for name, constant in variant.fills},
        "movement": {m.operand: m.kind for m in variant.movements},
    }
