"""A kernel's mappings as JSON, schema isamap.match/1: all mappings, and counts."""

from __future__ import annotations

from isamap.ir import print_expr
from isamap.match import GroupMapping, Mapping, Movement, places, statement_text
from isamap.report.mapping_facts import MappingFacts, Matched, Tally, by_instruction, is_computing, total
from isamap.transform import Statement


def mappings_json(matched: Matched, few: int | None = 0) -> dict[str, object]:
    """Return the JSON payload, with movement for the best `few` mappings of each statement, or for all."""
    known = {
        facts.mapping: facts
        for number in range(len(matched.statements))
        for facts in matched.look.ranked(matched.of_statement(number), few)
    }
    return {
        "kernel": matched.kernel.name,
        "machine": matched.machine.name,
        "mode": matched.mode,
        "sizes": dict(matched.sizes),
        "mappings": [
            _describe_mapping(facts.mapping, facts) for facts in (known[m] for m in matched.mappings)
        ],
        **matched.counts.as_json(),
        "instructions": _numbers(by_instruction(matched.mappings, matched.groups)),
        "groups": [_group(g) for g in matched.groups],
        "statements": [_statement(matched, n, s) for n, s in enumerate(matched.statements)],
    }


def _describe_mapping(m: Mapping, facts: MappingFacts) -> dict[str, object]:
    made = None if facts.is_open else facts.estimate
    return {
        **_describe_place(m),
        "issues": None if made is None else made.issues,
        "utilisation": None if made is None else round(made.utilisation, 6),
        "utilisation_bound": facts.bound,
        "movement": None if facts.movements is None else {x.operand: _movement(x) for x in facts.movements},
        "compute_ns": None if made is None else made.compute_ns,
        "movement_ns": None if made is None else facts.moves_ns,
        "cost_ns": facts.cost_ns,
        "proof": facts.proof.status,
        "unproved": facts.proof.reason or None,
    }


def _group(group: GroupMapping) -> dict[str, object]:
    return {
        "instruction": group.instruction,
        "statements": list(group.statements),
        "kind": group.kind,
        "unused": list(group.unused),
        "parts": [_describe_place(part) for part in group.parts],
    }


def _describe_place(m: Mapping) -> dict[str, object]:
    return {
        "instruction": m.instruction,
        "statement": m.statement,
        "operands": {name: print_expr(b.subject) for name, b in places(m.bindings)},
        "axes": {axis: list(kernel_axes) for axis, kernel_axes in m.axes.items()},
        "kind": m.kind,
        "composed": m.composed,
    }


def _movement(movement: Movement) -> dict[str, object]:
    return {
        "kind": movement.kind,
        "chain": list(movement.chain),
        "packing": list(movement.packing),
        "bytes_per_issue": movement.bytes_per_issue,
        "why": movement.why,
    }


def _statement(matched: Matched, number: int, statement: Statement) -> dict[str, object]:
    counted = matched.counts_of(number)
    return {
        "statement": number,
        "text": statement_text(statement),
        "computes": is_computing(statement),
        **total(counted.values()).as_json(),
        "instructions": _numbers(counted),
    }


def _numbers(counted: dict[str, Tally]) -> dict[str, dict[str, int]]:
    return {name: one.as_json() for name, one in counted.items()}
