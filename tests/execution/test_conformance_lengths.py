"""Instructions whose registers are as long as the program says: tried at every length, or said why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.cli import main
from isamap.emit.conformance_source import EncodedForm, why_not
from isamap.emit.timing_source import Timing, timing_source
from isamap.machine import Machine, load_machine, missing_features
from isamap.run.conformance import Check, check_machine

LENGTHS = """\
isamap: 1
name: lengths
summary: instructions that take their length from the program
extends: PARENT
TARGET
sources: {here: "this test"}
language: |
  memory v: registers(count = 32, bytes = 32, named = compiler);
memories:
  v: {c_types: {f32: __m256}, source: here}
instructions:
  - semantics: |
      instruction scale(scalar VL: 0..8) {
        in a: f32[VL] @ v;
        in s: f32 @ reg;
        inout z: f32[VL] @ v;
        for i in VL { z[i] = a[i] * s; }
      }
    emit: semantics
    cost: {unit: scalar, interval_cycles: 1, latency_cycles: 1}
    source: here
  - semantics: |
      instruction twice(scalar VL: 0..8) {
        in a: f32[VL] @ v;
        out z: f32[VL] @ v;
        for i in VL { z[i] = a[i] + a[i]; }
      }
    emit: EMIT
    cost: {unit: scalar, interval_cycles: 1, latency_cycles: 1}
    source: here
"""

UNKNOWN = """\
isamap: 1
name: unknown
summary: instructions for whose operands the code would have to know a number
extends: x86-amx
target: {toolchains: [gcc, clang]}
sources: {here: "this test"}
language: |
  machine Q: 1..4 = 2;
  memory z: registers(count = 32, bytes = 16*Q, named = compiler);
memories:
  z: {c_types: {f32: __m128}, source: here}
instructions:
  - semantics: |
      instruction fill_rows(scalar R: 1..16, imm V: 0..1) {
        out t: i32[R, 16] @ tmm;
        for r in R, c in 16 { t[r, c] = 0; }
      }
    emit: semantics
    cost: {unit: tile, interval_ns: 1, latency_ns: 1}
    source: here
  - semantics: |
      instruction fill_all(scalar R: 1..16) {
        out t: i32[16, 16] @ tmm;
        requires tilecfg.rows[t] == R;
        for r in 16, c in 16 { t[r, c] = 0; }
      }
    emit: semantics
    cost: {unit: tile, interval_ns: 1, latency_ns: 1}
    source: here
  - semantics: |
      instruction copy(scalar L: 0..4294967295) {
        in a: f32[4*Q] @ z;
        out b: f32[4*Q] @ z;
        for i in 4*Q { b[i] = select(i < L, a[i], 0); }
      }
    emit: semantics
    cost: {unit: scalar, interval_ns: 1, latency_ns: 1}
    source: here
"""


def lengths(folder: Path, parent: str, target: str = "", emit: str = "semantics") -> Machine:
    text = LENGTHS.replace("PARENT", parent).replace("TARGET\n", target).replace("EMIT", emit)
    (folder / "lengths.yaml").write_text(text, encoding="utf-8")
    return load_machine(str(folder / "lengths.yaml"))


def tried(machine: Machine, model: bool = False) -> dict[str, Check]:
    own = [n for n, e in machine.instructions.items() if e.source == "here"]
    return {c.instruction: c for c in check_machine(machine, own, model=model)}


def test_models_are_tried_at_every_length(tmp_path: Path) -> None:
    found = tried(lengths(tmp_path, "generic-c", "target: {run: model}\n"))
    assert {n: c.verdict for n, c in found.items()} == {"scale": "ok", "twice": "ok"}
    assert found["scale"].trials == 8 * 2, "two of every length but 0, of which there are no arrays"


def test_the_command_tries_them_beside_all_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lengths(tmp_path, "generic-c", "target: {run: model}\n")
    assert main(["hw", "check", "--run", str(tmp_path / "lengths.yaml")]) == 0
    assert "trials on model" in capsys.readouterr().out


@pytest.mark.hardware
@pytest.mark.parametrize(("operation", "verdict"), [("add", "ok"), ("mul", "wrong")])
def test_the_processor_is_asked_at_every_length(tmp_path: Path, operation: str, verdict: str) -> None:
    call = f"z = _mm256_maskz_{operation}_ps((__mmask8) VL.mask, a, a)"
    machine = lengths(tmp_path, "x86-avx512", emit=call)
    if missing := missing_features(machine):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    found = tried(machine)
    assert {n: c.verdict for n, c in found.items()} == {"scale": "ok", "twice": verdict}
    assert verdict == "ok" or "with VL = 1" in found["twice"].message


def test_timings_take_the_longest(tmp_path: Path) -> None:
    machine = lengths(tmp_path, "x86-avx512")
    timing = Timing(0, EncodedForm(0, machine.instructions["scale"], ()), "chain", 1)
    assert "int64_t VL = numbers[0];" in timing_source(machine, (timing,))


# --- what nothing can be tried of -------------------------------------------------------------------------


@pytest.fixture
def unknown(tmp_path: Path) -> Machine:
    (tmp_path / "unknown.yaml").write_text(UNKNOWN, encoding="utf-8")
    return load_machine(str(tmp_path / "unknown.yaml"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fill_rows", "the shape of `t` in `tmm` depends on R, which only the run knows"),
        ("fill_all", "it requires `tilecfg.rows` to be R, which is not a number before the run"),
    ],
)
def test_what_the_code_would_have_to_know_is_said(unknown: Machine, name: str, said: str) -> None:
    assert why_not(unknown, unknown.instructions[name], model=False) == said


def test_models_of_those_are_tried_with_the_default_of_a_constant(unknown: Machine) -> None:
    assert {n: c.verdict for n, c in tried(unknown, model=True).items()} == {
        "fill_rows": "ok",
        "fill_all": "ok",
        "copy": "ok",
    }
