"""Emitted code under an emulator: one of a real processor, and scripts that do what emulators do."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from isamap import verify
from isamap.driver.inputs import read_kernel
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.machine import load_machine
from isamap.run.child import SLOWER, Emulator, RunProblem, ended_by
from isamap.run.conformance import check_machine
from isamap.source import UsageProblem

SIZES = {"M": 13, "N": 19, "K": 11}
needs_qemu = pytest.mark.skipif(
    shutil.which("qemu-x86_64") is None or platform.machine() != "x86_64",
    reason="needs qemu-x86_64 (Debian's qemu-user) on x86-64",
)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return a path for an emulator, which the test writes."""
    return tmp_path / "emulator"


def write(script: Path, text: str) -> str:
    script.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    script.chmod(0o755)
    return str(script)


@needs_qemu
def test_what_the_emulated_processor_has_runs() -> None:
    cases = verify("gemm_f32", "x86-avx2", SIZES, emulator="qemu-x86_64 -cpu max")
    assert [(case.ok, case.ran_on, case.guarded) for case in cases] == [(True, "emulator", True)] * 3


@needs_qemu
def test_what_the_emulated_processor_lacks_is_told() -> None:
    (problem, *_) = verify("gemm_f32", "x86-avx2", SIZES, emulator="qemu-x86_64 -cpu Nehalem")[0].problems
    assert problem.code == "program-crashed"
    assert "has an instruction that the emulated processor lacks (SIGILL)" in problem.message


@needs_qemu
@pytest.mark.parametrize(("processor", "verdict"), [("max", "ok"), ("Nehalem", "crashed")])
def test_instructions_are_tried_on_the_emulated_processor(processor: str, verdict: str) -> None:
    emulator = Emulator(("qemu-x86_64", "-cpu", processor))
    names = ["load_ymm_f32", "fma_ymm_f32"]
    checks = check_machine(load_machine("x86-avx2"), names, emulator=emulator)
    assert [(check.instruction, check.verdict) for check in checks] == [(name, verdict) for name in names]


def test_everything_that_is_emitted_runs_there(script: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    emulator = write(script, f'echo "$@" >> {log}; exec "$@"')
    cases = verify("gemm_f32", "generic-c", SIZES, packed=("B",), emulator=emulator)
    assert all(case.ok for case in cases)
    # What packs B and the kernel itself, for each of the three fills.
    assert [line.rpartition("/")[2] for line in log.read_text().splitlines()] == ["worker.py"] * 6


def test_it_is_trusted_to_have_what_this_processor_lacks() -> None:
    request = Request(read_kernel("gemm_bf16"), "x86-amx", {"M": 16, "N": 16, "K": 32})
    prepared = prepare(request, emulator=Emulator(("env",)))
    assert (prepared.ran_on, prepared.missing, prepared.compiled.model) == ("emulator", (), False)


@pytest.mark.parametrize(
    ("last", "code", "said"),
    [
        ("exit 139", "program-crashed", "accessed memory directly next to its tensors (SIGSEGV)"),
        ("kill -s SEGV $$", "program-crashed", "accessed memory directly next to its tensors (SIGSEGV)"),
        ("echo no licence >&2; exit 3", "program-failed", "could not be run: no licence"),
    ],
)
def test_how_it_ends_is_how_the_program_ended(script: Path, last: str, code: str, said: str) -> None:
    (problem, *_) = verify("gemm_f32", "generic-c", SIZES, emulator=write(script, last))[0].problems
    assert (problem.code, said in problem.message) == (code, True)


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("echo no licence >&2; exit 3", "could not be run: no licence"),
        (
            """sed 's/"library": "[^"]*"/"library": "gone.so"/' | "$@" """,
            "gone.so: cannot open shared object file",
        ),
    ],
)
def test_what_cannot_be_started_is_no_fault_of_an_instruction(script: Path, last: str, said: str) -> None:
    counted = script.with_name("starts")
    emulator = Emulator((write(script, f"echo >> {counted}; {last}"),))
    with pytest.raises(RunProblem) as found:
        check_machine(load_machine("generic-c"), ["load_f32", "mac_f32"], emulator=emulator)
    assert said in found.value.render()
    assert counted.read_text() == "\n"


def test_memory_is_not_limited_there_and_time_is_more(script: Path, tmp_path: Path) -> None:
    """An emulator has memory of its own, and takes longer."""
    job = tmp_path / "job"
    emulator = write(script, f'tee {job} | "$@"')
    assert all(case.ok for case in verify("gemm_f32", "generic-c", SIZES, emulator=emulator))
    kept = job.read_text()
    assert '"memory_bytes": null' in kept
    assert f'"cpu_seconds": {121 * SLOWER}' in kept


def test_words_are_split_as_a_shell_would() -> None:
    emulator = Emulator.read("env 'A=b c' -u D")
    assert emulator.words == ("env", "A=b c", "-u", "D")
    assert Emulator.read(str(emulator)) == emulator


def test_an_emulator_is_a_text() -> None:
    with pytest.raises(UsageProblem, match="emulator"):
        verify("gemm_f32", "generic-c", SIZES, emulator=3)  # pyright: ignore[reportArgumentType] - a number


@pytest.mark.parametrize(("code", "ended"), [(0, 0), (1, 1), (128, 128), (132, -4), (139, -11), (193, 193)])
def test_shells_report_signals_above_128(code: int, ended: int) -> None:
    assert ended_by(code) == ended
