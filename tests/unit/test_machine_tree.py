"""YAML becomes nodes with the file's positions; what a description may not contain is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from isamap.machine.tree import MappingNode, ScalarNode, Sequence, decode, read_tree
from isamap.source import Source, SpecProblem


def read(text: str) -> MappingNode:
    return read_tree(Source("m.yaml", text))


def code(data: bytes) -> str:
    with pytest.raises(SpecProblem) as found:
        read_tree(decode("m.yaml", data))
    return found.value.diagnostics[0].code


def test_scalars_stay_text() -> None:
    root = read("a: no\nb: 0x10\nc: 1e3\nd: 'null'\ne: [on, 3]\n")
    assert [(k.text, v.text) for k, v in root.entries if isinstance(v, ScalarNode)] == [
        ("a", "no"), ("b", "0x10"), ("c", "1e3"), ("d", "null"),
    ]  # fmt: skip
    e = root.get("e")
    assert isinstance(e, Sequence)
    assert [i.text for i in e.items if isinstance(i, ScalarNode)] == ["on", "3"]


def test_spans_are_positions_in_the_file() -> None:
    root = read("# é\nkey:\n  - {inner: value}\n")
    items = root.get("key")
    assert isinstance(items, Sequence)
    inner = items.items[0]
    assert isinstance(inner, MappingNode)
    name, value = inner.entries[0]
    assert isinstance(value, ScalarNode)
    assert (str(name.span), name.span.text) == ("m.yaml:3:6", "inner")
    assert (str(value.span), value.span.text) == ("m.yaml:3:13", "value")


def test_reading_stops_before_a_key() -> None:
    root = read_tree(Source("m.yaml", "a: 1\nb: 2\nc: [unfinished\n"), "c")
    assert [k.text for k, _ in root.entries] == ["a", "b"]


def test_a_byte_order_mark_is_skipped() -> None:
    assert read_tree(decode("m.yaml", b"\xef\xbb\xbfa: 1\n")).get("a") is not None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a: \xff\xfe", "yaml-not-utf"),
        (b"a: " + b"x" * 1_000_001, "yaml-too-large"),
        (b"a: \x01", "yaml-syntax"),
        (b"a: " + b"[" * 500_000, "yaml-too-deep"),
        (b"a: " + b"{a: " * 200_000, "yaml-too-deep"),
        (b"a: &x 1\nb: *x\n", "yaml-alias"),
        (b"<<: {a: 1}\n<<: {a: 1}\n", "yaml-duplicate-key"),
        (b"a: !!binary abc\n", "yaml-tag"),
        (b"just words\n", "yaml-not-a-mapping"),
        (b"", "yaml-empty"),
        (b"\0", "yaml-syntax"),
    ],
)
def test_traps_are_refused(data: bytes, expected: str) -> None:
    assert code(data) == expected


@pytest.mark.parametrize("name", ["x86-avx2", "edge-npu", "dot-16"])
def test_both_parsers_read_the_same_tree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of PyYAML without libyaml parses in Python."""
    text = (Path(__file__).parents[2] / "hw_specs" / f"{name}.yaml").read_text(encoding="utf-8")
    found = read_tree(Source(name, text))
    read_tree.cache_clear()
    monkeypatch.setattr("isamap.machine.tree.yaml_loader", lambda: yaml.SafeLoader)
    assert read_tree(Source(name, text)) == found
    read_tree.cache_clear()
