"""The schema for editors says what readers say: of shipped descriptions, keys, values of each kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from isamap.cli import main
from isamap.hw_specs import FOLDER
from isamap.machine.keys import Keys, LeafKey, ListOf, NamedBy, OneOf, Value
from isamap.machine.spec import MACHINE, machine_schema, read_spec
from isamap.machine.tree import Findings, read_tree
from isamap.source import Source

FILES = sorted([*FOLDER.glob("*.yaml"), *FOLDER.glob("drafts/*.yaml")])
VALIDATOR: Any = jsonschema.Draft202012Validator(machine_schema())
HEAD = "isamap: 1, name: n, summary: s"


def told(text: str) -> tuple[bool, bool]:
    """Return whether the schema accepts a text, and whether the readers do, each key by itself."""
    findings = Findings()
    read_spec(read_tree(Source("m.yaml", text)), findings)
    # Of figures that need each other, a schema knows nothing.
    return VALIDATOR.is_valid(yaml.safe_load(text)), all(
        d.code == "missing-key" for d in findings.diagnostics
    )


def leaves(value: Value, frame: str = "%s") -> Iterator[tuple[str, LeafKey]]:
    """Yield every value of the tables, with the text around it: all that has to stand beside is there."""
    match value:
        case LeafKey():
            yield frame, value
        case ListOf(item):
            yield from leaves(item, frame % "[%s]")
        case NamedBy(inner, pattern):
            yield from leaves(inner, frame % f"{{{'T' if pattern else 'some'}: %s}}")
        case OneOf(kinds):
            for kind in kinds:
                yield from leaves(kind, frame)
        case Keys(values, required):
            for key, inner in values.items():
                beside = {k: right(values[k]) for k in required if k != key}
                if "interval_ns" in values:  # an interval and a latency, in one unit each
                    beside |= {k: "1" for k in ("interval_ns", "latency_ns") if k[:3] != key[:3]}
                around = "".join(f"{k}: {v}, " for k, v in beside.items())
                yield from leaves(inner, frame % f"{{{around}{key}: %s}}")


def right(value: Value) -> str:
    """Return a value that is fine."""
    match value:
        case LeafKey(words=known) if known is not None:
            return known()[0]
        case LeafKey("flag"):
            return "true"
        case LeafKey("text"):
            return "some"
        case LeafKey(least=least):
            return f"{max(1, int(least))}"
        case ListOf(item):
            return f"[{right(item)}]"
        case NamedBy(inner):
            return f"{{some: {right(inner)}}}"
        case OneOf(kinds):
            return right(kinds[0])
        case Keys(values, required):
            costs = ", interval_ns: 1, latency_ns: 1" if "interval_ns" in values else ""
            return f"{{{', '.join(f'{k}: {right(values[k])}' for k in required)}{costs}}}"


WRITTEN = {"cpu": "max", "flags": "-O2", "lengths": "svcntb()", "c_types": "float", "c_variables": "float"}
"""Texts that readers hold against more than their kind."""


def wrong(leaf: LeafKey) -> list[str]:
    """Values that are not of a kind."""
    if leaf.words is not None:
        return ["[]", "{}", "surely"]
    if leaf.kind in ("text", "expression"):
        return ["[]", "{}"]
    return [
        "[]",
        "{}",
        "surely",
        *(["-1"] if leaf.kind != "flag" else []),
        *(["0.5"] * (leaf.kind != "number")),
    ]


LEAVES = [
    (frame.replace("{", "{isamap: 1, ", 1), leaf)
    for frame, leaf in leaves(MACHINE)
    if "isamap" not in frame and " for: " not in frame  # below
]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_shipped_description_is_of_the_schema(path: Path) -> None:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert [error.message for error in VALIDATOR.iter_errors(content)] == []


@pytest.mark.parametrize(("frame", "leaf"), LEAVES, ids=[frame for frame, _ in LEAVES])
def test_schema_and_readers_agree_on_every_value(frame: str, leaf: LeafKey) -> None:
    for word in wrong(leaf):
        assert told(frame % word) == (False, False), word
    word = next((word for key, word in WRITTEN.items() if f"{key}: " in frame[-40:]), right(leaf))
    if "c_types" not in frame and "c_variables" not in frame:
        assert told(frame % word) == (True, True)


@pytest.mark.parametrize("key", ["c_types", "c_variables"])
def test_a_type_of_c_is_a_text(key: str) -> None:
    types = "c_types: {f32: float}, " if key != "c_types" else ""
    text = f"{{{HEAD}, memories: {{some: {{{types}{key}: {{f32: %s}}}}}}}}"
    assert [told(text % word) for word in ("float", "[float]")] == [(True, True), (False, False)]


@pytest.mark.parametrize("key", ["nmae: n", "loops: {sum: 1, source: s}"])
def test_a_key_that_no_reader_knows_is_refused_by_both(key: str) -> None:
    assert told(f"{{{HEAD}, {key}}}") == (False, False)
    assert told(f"{{{HEAD}}}") == (True, True)


@pytest.mark.parametrize(
    ("rows", "fine"),
    [
        ("{T: f32}", True),
        ("[{T: [f32, f64], N: 4}]", True),
        ("{T: {types: float}}", True),
        ("{t: f32}", False),
    ],
)
def test_rows_of_families_are_of_the_schema(rows: str, fine: bool) -> None:
    cost = "cost: {unit: u, interval_ns: 1, latency_ns: 1}"
    instruction = f"{{for: {rows}, semantics: s, emit: e, {cost}, source: s}}"
    assert told(f"{{{HEAD}, instructions: [{instruction}]}}") == (fine, fine)


@pytest.mark.parametrize(
    ("size", "fine"), [("512 KiB", True), ("2MiB", True), ("512 KB", False), ("KiB", False)]
)
def test_sizes_are_of_the_schema(size: str, fine: bool) -> None:
    assert told(f"{{{HEAD}, states: {{s: {{bytes: {size}, fields: {{}}}}}}}}") == (fine, fine)


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hw", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == machine_schema()
    assert main(["hw", "schema", "-o", str(tmp_path / "s.json")]) == 0
    assert json.loads((tmp_path / "s.json").read_text()) == machine_schema()
