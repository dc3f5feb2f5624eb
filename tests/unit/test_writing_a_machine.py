"""The guide to writing a machine shows what checking prints, and what its examples do."""

from __future__ import annotations

import re
import shutil
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.machine import load_machine, missing_features
from isamap.machine.timings import LoopTimes, ModelFigures, RowTimes, StreamTimes, Tlb
from isamap.run.conformance import check_machine
from isamap.run.toolchain import CompilerRefused

# Keys of `rows` and of `streams`: the guide has a row for each.
SHARED = {"traffic_factor", "computing_factor"}
GUIDE = (Path(__file__).parents[2] / "docs" / "writing-a-machine.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(?:yaml)?\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
WHOLE = BLOCKS[0]

PAIRS = """\
isamap: 1
name: pairs
summary: an instruction that takes its registers for rows of a matrix
extends: generic-c
sources: {here: "this test"}
target: {run: model}
clock_ghz: 1
language: |
  memory q: registers(count = 32, bytes = 16, named = compiler);
instructions:
  - semantics: |
      instruction load_q() {
        in a: i8[16] @ mem;
        out z: i8[16] @ q;
        for i in 16 { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: load_port, interval_cycles: 1, latency_cycles: 1}
    source: here
  - semantics: |
      instruction store_q() {
        in a: i32[2, 2] @ q;
        out z: i32[2, 2] @ mem;
        for i in 2, k in 2 { z[i, k] = a[i, k]; }
      }
    emit: semantics
    cost: {unit: store_port, interval_cycles: 1, latency_cycles: 1}
    source: here
  - semantics: |
      instruction smmla() {
        inout c: i32[2, 2] @ q;
        in a: i8[2, 8] @ q;
        in b: i8[2, 8] @ q;
        for i in 2, j in 2, k in 8 { c[i, j] += i32(a[i, k]) * i32(b[j, k]); }
      }
    emit: semantics
    cost: {unit: scalar, interval_cycles: 1, latency_cycles: 1}
    source: here
"""


def block(start: str) -> str:
    """Return the text of the block of the guide that begins so."""
    return next(b for b in BLOCKS if b.startswith(start))


def described(folder: Path, old: str, new: str) -> Path:
    """Return the guide's machine with another text in one place."""
    assert WHOLE.count(old) == 1
    path = folder / "my-cpu.yaml"
    path.write_text(WHOLE.replace(old, new), encoding="utf-8")
    if missing := missing_features(load_machine(str(path))):
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    return path


@pytest.mark.hardware
def test_the_guide_shows_what_trying_instructions_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    described(tmp_path, "z[i] = a[i];", "z[i] = a[i] + a[i];")
    monkeypatch.chdir(tmp_path)
    command, *shown = block("$ isamap hw check my-cpu.yaml --run").splitlines()
    assert main(command.split()[2:]) == 1
    out, err = capsys.readouterr()
    for printed, line in zip((out + err).splitlines(), shown, strict=True):
        cut = printed[: len(line) - 1] + "…" if line.endswith("…") else printed
        assert without_counts(cut) == without_counts(line)


def without_counts(line: str) -> str:
    """Return a line without numbers that follow from how many instructions are inherited."""
    return re.sub(r"\d+ (trials|instructions|ok)", r"# \1", line)


@pytest.mark.hardware
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the guide shows gcc's words")
def test_the_guide_shows_what_a_misspelt_function_gives(tmp_path: Path) -> None:
    path = described(tmp_path, "_mm256_loadu_ps", "_mm256_lod_ps")
    with pytest.raises(CompilerRefused) as found:
        check_machine(load_machine(str(path)), ["load_ymm_f32"], compiler="gcc")
    shown = block("my-cpu.yaml:38:15: error[compiler-refused]")
    assert shown in found.value.render().replace(str(path), path.name)


@pytest.mark.hardware
def test_a_load_that_widens_is_one_instruction_of_two_calls(tmp_path: Path) -> None:
    whole = WHOLE + block("  - semantics: |\n      instruction load_widened()")
    path = tmp_path / "my-cpu.yaml"
    path.write_text(whole, encoding="utf-8")
    machine = load_machine(str(path))
    if missing := missing_features(machine):
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    (found,) = check_machine(machine, ["load_widened"])
    assert (found.verdict, found.message) == ("ok", "")


@pytest.mark.parametrize("is_added", [False, True])
def test_loads_of_the_shape_that_is_computed_with_serve(
    is_added: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loads = block("  - for: [{T: i8, M: 8}") if is_added else ""
    (tmp_path / "pairs.yaml").write_text(PAIRS + loads, encoding="utf-8")
    sizes = ("-D", "M=64", "N=64", "K=64")
    assert main(["schedule", "gemm_nt_s8s8", "--hw", str(tmp_path / "pairs.yaml"), *sizes]) == 0
    assert ("map smmla" in capsys.readouterr().out) == is_added


@pytest.mark.parametrize("parameters", [RowTimes, StreamTimes, Tlb, LoopTimes, ModelFigures])
def test_the_guide_has_every_parameter_with_its_default(parameters: type) -> None:
    """A row names the key, and a default that is a number. Without a number: required, or as another key."""
    rows = [line.split("|") for line in GUIDE.splitlines() if line.startswith("| `")]
    defaults = {
        key: row[2].strip() for row in rows if len(row) == 5 for key in re.findall(r"`(\w+)`", row[1])
    }
    known = {f.name: f.default for f in fields(parameters) if f.name != "source"}
    assert [name for name in known if name not in defaults] == []
    if parameters is StreamTimes:
        assert {name for name in known if defaults[name] == "–"} - {"traffic_factor", "computing_factor"} <= {
            name for name, default in known.items() if default is MISSING
        }
        return
    assert {n: defaults[n] for n, d in known.items() if isinstance(d, int | float) and n not in SHARED} == {
        n: f"{d:g}" for n, d in known.items() if isinstance(d, int | float) and n not in SHARED
    }
