"""Files that an earlier version wrote are read, and mean what they meant (tests/written_files.py)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from written_files import answer, results, types_of

from isamap.cli import main

FOLDERS = sorted(p for p in (Path(__file__).parents[1] / "compatibility").iterdir() if p.name.isdigit())
LATER = {
    "machine.yaml": (b"isamap: 1", b"isamap: 2", "hw check machine.yaml"),
    "product.schedule": (
        b"schedule 1",
        b"schedule 2",
        "compile product.ir --hw machine.yaml -D M=32 N=32 K=32 --schedule product.schedule -o out",
    ),
    "product.program": (
        b"\x01\x00\x00\x00",
        b"\x02\x00\x00\x00",
        "verify product.ir --hw machine.yaml --program product.program",
    ),
    "graph/graph.json": (b"model/1", b"model/2", "verify graph/graph.json --hw generic-c"),
}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_kernels_mean_what_they_meant(folder: Path) -> None:
    wrong: list[str] = []
    rows: dict[str, Any] = json.loads((folder / "kernels.json").read_text(encoding="utf-8"))
    for name, row in rows.items():
        found = results((folder / "kernels" / f"{name}.ir").read_text(encoding="utf-8"), *row["given"])
        same = {k: pytest.approx(v, rel=1e-5, abs=1e-6) for k, v in row["results"].items()}
        wrong += [f"{name}: {found}"] * (found != same)
    assert not wrong


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_files_are_read_and_answers_keep_their_names(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    lost: list[str] = []
    recorded: dict[str, dict[str, str]] = json.loads(Path("answers.json").read_text(encoding="utf-8"))
    for command, types in recorded.items():
        now = dict(types_of(answer(command)))
        lost += [
            f"{command}: {path} is {now.get(path)}, and was {was}"
            for path, was in types.items()
            if now.get(path) != was and "nothing" not in (now.get(path), was)
        ]
    assert not lost


@pytest.mark.parametrize("name", LATER)
def test_a_file_of_a_later_format_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, command = LATER[name]
    shutil.copytree(FOLDERS[-1], tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    Path(name).write_bytes(Path(name).read_bytes().replace(old, new, 1))
    assert main(command.split()) != 0
    assert re.search("version|format|schedule 1", capsys.readouterr().err.splitlines()[0])
