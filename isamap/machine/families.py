"""The `for` clause: rows of values that make many instructions out of one text.

`for: [{T: f32, N: [8, 16]}, {T: f64, N: 4}]` has the rows (T=f32, N=8), (T=f32, N=16), (T=f64, N=4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product

from isamap.machine.fields import read_names, read_text
from isamap.machine.findings import Findings
from isamap.machine.tree import Mapping, Node, Scalar, Sequence
from isamap.source import Span, shown

MAX_MEMBERS = 256

Row = dict[str, str]

_VARIABLE = re.compile(r"[A-Z]+")
_VALUE = re.compile(r"[A-Za-z0-9_]+")


def read_rows(node: Node | None, findings: Findings) -> tuple[Row, ...]:
    """The rows of a `for` clause; one empty row when there is none."""
    if node is None:
        return ({},)
    nodes = node.items if isinstance(node, Sequence) else (node,)
    tables = [table for n in nodes if (table := _read_row(n, findings)) is not None]
    if len(tables) < len(nodes) or not tables:
        if not nodes:
            findings.report("empty-value", "`for` has no rows", node.span)
        return ()
    for n, table in zip(nodes, tables, strict=True):
        if table.keys() != tables[0].keys():
            wanted, given = (", ".join(t) for t in (tables[0], table))
            findings.report(
                "rows-differ", "all rows of `for` give the same variables", n.span,
                f"the first row gives {wanted}; this one gives {given}",
            )  # fmt: skip
            return ()
    if (count := sum(_size(table) for table in tables)) > MAX_MEMBERS:
        said = f"this family has {shown(count)} members; the limit is {MAX_MEMBERS}"
        findings.report("family-too-large", said, node.span)
        return ()
    return tuple(
        dict(zip(table, values, strict=True)) for table in tables for values in product(*table.values())
    )


def check_variables(rows: tuple[Row, ...], texts: Iterable[Scalar], findings: Findings) -> bool:
    """Whether the texts use only variables that the rows give."""
    from isamap.syntax import VARIABLE  # brings numpy, which detection does without

    before = len(findings.diagnostics)
    known = tuple(rows[0]) if rows else ()
    for text in texts:
        source = text.span.source
        for match in VARIABLE.finditer(source.text, text.span.start, text.span.end):
            if match[1] not in known:
                span = Span(source, match.start(), match.end())
                findings.unknown("unknown-variable", "variable", match[1], span, known)
    return len(findings.diagnostics) == before


def describe_row(row: Row) -> tuple[str, ...]:
    """What to note beside a finding in a member of a family; nothing for an instruction of its own."""
    return (f"in the member {', '.join(f'{k}={v}' for k, v in row.items())} of this family",) if row else ()


def _size(table: dict[str, tuple[str, ...]]) -> int:
    size = 1
    for values in table.values():
        size *= len(values)
    return size


def _read_row(node: Node, findings: Findings) -> dict[str, tuple[str, ...]] | None:
    before = len(findings.diagnostics)
    table: dict[str, tuple[str, ...]] = {}
    for key, value in read_names(node, "a row of `for`", findings):
        if not _VARIABLE.fullmatch(key.text):
            findings.report(
                "not-a-variable", f"`{key.text}` is not a variable", key.span,
                "variables are written in capitals",
                advice=f"write `{re.sub('[^A-Z]', '', key.text.upper()) or 'T'}`",
            )  # fmt: skip
        table[key.text] = _read_values(value, key.text, findings)
    if isinstance(node, Mapping) and not table:
        findings.report("empty-value", "a row of `for` gives no variable", node.span)
    return table if len(findings.diagnostics) == before else None


def _read_values(node: Node, variable: str, findings: Findings) -> tuple[str, ...]:
    items = node.items if isinstance(node, Sequence) else (node,)
    values: list[str] = []
    for item in items:
        text = read_text(item, f"a value of `{variable}`", findings)
        if text is None:
            continue
        values.append(text.text)
        if not _VALUE.fullmatch(text.text):
            findings.report(
                "not-a-value", f"`{text.text}` cannot be the value of a variable", text.span,
                "a value is a name, a part of a name, or a whole number",
            )  # fmt: skip
    if not items:
        findings.report("empty-value", f"`{variable}` has no value", node.span)
    return tuple(values)
