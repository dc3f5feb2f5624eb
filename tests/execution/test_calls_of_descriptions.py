"""`hw check` has a C compiler read each call of a description, and finds a function that does not exist."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.machine import list_machines, load_machine
from isamap.run import toolchain
from isamap.run.conformance import check_calls
from isamap.source import MissingTool

HAS_ZIG = importlib.util.find_spec("ziglang") is not None
INVENTED = """\
isamap: 1
name: invented
summary: a machine with a function that no header declares
extends: {parent}
sources: {{here: this test}}
instructions:
  - semantics: |
      instruction invented() {{
{operands}
      }}
    emit: {emit}
    cost: {{unit: {unit}, interval_cycles: 1, latency_cycles: 4}}
    source: here
"""
X86 = INVENTED.format(
    parent="x86-avx2",
    operands="        in a: f32[8] @ ymm;\n        in b: f32[8] @ ymm;\n        out z: f32[8] @ ymm;\n"
    "        for i in 8 { z[i] = a[i] + b[i]; }",
    emit="z = _mm256_addition_ps(a, b)",
    unit=next(iter(load_machine("x86-avx2").units)),
)


def write(folder: Path, text: str) -> str:
    path = folder / "invented.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_an_invented_function_of_x86_is_found_without_running_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = write(tmp_path, X86)
    assert main(["hw", "check", name]) == 1
    said = capsys.readouterr().err
    assert "invented.yaml:14:15: error[compiler-refused]" in said
    assert "does not accept the emission of `invented`" in said
    assert "_mm256_addition_ps" in said
    assert main(["hw", "check", name, "--no-calls"]) == 0


def test_each_call_of_a_function_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A function that another instruction calls rightly may get arguments of other types in a second one."""
    integers = X86.replace("f32", "i32").replace("_mm256_addition_ps", "_mm256_add_ps")
    assert main(["hw", "check", write(tmp_path, integers)]) == 1
    said = capsys.readouterr().err
    assert "does not accept the emission of `invented`" in said
    assert "_mm256_add_ps" in said


def test_a_description_from_standard_input_is_read_once_and_checked_alike(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, code in ((["--no-calls"], 0), ([], 1)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(X86.encode())))
        assert main(["hw", "check", "-", *options]) == code
    assert "<stdin>:14:15: error[compiler-refused]" in capsys.readouterr().err


@pytest.mark.skipif(not HAS_ZIG, reason="no compiler for RISC-V is installed")
@pytest.mark.parametrize("function", ["__riscv_vmadot", "__riscv_vfadd_vv_f32m3"])
def test_an_invented_function_of_riscv_is_found(
    function: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[2] / "hw_specs" / "riscv-rvv.yaml").read_text(encoding="utf-8")
    before, found, after = text.partition("__riscv_vfadd")
    assert found, "the description calls it"
    rest = after.split("(", 1)
    path = write(tmp_path, f"{before}{function}({rest[1]}".replace("name: riscv-rvv", "name: invented", 1))
    assert main(["hw", "check", path]) == 1
    said = capsys.readouterr().err
    assert "error[compiler-refused]" in said
    assert function in said


@pytest.mark.parametrize("name", list_machines())
def test_a_compiler_accepts_every_call_of_a_shipped_machine(name: str) -> None:
    if load_machine(name).target.emulator is not None and not HAS_ZIG:
        pytest.skip("no compiler for other processors is installed")
    try:
        assert isinstance(check_calls(name, load_machine(name).digest), str)
    except MissingTool as missing:
        (found,) = missing.diagnostics
        if found.code != "no-compiler":
            raise
        pytest.skip(found.message)


def test_a_note_says_that_no_compiler_has_read_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))

    def locate_none(_: str) -> None:
        return None

    monkeypatch.setattr(toolchain, "_locate", locate_none)
    with pytest.raises(MissingTool):
        check_calls("x86-avx2", "other")
    assert main(["hw", "check", write(tmp_path, X86), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    notes = [d for d in answer["diagnostics"] if d["code"] == "calls-unread"]
    assert [(d["severity"], "pip install isamap[cc]" in d["help"]) for d in notes] == [("note", True)]
    assert answer["calls_read_by"] is None
