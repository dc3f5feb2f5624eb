"""The picture of a machine shows all of it, and no box lies on another one."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

from isamap.cli import main
from isamap.hw_specs import shipped_drafts
from isamap.machine import list_machines, load_machine
from isamap.machine.templates import begin
from isamap.report.machine_picture import machine_svg

SVG = "{http://www.w3.org/2000/svg}"
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", [*list_machines(), *shipped_drafts()])
def test_everything_is_in_the_picture(name: str) -> None:
    machine = load_machine(name)
    drawn = ElementTree.fromstring(machine_svg(machine))
    names = [text.text for text in drawn.iter(f"{SVG}text") if text.get("class") == "name"]
    assert sorted(filter(None, names)) == sorted(
        [*(m.name for m in machine.memories.values() if m.base is None), *machine.units]
    )
    links = [path for path in drawn.iter(f"{SVG}path") if path.get("class") == "link"]
    assert len(links) == len(machine.links)
    said = [text.text for text in drawn.iter(f"{SVG}text")]
    assert all(f"× {unit.count}" in said for unit in machine.units.values())


@pytest.mark.parametrize("name", [*list_machines(), *shipped_drafts()])
def test_boxes_lie_apart_and_within(name: str) -> None:
    drawn = ElementTree.fromstring(machine_svg(load_machine(name)))
    width, height = float(drawn.get("width", 0)), float(drawn.get("height", 0))
    boxes = [
        tuple(float(box.get(key, 0)) for key in ("x", "y", "width", "height"))
        for box in drawn.iter(f"{SVG}rect")
        if "box" in box.get("class", "")
    ]
    for x, y, wide, high in boxes:
        assert x >= 0
        assert y > 48, "the title stands above"
        assert x + wide <= width
        assert y + high <= height
    for (x1, y1, w1, h1), (x2, y2, w2, h2) in combinations(boxes, 2):
        assert x1 + w1 < x2 or x2 + w2 < x1 or y1 + h1 < y2 or y2 + h2 < y1


def test_names_are_escaped_and_both_modes_styled(tmp_path: Path) -> None:
    text = begin("mine", "matrix", {}).replace("summary: an array", 'summary: "an <array> & more"  #')
    (tmp_path / "mine.yaml").write_text(text)
    drawn = machine_svg(load_machine(str(tmp_path / "mine.yaml")))
    assert "an &lt;array&gt; &amp; more" in drawn
    assert "prefers-color-scheme: dark" in drawn


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "amx.svg"
    assert main(["hw", "show", "x86-amx", "--svg", str(file)]) == 0
    assert file.read_text() == machine_svg(load_machine("x86-amx"))
    assert main(["hw", "show", "x86-amx", "--svg", str(file)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["hw", "show", "x86-amx", "--svg", str(file), "--overwrite"]) == 0


def test_the_picture_in_the_docs_is_this_one(tmp_path: Path) -> None:
    (tmp_path / "edge.yaml").write_text(begin("edge", "matrix", {"rows": 32, "spad_bytes": 512 << 10}))
    shown = (DOCS / "edge.svg").read_text(encoding="utf-8")
    assert shown == machine_svg(load_machine(str(tmp_path / "edge.yaml")))
