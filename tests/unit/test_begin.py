"""`isamap new` writes what works at once, and `isamap` alone says what to do next."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from isamap.cli import main


def test_a_new_kernel_passes_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "kernel", "scale"]) == 0
    step = capsys.readouterr().out.splitlines()[3].split()
    assert step[:2] == ["isamap", "verify"]
    assert main([*step[1:]]) == 0
    assert main(["new", "kernel", "scale"]) == 2
    assert "scale.ir exists already" in capsys.readouterr().err


@pytest.mark.skipif(
    None in (shutil.which("make"), shutil.which("gcc")), reason="this computer lacks make or gcc"
)
def test_a_new_project_is_built_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "project", "demo"]) == 0
    (tmp_path / "isamap").write_text(f'#!/bin/sh\nexec {sys.executable} -m isamap "$@"\n')
    (tmp_path / "isamap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = subprocess.run(
        ["make", "-C", "demo", "HW=generic-c"], capture_output=True, text=True, check=False, timeout=300
    )
    assert "status 0, 0 of 256 results differ" in done.stdout, done


@pytest.mark.parametrize(
    ("name", "said"),
    [("9x", "not a name for a kernel"), ("Demo", "not a name for a kernel"), ("kernel", "reserved")],
)
def test_what_cannot_be_a_name_is_refused(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "project", name]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_isamap_alone_suggests_what_the_folder_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0
    assert "isamap new project demo" in capsys.readouterr().out
    (tmp_path / "other.yaml").write_text("name: no machine\n")
    assert main(["new", "machine", "edge", "--kind", "matrix"]) == 0
    assert main(["new", "kernel", "my_kernel"]) == 0
    (tmp_path / "a folder.onnx").mkdir()
    capsys.readouterr()
    assert main([]) == 0
    said = capsys.readouterr().out
    assert "isamap match my_kernel.ir --hw host" in said
    assert "isamap hw check edge.yaml" in said
    assert "onnx" not in said
