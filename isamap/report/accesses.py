"""Accesses per level and operand, as a table and as JSON.

statement  level   operand  tensor  reads  fills  updates  drains
0          buffer  w        W       48     0      0        0
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.plan.access_counts import Accesses, Convention
from isamap.plan.access_report import StatementAccesses
from isamap.report.columns import table

COLUMNS = ("statement", "level", "operand", "tensor", "reads", "fills", "updates", "drains")


def accesses_json(convention: Convention, found: Sequence[StatementAccesses]) -> dict[str, object]:
    """The counts as JSON, with the convention that they obey. Units: elements, nanoseconds."""
    return {
        "convention": {
            "name": convention.name,
            "first_read": convention.first_read,
            "refill": convention.refill,
            "latch": convention.latch,
            "shared_port": convention.shared_port,
        },
        "latency_ns": sum(s.latency_ns for s in found),
        "statements": [_statement_json(s) for s in found],
    }


def accesses_text(convention: Convention, found: Sequence[StatementAccesses]) -> str:
    """The counts for people."""
    rows = [COLUMNS, *(_row(s.statement, a) for s in found for a in s.accesses)]
    issues = " + ".join(str(s.issues) for s in found)
    latency = sum(s.latency_ns for s in found)
    return "\n".join(
        (
            f"accesses in elements, convention `{convention.name}`; {issues} issues, {latency:g} ns",
            table(rows),
        )
    )


def _statement_json(found: StatementAccesses) -> dict[str, object]:
    return {
        "statement": found.statement,
        "issues": found.issues,
        "compute_ns": found.compute_ns,
        "port_ns": found.port_ns,
        "unload_ns": found.unload_ns,
        "latency_ns": found.latency_ns,
        "accesses": [
            dict(
                zip(
                    COLUMNS[1:],
                    (a.level, a.operand, a.tensor, a.reads, a.fills, a.updates, a.drains),
                    strict=True,
                )
            )
            for a in found.accesses
        ],
    }


def _row(statement: int, a: Accesses) -> tuple[str, ...]:
    numbers = (a.reads, a.fills, a.updates, a.drains)
    return (str(statement), a.level, a.operand, a.tensor, *(str(n) for n in numbers))
