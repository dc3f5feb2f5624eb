"""`isamap cache`: says what there is, finds what is damaged, and deletes nothing but its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from isamap.cli import main
from isamap.source.cache import Cache, digest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "cache"
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(root))
    Cache.open("schedules").keep(digest("a"), b"first")
    Cache.open("schedules").keep(digest("b"), b"second")
    Cache.open("problems").keep(digest("c"), b"third")
    return root


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main(["cache", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_kinds_are_listed_with_their_entries(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    code, found = said(capsys, "list")
    assert code == 0
    assert found["folder"] == str(cache)
    assert [(k["kind"], k["entries"]) for k in found["kinds"]] == [("problems", 1), ("schedules", 2)]
    assert main(["cache", "list"]) == 0
    assert "3 entries" in capsys.readouterr().out


def test_one_kind_is_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "clear", "schedules")[0] == 0
    assert Cache.open("schedules").find(digest("a")) is None
    assert Cache.open("problems").find(digest("c")) is not None


def test_everything_is_cleared_but_what_is_not_the_caches(
    capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    (cache / "photos" / "keys").mkdir(parents=True)
    (cache / "photos" / "keys" / ("0" * 64)).write_text("mine")
    (cache / "problems" / "objects" / "notes.txt").write_text("mine")
    assert said(capsys, "clear")[0] == 0
    assert [(k["kind"], k["entries"]) for k in said(capsys, "list")[1]["kinds"]] == [
        ("problems", 0),
        ("schedules", 0),
    ]
    assert (cache / "photos" / "keys" / ("0" * 64)).exists()
    assert (cache / "problems" / "objects" / "notes.txt").exists()


def test_damage_is_found_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "verify")[0] == 0
    path = Cache.open("problems").find(digest("c"))
    assert path is not None
    path.write_bytes(b"thirt")
    code, found = said(capsys, "verify")
    assert code == 1
    assert found["damaged"] == [str(path)]
    (finding,) = found["diagnostics"]
    assert finding["code"] == "cache-damaged"
    assert finding["message"] == f"{path} has changed since it was stored"
    assert finding["notes"] == ["its sha256 differs from its name; it is never used"]
    assert finding["help"] == "`isamap cache clear problems` deletes it"
