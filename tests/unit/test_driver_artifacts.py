from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from isamap.driver.artifacts import manifest_text, write_folder
from isamap.driver.compiling import compile_files
from isamap.driver.request import Request, request_key
from isamap.source import Source, UsageProblem

GEMM = Source("gemm.ir", "kernel g(M) { in A: f32[M]; inout C: f32[M]; for m in M { C[m] += A[m]; } }")


def files(text: str) -> dict[str, str]:
    contents = {"a.c": text}
    return contents | {"manifest.json": manifest_text({}, contents)}


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    both = {"a.c": "one", "b.c": "more"}
    write_folder(folder, both | {"manifest.json": manifest_text({}, both)})
    write_folder(folder, files("two"))
    assert sorted(p.name for p in folder.iterdir()) == ["a.c", "manifest.json"]
    assert (folder / "a.c").read_text(encoding="utf-8") == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_folder(tmp_path / "out", files("one"))
    assert (tmp_path / "out" / "a.c").exists()


@pytest.mark.parametrize(
    "manifest", ["", "[]", "{}", '{"isamap": 2, "files": {}}', '{"name": "another tool"}']
)
def test_a_folder_of_someone_else_stays(manifest: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "manifest.json").write_text(manifest, encoding="utf-8")
    with pytest.raises(UsageProblem, match="is not replaced"):
        write_folder(folder, files("one"))
    assert (folder / "manifest.json").read_text(encoding="utf-8") == manifest


def test_a_folder_with_a_file_of_the_user_stays(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_folder(folder, files("one"))
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageProblem, match=r"holds `notes\.txt`"):
        write_folder(folder, files("two"))
    assert (folder / "a.c").read_text(encoding="utf-8") == "one"


def test_a_file_that_was_edited_stays_unless_forced(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_folder(folder, files("one"))
    (folder / "a.c").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageProblem, match=r"`a\.c` was changed since isamap wrote it"):
        write_folder(folder, files("two"))
    assert (folder / "a.c").read_text(encoding="utf-8") == "mine"
    write_folder(folder, files("two"), force=True)
    assert (folder / "a.c").read_text(encoding="utf-8") == "two"


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageProblem) as found:
        write_folder(tmp_path / "file" / "out", files("one"))
    assert found.value.diagnostics[0].code == "output-unwritable"


def test_a_manifest_tells_what_the_result_depends_on() -> None:
    manifest = json.loads(compile_files(Request(GEMM, "generic-c", {"M": 5})).files["manifest.json"])
    assert manifest["sizes"] == {"M": 5}
    assert {"kernel_sha256", "machine_sha256", "options", "ortools"} <= manifest["depends_on"].keys()
    assert set(manifest["files"]) == {
        "g.c", "g.h", "g.schedule", "report.txt", "roofline.svg", "views.json", "views.txt",
    }  # fmt: skip


def test_keys_differ_in_everything_that_matters() -> None:
    base = Request(GEMM, "generic-c", {"M": 5})
    others = [
        base,
        Request(GEMM, "generic-c", {"M": 6}),
        Request(GEMM, "x86-avx2", {"M": 5}),
        Request(Source("gemm.ir", GEMM.text + " "), "generic-c", {"M": 5}),
        Request(GEMM, "generic-c", {"M": 5}, heuristic="greedy"),
        Request(GEMM, "generic-c", {"M": 5}, schedule=Source("s", "")),
        Request(GEMM, "generic-c", {"M": 5}, fixed={"nest0.block.m": 4}),
        Request(GEMM, "generic-c", {"M": 5}, limit_s=1),
        Request(GEMM, "generic-c", {"M": 5}, model=True),
    ]
    assert len({request_key(r) for r in others}) == len(others)
    assert request_key(base) == request_key(Request(GEMM, "generic-c", {"M": 5}))


@pytest.mark.parametrize("machine", ["generic-c", pytest.param("x86-amx", marks=pytest.mark.exhaustive)])
def test_the_same_request_gives_the_same_bytes_under_any_hash_seed(machine: str, tmp_path: Path) -> None:
    results: list[dict[str, bytes]] = []
    for seed in range(3 if machine == "generic-c" else 10):
        out = tmp_path / str(seed)
        words = ["gemm_bf16", "--hw", machine, "-D", "M=35", "N=40", "K=48", "-o", str(out)]
        environment = {"PYTHONHASHSEED": str(seed), "ISAMAP_CACHE_DIR": str(tmp_path / f"cache{seed}")}
        command = [sys.executable, "-m", "isamap", "compile", *words]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        results.append({p.name: p.read_bytes() for p in out.iterdir()})
    assert all(result == results[0] for result in results)
