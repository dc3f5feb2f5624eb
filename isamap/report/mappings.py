"""Print a kernel's mappings for users: the counts by kind, and the best mappings.

gemm_bf16_f32 on x86-amx: 0 whole, 2 split, 0 degenerate

statement 0: C[m, n] += f32(A[m, k]) * f32(B[k, n]);
  instruction  whole  split  degenerate  composed
  tdpbf16ps        0      2           0         0

  instruction  axes                      kind   utilisation  movement                   cost  proof
  tdpbf16ps    m ← m, n ← n, (k, p) ← k  split        100 %  a, c strided; b packed   199 µs  proved

Tables abbreviate a mapping's properties:

i ← n.p.q, j ← k, (k, p) ← c.r.s      a, c in place; b packed      94 %      1.2 ms

Variants of mappings differ in fusion orders, cuts, places of operands, and tails. Those of one mapping count
once:

1  matmul  i ← p.q, j ← k, k ← c  a = X, b = F: 2 orders of fusion and cuts, 2 variants
     axes                   tail    movement
     i ← p.q, j ← k, k ← c  exact   a, c packed; b strided
     i ← q.p, j ← k, k ← c  exact   a, c gathered; b strided
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from isamap.formulate.estimate import number_extents
from isamap.ir import print_expr
from isamap.match import GroupMapping, Mapping, is_read_of, places, statement_text
from isamap.match.moves.variants import MappingVariant, count_groupings
from isamap.report.columns import align, indent, shorten
from isamap.report.mapping_facts import (
    Look,
    MappingFacts,
    Matched,
    Tally,
    by_instruction,
    is_computing,
    tally,
    tally_groups,
    total,
)
from isamap.source.records import replace
from isamap.transform import Statement

OPEN = "-"
_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))


def axes_text(mapping: Mapping, order: Sequence[str] = ()) -> str:
    """Return text with the kernel axes on each instruction axis, in the instruction's order. Empty axes have a 1."""
    shown = [(g.instruction_axes[0], f"{_together(g.instruction_axes)} ← {g.name}") for g in mapping.groups]
    shown += [(axis, f"{axis} ← 1") for axis in mapping.empty]
    if order:
        shown.sort(key=lambda s: order.index(s[0]))
    return ", ".join(text for _, text in shown) or OPEN


def _together(axes: tuple[str, ...]) -> str:
    return axes[0] if len(axes) == 1 else f"({', '.join(axes)})"


def operands_text(mapping: Mapping) -> str:
    """Return text with the expression of each operand. An array that is read at one element is named alone."""
    arrays = [is_read_of(b.subject) for b in mapping.bindings]
    shown: list[str] = []
    for (name, binding), array in zip(places(mapping.bindings), arrays, strict=True):
        alone = array is not None and arrays.count(array) == 1
        text = array if alone and array is not None else shorten(print_expr(binding.subject), 32)
        shown.append(f"{name} = {text}")
    return ", ".join(shown) or OPEN


def movement_text(facts: MappingFacts) -> str:
    """Return text about the movement of the operands, grouped by kind: `a, c in place; b packed`."""
    kinds: dict[str, list[str]] = {}
    for m in facts.movements or ():
        kinds.setdefault("cannot move" if m.kind == "none" else m.kind, []).append(m.operand)
    return "; ".join(f"{', '.join(names)} {kind}" for kind, names in kinds.items()) or OPEN


def utilisation_text(facts: MappingFacts) -> str:
    """Return the share of busy lanes as text, or a bound of it while sizes are open."""
    if facts.utilisation is not None:
        return _percent(facts.utilisation)
    return OPEN if facts.bound is None else f"≤ {_percent(facts.bound)}"


def time_text(ns: float) -> str:
    """Return a time in a readable unit."""
    unit, size = next(((u, s) for u, s in _UNITS if ns >= s), _UNITS[-1])
    return f"{ns / size:.0f} {unit}" if ns / size >= 100 else f"{ns / size:.3g} {unit}"


def _percent(share: float) -> str:
    shown = 100 * share
    return f"{shown:.0f} %" if shown >= 10 or shown == 0 else f"{shown:.2g} %"


FEW = 8
"""The number of mappings shown for a kernel's only statement; several statements share them, at least three each."""

NAMED = 6
"""Instructions named of those that perform a statement that only moves."""

_REASONS = 3

_COUNTS = ("whole", "split", "degenerate", "composed")
_COLUMNS = ("instruction", "axes", "operands", "kind", "utilisation", "movement", "cost", "proof")


def mappings_text(matched: Matched, *, every: bool = False) -> str:
    """Return the counts of each statement by instruction, and its best mappings, or all of them."""
    numbers = range(len(matched.statements))
    # The kernel, the machine, sizes and all counts on one line.
    sizes = ", ".join(f"{n} = {v}" for n, v in sorted(matched.sizes.items()))
    counts = counts_text(matched.counts)
    mode = "" if matched.mode == "complete" else f" ({matched.mode})"
    at = f" at {sizes}" if sizes else ""
    blocks = [f"{matched.kernel.name} on {matched.machine.name}{at}: {counts}{mode}"]
    few = None if every else few_each(matched)
    blocks += ["\n".join(_statement_lines(matched, n, few)) for n in numbers]
    if groups := [g for g in matched.groups if every or g.instruction in matched.computing]:
        blocks.append("\n".join(_group_lines(groups, None if every else FEW)))
    if matched.mappings and any(number_extents(s, matched.sizes) is None for s in matched.statements):
        blocks.append(f"utilisation and cost need sizes: -D {' '.join(_open_sizes(matched))}")
    return "\n\n".join(blocks)


def unmoved_text(matched: Matched, *, every: bool = False) -> str:
    """Return text about the operands that cannot be moved in the mappings of `mappings_text`, or "".

    cannot move for statement 0:
      tdpbf16ps  a, b  no move of x86-amx writes bf16[16, 32] to tmm: …
    """
    few = None if every else few_each(matched)
    blocks: list[str] = []
    for number in range(len(matched.statements)):
        found: dict[tuple[str, str], dict[str, None]] = {}  # operands by instruction and reason, each once
        for facts in best_of(matched, number, few)[:few]:
            for m in facts.movements or ():
                if m.kind == "none":
                    found.setdefault((facts.mapping.instruction, m.why), {})[m.operand] = None
        if found:
            rows = [(name, ", ".join(operands), why) for (name, why), operands in found.items()]
            blocks.append(f"cannot move for statement {number}:\n{indent(align(rows))}")
    return "\n\n".join(blocks)


def _group_lines(groups: Sequence[GroupMapping], few: int | None) -> Iterator[str]:
    """Yield lines about mappings of instructions with several statements or outputs, or with predicated lanes."""
    counts = counts_text(tally_groups(groups))
    yield f"instructions of several statements or outputs, or under predicates: {counts}"
    for group in groups[:few]:
        without = f", {', '.join(group.unused)} unused" if group.unused else ""
        yield f"  {group.instruction} ({group.kind}{without})"
        yield from (f"    statement {p.statement}: {axes_text(p)}  {operands_text(p)}" for p in group.parts)
    if few is not None and len(groups) > few:
        yield f"  … and {len(groups) - few} more: --all lists them"


def counts_text(tally: Tally) -> str:
    """Return the numbers by kind as text, with composed mappings if there are any."""
    words = f"{tally.count} whole, {tally.split} split, {tally.degenerate} degenerate"
    return f"{words}, {tally.composed} composed" if tally.composed else words


def statement_line(number: int, statement: Statement) -> str:
    """Return text with a statement, its number and its loops."""
    loops = ", ".join(f"{a.name} in {a.extent}" for a in statement.axes)
    around = ", ".join(f"seq {a.name} in {a.extent}" for a in statement.sequence)
    over = "; ".join(part for part in (around, loops) if part)
    return f"statement {number}: {statement_text(statement)}{f'  over {over}' if over else ''}"


def _statement_lines(matched: Matched, number: int, few: int | None) -> Iterator[str]:
    own = matched.of_statement(number)
    statement = matched.statements[number]
    yield statement_line(number, statement)
    if not own or (number in matched.unperformed and few is not None):
        yield f"  {_without_own(matched, number)}"
        return
    if not is_computing(statement) and few is not None:
        names = list(by_instruction(own))
        first = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
        yield f"  a move: {counts_text(tally(own))}, not counted above; by {first}"
        # Lines about a statement whose operands cannot be moved, with the reasons of a few instructions.
        reasons = list(dict.fromkeys(matched.look.reasons_against(number).values()))
        if reasons:
            yield "  none of them is carried out:"
            yield from (f"    {reason}" for reason in reasons[:_REASONS])
        if len(reasons) > _REASONS:
            yield f"    … and {len(reasons) - _REASONS} more: --all shows them"
        return
    yield indent(_counts_table(matched, number, every=few is None))
    best = best_of(matched, number, few)
    shown = best if few is None else best[:few]
    yield ""
    rows = [_COLUMNS, *(_row(facts) for facts in shown)]
    yield indent(align(rows, right=(4, 6)))
    yield from _unproved_lines([matched.look.at(m) for m in own])
    if len(shown) < len(own):
        yield f"  … and {len(own) - len(shown)} more: --all lists them, --instruction NAME those of one"


def _without_own(matched: Matched, number: int) -> str:
    """Return a note about a statement without a mapping of its own, or ""."""
    if any(number in g.statements for g in matched.groups):
        return f"performed below: {counts_text(total(matched.counts_of(number).values()))}"
    own = matched.of_statement(number)
    return f"no one instruction performs it; {len(own)} can store its value" if own else "no mapping"


def best_of(matched: Matched, number: int, few: int | None) -> list[MappingFacts]:
    """Return the facts about a statement's mappings, the best first. The best `few` have their movement.

    Moves of other instructions' results are not among the best, unless there is nothing else.
    """
    found = matched.look.ranked(matched.of_statement(number), few)
    if few is None:
        return found
    worth = [f for f in found if not f.mapping.composed or f.mapping.instruction in matched.computing]
    return worth or found


def few_each(matched: Matched) -> int:
    """Return how many mappings are shown for each statement."""
    return max(3, FEW // max(1, len({m.statement for m in matched.mappings})))


def _unproved_lines(found: Sequence[MappingFacts]) -> Iterator[str]:
    """Yield lines with the number of unproved mappings for each open proof step."""
    reasons = Counter(f.proof.reason for f in found if f.proof.status != "proved")
    yield from (f"  unproved: {number}, for {reason}" for reason, number in reasons.items())


def _open_sizes(matched: Matched) -> list[str]:
    return [f"{p.name}=…" for p in matched.kernel.params if p.dtype is None and p.default is None]


def _counts_table(matched: Matched, number: int, *, every: bool) -> str:
    counted = matched.counts_of(number)
    named = {n: c for n, c in counted.items() if every or c.plain or n in matched.computing}
    rows = [("instruction", *_COUNTS)]
    rows += [(name, *_numbers(one)) for name, one in named.items()]
    if len(named) < len(counted):
        moves = [one for name, one in counted.items() if name not in named]
        rows.append((f"{len(moves)} moves of what is computed first", *_numbers(total(moves))))
    if len(rows) > 2:
        rows.append(("total", *_numbers(total(counted.values()))))
    return align(rows, right=range(1, 1 + len(_COUNTS)))


def _numbers(one: Tally) -> tuple[str, str, str, str]:
    return str(one.count), str(one.split), str(one.degenerate), str(one.composed)


def _row(facts: MappingFacts) -> tuple[str, ...]:
    mapping = facts.mapping
    return (
        mapping.instruction,
        axes_text(mapping, facts.order),
        operands_text(mapping),
        f"{mapping.kind}, composed" if mapping.composed else mapping.kind,
        utilisation_text(facts),
        movement_text(facts),
        OPEN if facts.cost_ns is None else time_text(facts.cost_ns),
        facts.proof.status,
    )


EACH = 6
"""Variants shown of a mapping."""

MOST = 64
"""Variants shown of a mapping when everything is asked for: an order of eight axes has 40320."""


def variants_text(matched: Matched, *, every: bool = False) -> str:
    """Return the best mappings of each computing statement, or of all, with the first variants of each."""
    blocks: list[str] = []
    for number, found in _shown_mappings(matched, every=every):
        lines = [f"variants for {statement_line(number, matched.statements[number])}"]
        for place, facts in enumerate(found, 1):
            lines += _mapping_lines(place, facts, matched.look, MOST if every else EACH)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) or "no mapping, and hence no variants"


def _shown_mappings(matched: Matched, *, every: bool) -> Iterator[tuple[int, Sequence[MappingFacts]]]:
    """Yield the computing statements, or all, with the mappings to show."""
    few = None if every else few_each(matched)
    for number, statement in enumerate(matched.statements):
        if matched.of_statement(number) and (every or is_computing(statement)):
            yield number, best_of(matched, number, few)[:few]


def _mapping_lines(place: int, facts: MappingFacts, look: Look, most: int) -> Iterator[str]:
    mapping = facts.mapping
    orders, count = count_groupings(mapping), look.count_variants(mapping)
    ways = f"{orders} orders of fusion and cuts" if orders > 1 else "one order"
    number = "more than can be counted quickly" if count is None else f"{count} variants"
    name = f"{mapping.instruction}  {axes_text(mapping, facts.order)}  {operands_text(mapping)}"
    yield f"{place:>3}  {name}: {ways}, {number}"
    found = list(islice(look.variants(mapping), most + 1))
    rows = [("axes", "tail", "movement"), *(_variant_row(facts, variant) for variant in found[:most])]
    yield indent(align(rows), "       ")
    if len(found) > most:
        rest = "more" if count is None else f"{count - most} more"
        yield f"       … and {rest}{'' if most == MOST else f': --all lists up to {MOST}'}"


def _variant_row(facts: MappingFacts, variant: MappingVariant) -> tuple[str, str, str]:
    mapping = replace(facts.mapping, groups=variant.groups)
    tail = variant.tail
    if variant.fills:
        tail += f" with {', '.join(f'{n} = {c.value}' for n, c in variant.fills)}"
    if tail == "none":
        tail = "no way"
    return axes_text(mapping, facts.order), tail, movement_text(replace(facts, movements=variant.movements))


def variants_json(matched: Matched, *, every: bool = False) -> list[dict[str, object]]:
    """Return the variants as JSON: mappings with their first variants and the number of all orders."""
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
        for number, found in _shown_mappings(matched, every=every)
        for facts in found
    ]


def _variant(variant: MappingVariant) -> dict[str, object]:
    return {
        "groups": [
            {"instruction_axes": list(g.instruction_axes), "kernel_axes": list(g.kernel_axes)}
            for g in variant.groups
        ],
        "tail": variant.tail,
        "fills": {name: constant.value for name, constant in variant.fills},
        "movement": {m.operand: m.kind for m in variant.movements},
    }
