"""The `for` clause: rows of values that expand one text to many instructions.

`for: [{T: f32, N: [8, 16]}, {T: f64, N: 4}]` has the rows (T=f32, N=8), (T=f32, N=16), (T=f64, N=4);
`for: {T: {types: float, except: [f64]}}` one for each float type of the language but f64.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product

from isamap.machine.fields import read_items, read_mapping, read_name, read_names, read_text
from isamap.machine.keys import TEXT, Keys, ListOf, NamedBy, OneOf, one_of
from isamap.machine.tree import Findings, MappingNode, Node, ScalarNode, Sequence
from isamap.source import Span, dataclass, show_value

MAX_MEMBERS = 256

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Types:
    """A set of the language's types, without those in `omitted`. With `held`, only types that hold it."""

    names: tuple[str, ...]
    omitted: tuple[ScalarNode, ...]
    held: ScalarNode | None


_Table = dict[str, tuple[str, ...] | _Types]
"""The values of one row, by variable."""

_VARIABLE = re.compile(r"[A-Z]+")
_VALUE = re.compile(r"[A-Za-z0-9_]+")


def _type_sets() -> tuple[str, ...]:
    from isamap.ir.dtypes import TYPE_SETS  # brings numpy, which detection does without

    return tuple(TYPE_SETS)


TYPE_SET = Keys({"types": one_of(_type_sets), "except": ListOf(TEXT), "holding": TEXT}, ("types",))
ROW = NamedBy(OneOf((TEXT, ListOf(TEXT, 1), TYPE_SET)), pattern=_VARIABLE.pattern)
ROWS = OneOf((ROW, ListOf(ROW, 1)))


def read_rows(node: Node | None, findings: Findings) -> tuple[Row, ...]:
    """Return the rows of a `for` clause. One empty row when there is none."""
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
            expected, given = (", ".join(t) for t in (tables[0], table))
            findings.report(
                "rows-differ", "all rows of `for` give the same variables", n.span,
                f"the first row gives {expected}; this one gives {given}",
            )  # fmt: skip
            return ()
    if (count := sum(_size(table) for table in tables)) > MAX_MEMBERS:
        said = f"this family has {show_value(count)} members; the limit is {MAX_MEMBERS}"
        findings.report("family-too-large", said, node.span)
        return ()
    rows = tuple(row for table in tables for row in _members(table))
    if not rows:
        findings.report("empty-value", "`for` has no members", node.span)
    return rows


def check_variables(rows: tuple[Row, ...], texts: Iterable[ScalarNode], findings: Findings) -> bool:
    """Return whether the texts use only variables that the rows give."""
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
    """Return a note for a finding in a member of a family, or () for a single instruction."""
    return (f"in the member {', '.join(f'{k}={v}' for k, v in row.items())} of this family",) if row else ()


def _list_values(values: tuple[str, ...] | _Types) -> tuple[str, ...]:
    return values.names if isinstance(values, _Types) else values


def _size(table: _Table) -> int:
    size = 1
    for values in table.values():
        size *= len(_list_values(values))
    return size


def _members(table: _Table) -> Iterable[Row]:
    """Return all combinations of the variables' values that are compatible with each other."""
    ranging = {name: values for name, values in table.items() if isinstance(values, _Types)}
    for combination in product(*map(_list_values, table.values())):
        row = dict(zip(table, combination, strict=True))
        if all(_fits(row[name], values, row) for name, values in ranging.items()):
            yield row


def _fits(name: str, values: _Types, row: Row) -> bool:
    from isamap.ir import DTYPES, converts_exactly  # brings numpy, which detection does without

    if any(name == row.get(o.text, o.text) for o in values.omitted):
        return False
    return values.held is None or converts_exactly(DTYPES[row[values.held.text]], DTYPES[name])


def _read_row(node: Node, findings: Findings) -> _Table | None:
    before = len(findings.diagnostics)
    table: _Table = {}
    for key, value in read_names(node, "a row of `for`", findings):
        if not _VARIABLE.fullmatch(key.text):
            findings.report(
                "not-a-variable", f"`{key.text}` is not a variable", key.span,
                "variables are written in capitals",
                advice=f"write `{re.sub('[^A-Z]', '', key.text.upper()) or 'T'}`",
            )  # fmt: skip
        table[key.text] = (
            _read_types(value, findings)
            if isinstance(value, MappingNode)
            else _read_values(value, key.text, findings)
        )
    if isinstance(node, MappingNode) and not table:
        findings.report("empty-value", "a row of `for` gives no variable", node.span)
    _check_references(table, findings)
    return table if len(findings.diagnostics) == before else None


def _read_types(node: MappingNode, findings: Findings) -> _Types:
    """Return `{types: integer, except: [i4, A], holding: A}`."""
    from isamap.ir.dtypes import TYPE_SETS  # brings numpy, which detection does without

    keys = read_mapping(node, "a set of types", TYPE_SET, findings)
    name = read_name(keys.get("types"), "`types`", findings)
    if name is not None and name.text not in TYPE_SETS:
        findings.unknown("unknown-type-set", "set of types", name.text, name.span, TYPE_SETS)
    types = TYPE_SETS.get(name.text, ()) if name is not None else ()
    items = read_items(keys.get("except"), "`except`", findings)
    omitted = tuple(n for i in items if (n := read_name(i, "an item of `except`", findings)) is not None)
    held = read_name(keys.get("holding"), "`holding`", findings)
    return _Types(tuple(t.name for t in types), omitted, held)


def _check_references(table: _Table, findings: Findings) -> None:
    """Check that sets of types refer to types, or to variables of the row whose values are types."""
    from isamap.ir import DTYPES  # brings numpy, which detection does without

    of_types = [name for name, values in table.items() if all(v in DTYPES for v in _list_values(values))]
    for values in table.values():
        if isinstance(values, _Types):
            for name in values.omitted:
                if name.text not in DTYPES and name.text not in of_types:
                    known = (*DTYPES, *of_types)
                    findings.unknown("unknown-type", "type or variable of types", name.text, name.span, known)
            if values.held is not None and values.held.text not in of_types:
                name = values.held
                findings.unknown("unknown-variable", "variable of types", name.text, name.span, of_types)


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
