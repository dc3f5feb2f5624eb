"""`compile --report` and `--trace` write what was asked for, and nothing over what is not theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.driver.artifacts import MANIFEST

WORDS = "compile gemm_s8s8 --hw edge-npu -D M=32 N=32 K=32 --heuristic greedy -o out"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main([*WORDS.split(), *words])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_each_ending_has_its_form(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.html", "a.txt", "a.json"):
        code, said = run(capsys, "--report", name)
        assert code == 0
        assert f"wrote {name}" in said
    assert Path("a.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert Path("a.txt").read_text(encoding="utf-8").startswith("gemm_s8s8 takes ")
    assert json.loads(Path("a.json").read_text(encoding="utf-8"))["schema"] == "isamap.report/1"
    assert {p.name for p in Path("out").iterdir()} >= {"gemm_s8s8.c", MANIFEST}


def test_a_dash_prints_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(capsys, "--report", "-")
    assert code == 0
    assert said.startswith("gemm_s8s8 takes ")
    assert "busy times" in said


def test_a_folder_has_each_picture_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--report", "all", "--trace", "trace.json")[0] == 0
    names = {path.name for path in Path("all").iterdir()}
    drawn = {name.removesuffix(".svg") for name in names if name.endswith(".svg")}
    assert {"timeline", "memory-spad", "memory-acc", "traffic", "roofline-0", "time-0"} <= drawn
    assert {f"{name}.txt" for name in drawn} | {"index.html", "report.txt", "report.json", MANIFEST} <= names
    assert json.loads(Path("trace.json").read_text(encoding="utf-8"))["traceEvents"]


def test_json_names_all_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--report", "r.html", "--trace", "t.json", "--json")[0] == 0
    main([*WORDS.split(), "--report", "r.html", "--trace", "t.json", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["files"][-2:] == ["r.html", "t.json"]
    assert found["kernel"] == "gemm_s8s8"


@pytest.mark.parametrize(
    ("option", "name"), [("--report", "r.html"), ("--report", "r.txt"), ("--trace", "t.json")]
)
def test_a_file_that_was_changed_is_kept(option: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, option, name)[0] == 0
    before = Path(name).read_text(encoding="utf-8")
    assert run(capsys, option, name)[0] == 0
    assert Path(name).read_text(encoding="utf-8") == before
    Path(name).write_text(f"{before}mine\n", encoding="utf-8")
    code, said = run(capsys, option, name)
    assert code == 2
    assert f"error[output-edited]: {name} is not replaced: it was changed since isamap wrote it" in said
    assert "`--force` replaces it" in said
    assert Path(name).read_text(encoding="utf-8").endswith("mine\n")
    assert run(capsys, option, name, "--force")[0] == 0
    assert Path(name).read_text(encoding="utf-8") == before


def test_a_folder_with_an_edited_file_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--report", "all")[0] == 0
    Path("all/traffic.svg").write_text("mine", encoding="utf-8")
    code, said = run(capsys, "--report", "all")
    assert code == 2
    assert "error[output-edited]: all is not replaced: `traffic.svg` was changed" in said
    assert run(capsys, "--report", "all", "--force")[0] == 0


def test_nothing_is_compiled_for_a_place_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("is-a-folder.html").mkdir()
    for option, place, why in (
        ("--report", "nowhere/r.html", "there is no such folder"),
        ("--trace", "nowhere/t.json", "there is no such folder"),
        ("--report", "is-a-folder.html", "it is a folder"),
    ):
        code, said = run(capsys, option, place)
        assert code == 2
        assert f"error[output-unwritable]: {place} cannot be written: {why}" in said
    assert not Path("out").exists()
