"""The notebook of docs/: every cell runs, and says what it says in the file."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOUR = Path(__file__).resolve().parents[2] / "docs" / "tour.ipynb"
OF_THIS_PROCESSOR = "here"  # the tag of cells that say something else on another one


def said(cell: Any) -> list[tuple[str, str]]:
    """Return what a cell prints and shows; of pictures, that there is one.

    One print may arrive in two messages: neighbouring parts of one stream are one text.
    """
    texts: list[tuple[str, str]] = []
    erased = re.compile(r"[^\n]*\x1b\[K")  # what a progress line showed
    for kind, parts in itertools.groupby(cell["outputs"], key=lambda o: o["output_type"]):
        said_here = ["".join(o.get("text") or o["data"]["text/plain"]) for o in parts]
        if kind == "stream":
            said_here = [text] if (text := erased.sub("", "".join(said_here))).strip() else []
        texts += [(kind, text) for text in said_here]
    pictures = [("picture", kind) for o in cell["outputs"] for kind in o.get("data", {}) if "image" in kind]
    return [(kind, "a picture" if "SVG object" in text else text.strip()) for kind, text in texts] + pictures


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, Any]]:
    """Return the code cells as the file has them, and as they are after a run of all."""
    run = tmp_path_factory.mktemp("tour") / TOUR.name
    stored = json.loads(TOUR.read_text("utf-8"))
    emptied = [c | {"outputs": []} if c["cell_type"] == "code" else c for c in stored["cells"]]
    run.write_text(json.dumps(stored | {"cells": emptied}), "utf-8")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    start = "from nbclient.cli import main; main()"
    command = (sys.executable, "-c", start, "--inplace", "--timeout=600", str(run))
    done = subprocess.run(
        command, cwd=run.parent, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pairs = zip(stored["cells"], json.loads(run.read_text("utf-8"))["cells"], strict=True)
    return [(a, b) for a, b in pairs if a["cell_type"] == "code"]


def test_cells_say_what_they_say_in_the_file(cells: list[tuple[Any, Any]]) -> None:
    same = [(a, b) for a, b in cells if OF_THIS_PROCESSOR not in a["metadata"].get("tags", ())]
    assert len(same) >= 8
    assert [said(b) for _, b in same] == [said(a) for a, _ in same]


def test_cells_about_this_processor_say_something(cells: list[tuple[Any, Any]]) -> None:
    found = [said(b) for a, b in cells if OF_THIS_PROCESSOR in a["metadata"].get("tags", ())]
    assert len(found) == 3
    assert all(kind == "stream" and text.strip() for outputs in found for kind, text in outputs)
