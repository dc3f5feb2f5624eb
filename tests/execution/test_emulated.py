"""Programs for another architecture, which need nothing of it but an emulator of its instructions."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isamap import compile as compile_kernel
from isamap import verify
from isamap.machine import load_machine
from isamap.machine.allowed import emulators
from isamap.run.child import Emulator, emulator_for, shared_file
from isamap.run.conformance import check_machine
from isamap.run.emulated import keep_results, request_of
from isamap.source import MissingTool, UsageProblem

ARM = """isamap: 1
name: small-arm
summary: a few instructions of another architecture
extends: generic-c
target:
  toolchains: [zig]
  headers: [arm_neon.h]
  run: emulator
  emulator: qemu-aarch64
  cpu: max
sources: {guess: for tests}
language: |
  memory q: registers(count = 32, bytes = 16, named = compiler);
memories:
  q: {c_types: {f32: float32x4_t, i32: int32x4_t, i8: int8x16_t}, source: guess}
links:
  - {from: l1, to: q, bandwidth_bytes_per_ns: 100, shared: false, source: guess}
units:
  vec: {count: 2, source: guess}
instructions:
  - semantics: |
      instruction load_q() { in a: f32[4] @ mem; out z: f32[4] @ q; for i in 4 { z[i] = a[i]; } }
    emit: z = vld1q_f32(a.addr)
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
  - semantics: |
      instruction dup_q() { in a: f32[1] @ mem; out z: f32[4] @ q; for i in 4 { z[i] = a[0]; } }
    emit: z = vld1q_dup_f32(a.addr)
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
  - semantics: |
      instruction store_q() { in a: f32[4] @ q; out z: f32[4] @ mem; for i in 4 { z[i] = a[i]; } }
    emit: vst1q_f32(z.addr, a)
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
  - semantics: |
      instruction fma_q() {
        inout c: f32[4] @ q; in a: f32[4] @ q; in b: f32[4] @ q;
        numerics unrounded;
        for i in 4 { c[i] += a[i] * b[i]; }
      }
    emit: c = vfmaq_f32(c, a, b)
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
  - semantics: |
      instruction wrong_q() { in a: f32[4] @ q; out z: f32[4] @ q; for i in 4 { z[i] = a[i]; } }
    emit: z = vnegq_f32(a)
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
"""
needs_qemu = pytest.mark.skipif(
    shutil.which("qemu-aarch64") is None, reason="needs qemu-aarch64 (Debian's qemu-user)"
)
# The first of them builds a C library, half a minute.
long = pytest.mark.exhaustive


@pytest.fixture
def arm(tmp_path: Path) -> str:
    """Return the path of the description."""
    path = tmp_path / "small-arm.yaml"
    path.write_text(ARM, encoding="utf-8")
    return str(path)


@needs_qemu
@long
def test_instructions_of_another_architecture_are_tried(arm: str) -> None:
    machine = load_machine(arm)
    names = ["load_q", "store_q", "fma_q", "wrong_q", "exp_f64"]
    checks = check_machine(machine, names, emulator=emulator_for(machine))
    assert {c.instruction: c.verdict for c in checks} == {
        "load_q": "ok", "store_q": "ok", "fma_q": "ok", "wrong_q": "wrong", "exp_f64": "ok",
    }  # fmt: skip


@needs_qemu
@long
def test_programs_for_another_architecture_are_verified_beside_guard_pages(arm: str) -> None:
    cases = verify("gemm_f32", arm, {"M": 13, "N": 19, "K": 11})
    assert [(case.ok, case.ran_on, case.guarded) for case in cases] == [(True, "emulator", True)] * 3


@needs_qemu
@long
def test_kernels_for_another_architecture_are_called(arm: str) -> None:
    a, b = np.full((8, 8), 2, np.float32), np.full((8, 8), 3, np.float32)
    kernel = compile_kernel("gemm_f32", arm, {"M": 8, "N": 8, "K": 8})
    found = kernel(A=a, B=b, C=np.zeros((8, 8), np.float32))
    assert (found["C"] == 48).all()


@needs_qemu
@long
def test_what_the_emulated_processor_lacks_is_told(arm: str) -> None:
    """A model that does not exist ends the emulator, which is told with its own words."""
    path = Path(arm)
    path.write_text(ARM.replace("cpu: max", "cpu: no-such-model"), encoding="utf-8")
    (problem, *_) = verify("gemm_f32", str(path), {"M": 4, "N": 4, "K": 4})[0].problems
    assert (problem.code, "no-such-model" in problem.message) == ("program-failed", True)


def test_an_emulator_that_is_not_installed_is_told(arm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingTool) as found:
        emulator_for(load_machine(arm))
    assert "`small-arm` runs under `qemu-aarch64`, which is not here" in found.value.render()
    assert "apt install qemu-user" in found.value.render()


def test_another_emulator_of_the_architecture_may_be_named(arm: str) -> None:
    target = emulators()["qemu-aarch64"].target
    assert emulator_for(load_machine(arm), Emulator(("env",))) == Emulator(("env",), target)


def test_results_that_arrived_before_a_crash_are_kept() -> None:
    with shared_file(8 + 6) as file:
        job: dict[str, Any] = {
            "file": file.fileno(),
            "size": 14,
            "calls": [("f", [(8, 4, 0, 1)], [7]), ("f", [(12, 2, 0, 1)], [])],
        }
        assert request_of(job).count(b"f") == 2
        assert keep_results(job, bytes(16) + b"abcd" + bytes(16) + b"e") == {"done": 1}
        file.seek(0)
        assert file.read() == (1).to_bytes(8, "little") + b"abcd" + bytes(2)


def test_runs_that_differ_are_told() -> None:
    with shared_file(4) as file:
        job: dict[str, Any] = {
            "file": file.fileno(),
            "size": 4,
            "guard": True,
            "regions": [(0, 4, 4)],
            "fields": [("pointer", "", 0)],
        }
        one, other = (bytes(16) + data for data in (b"abcd", b"abce"))
        assert keep_results(job, one + other) == {"error": "unstable"}
        assert keep_results(job, one) == {}
        assert keep_results(job, one + one) == {"status": 0, "times": [], "workspace_bytes": 0}


def test_nothing_is_timed_under_an_emulator(arm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from isamap.driver.verifying import time_program

    class Prepared:
        machine, emulator = load_machine(arm), Emulator(("qemu-aarch64",), emulators()["qemu-aarch64"].target)

    with pytest.raises(UsageProblem, match="times nothing"):
        time_program(Prepared(), {})  # pyright: ignore[reportArgumentType] - what it reads of one
