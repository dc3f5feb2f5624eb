"""Detection: what this computer has, which machine fits it, and that checking again is quick and honest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isamap.hw_specs import machine_path
from isamap.machine import check_machine, checks, list_machines, load_machine, processor
from isamap.machine.tree import read_entries, read_tree
from isamap.source import MissingTool, Source, SpecProblem
from isamap.source.cache import Cache

AVX2 = frozenset(("avx2", "fma", "f16c", "avx", "sse4_2"))


@pytest.fixture(autouse=True)
def fresh() -> None:
    processor.detect_machine.cache_clear()
    processor.detect_features.cache_clear()


def fits(monkeypatch: pytest.MonkeyPatch, features: frozenset[str]) -> str:
    monkeypatch.setattr(processor, "detect_features", lambda: features)
    return processor.detect_machine()


def test_the_detected_machine_misses_nothing() -> None:
    assert processor.missing_features(load_machine(processor.detect_machine())) == ()


def test_any_processor_has_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fits(monkeypatch, frozenset()) == "generic-c"


def test_the_most_special_machine_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("x86-amx")
    needed = frozenset((*machine.target.features, *machine.target.permissions))
    assert fits(monkeypatch, needed) == "x86-amx"
    processor.detect_machine.cache_clear()
    assert fits(monkeypatch, needed - {"amx_tile_data"}) == "x86-avx512-bf16"
    processor.detect_machine.cache_clear()
    assert fits(monkeypatch, frozenset(load_machine("x86-avx2").target.features)) == "x86-avx2"
    missing = processor.missing_features(machine)
    assert missing[-1] == "amx_tile_data"
    assert "avx2" not in missing


def test_nothing_fits_when_nothing_is_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "shipped_headers", dict)
    with pytest.raises(MissingTool) as found:
        processor.detect_machine()
    assert found.value.exit_code == 5


@pytest.mark.parametrize("key", ["flags\t\t", "Features\t"])
def test_flags_are_read_from_the_first_processor(
    key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = f"processor : 0\n{key}: avx2 fma something_new amx_tile\n\nprocessor : 1\n{key}: sve\n"
    info = tmp_path / "cpuinfo"
    info.write_text(text, encoding="utf-8")
    monkeypatch.setattr(processor, "CPUINFO", info)

    def is_granted(name: str) -> bool:
        return name == "amx_tile_data"

    monkeypatch.setattr(processor, "is_granted", is_granted)
    assert processor.detect_features() == {"avx2", "fma", "amx_tile", "amx_tile_data"}
    processor.detect_features.cache_clear()
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "missing")
    assert processor.detect_features() == frozenset()


def test_a_check_is_remembered_until_a_text_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "mine.yaml"
    text = "isamap: 1\nname: mine\nsummary: mine\nextends: generic-c\n"
    path.write_text(text, encoding="utf-8")
    first = check_machine(str(path))
    assert first.chain == ("mine", "generic-c")

    def refuse(name: str) -> None:
        pytest.fail(f"{name} is checked again")

    with monkeypatch.context() as patch:
        patch.setattr(checks, "load_summary", refuse)
        assert check_machine(str(path)) == first
    path.write_text(text + "colour: red\n", encoding="utf-8")
    with pytest.raises(SpecProblem):
        check_machine(str(path))
    assert len(list((tmp_path / "cache" / checks.SUMMARIES / "keys").iterdir())) == 1


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"name": "x", "warnings": []}', "\0"])
def test_a_damaged_summary_is_not_believed(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path))
    first = check_machine("generic-c")
    kept = Cache.open(checks.SUMMARIES)
    (key,) = (kept.folder / "keys").iterdir()
    kept.keep(key.name, damage.encode())
    assert check_machine("generic-c") == first


def test_a_folder_that_cannot_be_written_costs_only_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert check_machine("generic-c").name == "generic-c"


def test_checking_again_and_detecting_load_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys; from isamap.machine import check_machine, detect_machine\n"
        "for name in sys.argv[1:]: check_machine(name)\n"
        "detect_machine()\n"
        "print([m for m in ('numpy', 'lark', 'ortools') if m in sys.modules])"
    )
    command = [sys.executable, "-c", program, *list_machines()]
    here = {**os.environ, "ISAMAP_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True, env=here).stdout for _ in range(2)
    ]
    assert "numpy" in runs[0]
    assert runs[1] == "[]\n"


def test_the_entries_of_a_header_are_those_of_the_whole_text() -> None:
    keys = ("summary", "extends", "target")
    for name in list_machines():
        source = Source(name, machine_path(name).read_text(encoding="utf-8"))
        whole, part = read_tree(source, "language"), read_entries(source, tuple(f"{key}:" for key in keys))
        found = [
            [(node := tree.get(key)) and node.span.text.rstrip() for key in keys] for tree in (whole, part)
        ]
        assert found[0] == found[1], name
        assert any(found[1]), name
