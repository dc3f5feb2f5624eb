"""Top-level entries of a description, each parsed by itself, are the whole tree; no other text is read so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from isamap.hw_specs import machine_path, shipped_drafts, shipped_machines
from isamap.machine import tree
from isamap.source import Source, SpecProblem


def test_entries_read_apart_are_the_whole_of_every_shipped_description() -> None:
    for name in (*shipped_machines(), *shipped_drafts()):
        source = Source(name, machine_path(name).read_text())
        joined, whole = tree.joined_entries(source), tree.whole_tree(source, None)
        assert joined is not None, name
        assert joined == whole, name


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2\n",
        "a: {b: 1,\nc: 2}\n",
        "a: 'b\nc: 2'\n",
        "a: &x 1\nb: *x\n",
        "--- \na: 1\n",
        "%YAML 1.2\n---\na: 1\n",
        "a: 1\n---\nb: 2\n",
        "a: 1\nb\n",
        "a: [1\nb: 2\n",
        "  a: 1\n",
        "",
        "# nothing\n",
    ],
)
def test_a_text_of_other_shape_is_read_as_a_whole(text: str) -> None:
    source = Source("m.yaml", text)
    assert tree.joined_entries(source) is None

    def found(read: Callable[[Source, str | None], tree.MappingNode]) -> object:
        try:
            return read(source, None)
        except SpecProblem as error:
            return [(d.code, d.message, d.span) for d in error.diagnostics]

    assert found(tree.read_tree) == found(tree.whole_tree)
