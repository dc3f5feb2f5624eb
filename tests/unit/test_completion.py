"""Completion in shells: which words may follow, and that bash, zsh and fish ask for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.cli.completion import SCRIPTS, complete
from isamap.machine import list_machines


@pytest.mark.parametrize(
    ("line", "some", "other"),
    [
        ("", ["compile", "hw", "--version"], "check"),
        ("hw ", ["check", "list"], "compile"),
        ("hw ch", ["check"], "list"),
        ("schedule d", ["diff"], "doctor"),
        ("run gemm_f3", ["gemm_f32"], "gemm_f64"),
        ("run gemm_f32 --hw ", ["generic-c", "host"], "gemm_f32"),
        ("run gemm_f32 --h", ["--heuristic", "--help", "--hw"], "--json"),
        ("schedule gemm_f32 --require ", ["proven"], "host"),
        ("bench deepbench ", ["gemm", "gru"], "deepbench"),
        ("hw check my.yaml --ru", ["--run"], "--hw"),
    ],
)
def test_words_that_may_follow_are_offered(line: str, some: list[str], other: str) -> None:
    found = complete(line.split(" "))
    assert set(some) <= set(found)
    assert other not in found


@pytest.mark.parametrize("line", ["nonsense ", "compile gemm_f32 -o ", "hw nonsense x", "run gemm_f32 -D M"])
def test_where_nothing_is_known_names_of_files_are_left_to_the_shell(line: str) -> None:
    assert [word for word in complete(line.split(" ")) if not word.startswith("gemm")] == []


@pytest.mark.parametrize("shell", SCRIPTS)
def test_an_installed_script_completes_in_its_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "isamap").write_text(f'#!/bin/sh\nexec {sys.executable} -m isamap "$@"\n')
    (bin_ / "isamap").chmod(0o755)
    home = {"HOME": str(tmp_path), "PATH": f"{bin_}:{os.environ['PATH']}", "XDG_CONFIG_HOME": ""}
    environment = {**os.environ, **home, "XDG_DATA_HOME": "", "ZDOTDIR": ""}
    (tmp_path / f".{shell}rc").write_text("# mine")
    for _ in range(2):  # the second time changes nothing
        subprocess.run(["isamap", "--install-completion", shell], env=environment, check=True)
    asked = {
        "bash": f". {tmp_path}/.bashrc; COMP_WORDS=(isamap run gemm_f32 --hw generi) COMP_CWORD=4; "
        'COMP_LINE="isamap run gemm_f32 --hw generi"; _isamap; echo "${COMPREPLY[@]}"',
        "zsh": f". {tmp_path}/.zshrc; compadd() {{ echo $found }}; "
        "words=(isamap run gemm_f32 --hw generi); CURRENT=5; _isamap",
        "fish": "complete -C 'isamap run gemm_f32 --hw generi'",
    }[shell]
    done = subprocess.run(
        [shell, "-c", asked],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout.split()[:1] == ["generic-c"], done
    if shell != "fish":
        startup = (tmp_path / f".{shell}rc").read_text().splitlines()
        assert (startup[0], len(startup)) == ("# mine", 2)


def test_a_shell_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--install-completion", "bahs"]) == 2
    said = capsys.readouterr().err
    assert "takes one of bash, zsh, fish, not `bahs`" in said
    assert "did you mean `bash`" in said


def test_every_machine_is_offered() -> None:
    assert set(complete(["match", "gemm_f32", "--hw", ""])) == {*list_machines(), "host"}
