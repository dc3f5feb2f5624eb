"""The page of a description's keys is written from the schema; `pytest --snapshot-update` writes it anew.

Defaults are read from a machine whose description states only required keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from isamap.machine import Machine, load_machine
from isamap.machine.keys import Keys, LeafKey, ListOf, NamedBy, OneOf, Value
from isamap.machine.spec import COST, MACHINE

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "machine-keys.md"
HEAD = """\
# Keys of descriptions

Every key of a [machine description](writing-a-machine.md), with its value, its unit and its default. A test writes
this page from the schema that the reader of descriptions uses. `isamap hw schema` prints that schema as JSON.

- *Required*: a description that has the mapping around the key must state the key.
- *None*: the key has no default. The linked section says what isamap does without it.
- A number of bytes may have a unit: `64`, `512 KiB`, `4 MiB`, `1 GiB`.
- An *expression* is a number, or a text that computes with the instruction's parameters, such as `"8 + R * C / 16"`.
- `NAME` and `FIELD` stand for names that the description chooses. `links[]` is an item of the list `links`.
"""
LEAST = """\
isamap: 1
name: least
summary: only required keys
sources: {here: this test}
target: {attributes: {}}
language: |
  memory far: addressable();
  memory middle: cache(bytes = 64);
  memory near: scratchpad(bytes = 64);
memories:
  far: {energy: {read_pj: 1, write_pj: 1, access_bytes: 1, source: here}}
links:
  - from: far
    to: middle
    bandwidth_bytes_per_ns: 1
    source: here
    rows: {source: here}
    streams: {traffic_factor: 1, computing_factor: 1, hinted_computing_factor: 1, row_start_ns: 1,
      hinted_start_ns: 1, long_bytes: 64, ahead_bytes: 64, source: here}
units: {unit: {count: 1}}
levels: {grid: {}, block: {}, lane: {count: 1}}
tlb: {count: 1, page_bytes: 4096, miss_ns: 1, source: here}
loops: {source: here}
model: {source: here}
program: {word_bits: 8, source: here}
instructions:
  - semantics: |
      instruction fill() {
        out z: i8[8] @ near;
        for i in 8 { z[i] = 0; }
      }
    emit: semantics
    cost: {unit: unit, interval_ns: 1, latency_ns: 1}
    source: here
"""
EXPLAINED = {
    "": "writing-a-machine.md#keys",
    "target": "writing-a-machine.md#keys",
    "target.attributes": "writing-a-machine.md#attributes-of-functions",
    "memories.NAME": "writing-a-machine.md#memories",
    "memories.NAME.energy": "energy.md#keys-of-a-description",
    "links[]": "writing-a-machine.md#links",
    "links[].rows": "writing-a-machine.md#links",
    "links[].streams": "writing-a-machine.md#links",
    "units.NAME": "writing-a-machine.md#keys",
    "levels.NAME": "writing-a-machine.md#levels",
    "tlb": "writing-a-machine.md#tlb-and-loops",
    "loops": "writing-a-machine.md#tlb-and-loops",
    "model": "writing-a-machine.md#model",
    "states.NAME": "writing-a-machine.md#states",
    "states.NAME.fields.FIELD": "writing-a-machine.md#states",
    "program": "writing-a-machine.md#encoding",
    "program.begin[].FIELD": "writing-a-machine.md#encoding",
    "program.end": "writing-a-machine.md#tokens-tables-and-the-end",
    "program.tokens[]": "writing-a-machine.md#tokens-tables-and-the-end",
    "program.tables.NAME": "writing-a-machine.md#tokens-tables-and-the-end",
    "program.bundle": "writing-a-machine.md#slots-and-loops",
    "program.bundle.slots[]": "writing-a-machine.md#slots-and-loops",
    "instructions[]": "writing-a-machine.md#instructions",
    "instructions[].for.NAME": "writing-a-machine.md#for-families",
    "instructions[].cost": "writing-a-machine.md#cost",
}
"""The section that explains the keys of each mapping."""
ENDINGS = {
    "_bytes_per_ns": "bytes per ns",
    "_pj_per_byte": "pJ per byte",
    "_pj_per_ns": "pJ per ns (mW)",
    "_mm2_per_kib": "mm² per KiB",
    "_mm2": "mm²",
    "_ghz": "GHz",
    "_ns": "ns",
    "_pj": "pJ",
    "_cycles": "cycles",
    "_per_cycle": "per cycle",
    "_bits": "bits",
    "bytes": "bytes",
    "_factor": "ratio",
}
ATTRIBUTES = {"up_to": "most", "asynchronous": "is_asynchronous", "for": ""}
"""Fields of classes that have another name than their key; "" if a class has none."""
FEW = 12  # words that a cell has room for


def mappings(value: Value, path: str, seen: list[Keys]) -> Iterator[tuple[str, Keys]]:
    """Yield each table of keys once, with its first place in a description."""
    match value:
        case LeafKey():
            return
        case ListOf(item):
            yield from mappings(item, f"{path}[]", seen)
        case NamedBy(inner):
            yield from mappings(
                inner, f"{path}.{'FIELD' if path.endswith((']', 'fields')) else 'NAME'}", seen
            )
        case OneOf(kinds):
            for kind in kinds:
                yield from mappings(kind, path.removesuffix("[]"), seen)
        case Keys(values):
            if value not in seen:
                seen.append(value)
                yield path, value
                for key, inner in values.items():
                    yield from mappings(inner, f"{path}.{key}".lstrip("."), seen)


def kind_of(value: Value) -> str:
    """Return what a value is, in words."""
    match value:
        case LeafKey(words=words) if words is not None:
            known = sorted(words())
            return ", ".join(f"`{word}`" for word in known) if len(known) <= FEW else "a word of the schema"
        case LeafKey("number" | "whole" | "bytes" as kind, least):
            noun = {"number": "number", "whole": "whole number", "bytes": "number of bytes"}[kind]
            return f"{noun} ≥ {least:g}"
        case LeafKey("flag"):
            return "`true`, `false`"
        case LeafKey(kind):
            return kind
        case ListOf(item):
            return f"list: {kind_of(item)}"
        case NamedBy(inner):
            said = kind_of(inner)
            return f"name → ({said})" if isinstance(inner, OneOf) else f"name → {said}"
        case OneOf(kinds):
            return ", or ".join(dict.fromkeys(map(kind_of, kinds)))
        case Keys():
            return "mapping"


def unit_of(key: str, value: Value) -> str:
    is_size = isinstance(value, LeafKey) and value.kind in {"number", "whole", "bytes", "expression"}
    return next((unit for end, unit in ENDINGS.items() if is_size and key.endswith(end)), "")


def objects(machine: Machine) -> dict[str, object]:
    """Return what the reader makes of the mappings of `LEAST`, by their path."""
    (link,), (instruction,) = machine.links, machine.instructions.values()
    return {
        "": machine,
        "target": machine.target,
        "target.attributes": machine.target.attributes,
        "memories.NAME": machine.memories["near"],
        "memories.NAME.energy": machine.memories["far"].energy,
        "links[]": link,
        "links[].rows": link.rows,
        "links[].streams": link.streams,
        "units.NAME": machine.units["unit"],
        "levels.NAME": machine.levels[0],
        "tlb": machine.tlb,
        "loops": machine.loops,
        "model": machine.model,
        "program": machine.program,
        "instructions[]": instruction,
        "instructions[].cost": instruction.cost,
    }


def default_of(key: str, table: Keys, read: object) -> str:
    """Return the cell of a key's default, which the reader has put in the place of what is not stated."""
    if key in table.required or (table == MACHINE and key == "isamap"):  # it has findings of its own
        return "*required*"
    if table == COST and key.startswith(("interval", "latency")):
        return "*required* in one of the two units"
    value = getattr(read, ATTRIBUTES.get(key, key) or " ", None)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"{value:g}"
    leaf = table.values[key]
    is_word = isinstance(leaf, LeafKey) and leaf.words is not None and isinstance(value, str)
    return f"`{value}`" if is_word and value else "none"


def written(folder: Path) -> str:
    """Return the page as the schema and the reader give it."""
    path = folder / "least.yaml"
    path.write_text(LEAST, encoding="utf-8")
    read = objects(load_machine(str(path)))
    parts = [HEAD]
    for place, table in mappings(MACHINE, "", []):
        rows = [
            f"| `{key}` | {kind_of(value)} | {unit_of(key, value)} | {default_of(key, table, read.get(place))} |"
            for key, value in table.values.items()
        ]
        title = f"## `{place}`" if place else "## The file"
        head = [
            f"{title}\n\n[Meaning of these keys]({EXPLAINED[place]})\n",
            "| key | value | unit | default |",
            "|---|---|---|---|",
        ]
        parts.append("\n".join([*head, *rows, ""]))
    return "\n".join(parts)


def test_the_page_lists_every_key(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    text = written(tmp_path)
    if pytestconfig.getoption("update_snapshots"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text


def test_the_linked_sections_name_every_key() -> None:
    """A key that no page explains would be a name and a unit only."""
    missing = [
        f"{place}: {key}"
        for place, table in mappings(MACHINE, "", [])
        for page in [(DOCS / EXPLAINED[place].partition("#")[0]).read_text(encoding="utf-8")]
        for key in table.values
        if not re.search(rf"(?<![\w-]){key}(?![\w-])", page)
    ]
    assert missing == []
