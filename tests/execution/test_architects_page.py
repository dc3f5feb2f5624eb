"""docs/architects.md leads from a template to a network: its script and its commands do what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from isamap.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "architects.md").read_text(encoding="utf-8")
BLOCKS = re.compile(r"```(\w*)\n((?:(?!```).*\n)*)```")


def test_the_page_leads_from_a_diagram_to_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCKS.findall(PAGE)
    (script,) = (text for word, text in blocks if word == "python")
    exec(compile(script, "make_net.py", "exec"), {})  # noqa: S102 - the page's own text
    commands = [text for word, text in blocks if word in ("console", "text")]
    assert len(commands) == 6
    for text in commands:
        command, _, said = text.removeprefix("$ ").partition("\n")
        assert main(shlex.split(command)[1:]) == 0
        found = capsys.readouterr().out.strip()
        if said.startswith("…"):
            assert said.strip().strip("…").strip() in found
        elif said.rstrip().endswith("…"):
            assert found.startswith(said.rstrip().removesuffix("…"))
        else:
            assert found == said.strip()
