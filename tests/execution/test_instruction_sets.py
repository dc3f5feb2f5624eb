"""Instruction sets of several makers, each tried where it can be, counted, and held to a number.

What stands in a description is tried by itself: this computer's processor performs it, or QEMU does. Each
program of an architecture needs a C library, half a minute to build once: one architecture is tried always.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from isamap import verify
from isamap.codegen.child import Emulator, RunProblem, emulator_for
from isamap.codegen.silicon import check_machine
from isamap.machine import load_machine, missing_features

ON_SILICON = ("generic-c", "x86-avx2", "x86-avx-vnni", "x86-avx512", "x86-avx512-vnni", "x86-avx512-bf16")
OF_ONE_EMULATOR = ("aarch64-neon", "aarch64-dotprod", "aarch64-bf16", "aarch64-sve2")
OF_OTHERS = ("riscv-rvv", "power10-mma", "wasm-simd128")
FOR_ALL = ("qemu-aarch64", "qemu-riscv64", "qemu-ppc64le", "qemu-loongarch64", "node")
OF_NEWER_EMULATORS = ("loongarch-lasx",)
EVERY_NTH = 12  # of the instructions, where others try all: `generic-c` is asked for of each architecture

needs_qemu = pytest.mark.skipif(
    shutil.which("qemu-aarch64") is None, reason="needs qemu-aarch64 (Debian's qemu-user)"
)

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node (Debian's nodejs)")


def has_model(emulator: str, model: str) -> bool:
    """Whether an emulator is here and knows a model of a processor: older ones lack whole vector units."""
    if shutil.which(emulator) is None:
        return False
    listed = subprocess.run([emulator, "-cpu", "help"], capture_output=True, text=True, check=False)
    return model in listed.stdout.split()


def own(name: str, every: int) -> list[str]:
    """The instructions that a description adds, or one of so many."""
    machine = load_machine(name)
    inherited = set[str]() if len(machine.chain) == 1 else set(load_machine(machine.chain[1]).instructions)
    return [n for n in machine.instructions if n not in inherited][::every]


def tried(names: Sequence[str], emulator: str | None = None, every: int = 1) -> Counter[str]:
    """How many of the instructions of each of these machines were right; fails where one was not."""
    right: Counter[str] = Counter()
    for name in names:
        machine = load_machine(name)
        named = Emulator((emulator,)) if emulator is not None else None
        checks = check_machine(machine, own(name, every), emulator=emulator_for(machine, named))
        assert [c for c in checks if c.verdict in ("wrong", "crashed")] == []
        right[f"{name} under {emulator}" if emulator else name] += sum(c.verdict == "ok" for c in checks)
    return right


def say(capsys: pytest.CaptureFixture[str], right: Counter[str]) -> int:
    """Prints and returns the count of instruction sets of which something was tried."""
    sets = [name for name, count in right.items() if count]
    with capsys.disabled():
        print(f"\n{len(sets)} instruction sets: " + ", ".join(f"{n} {right[n]}" for n in sets))
    return len(sets)


@needs_qemu
def test_instruction_sets_run_here(capsys: pytest.CaptureFixture[str]) -> None:
    here = [name for name in ON_SILICON if not missing_features(load_machine(name))]
    found = tried(here, every=EVERY_NTH) + tried(OF_ONE_EMULATOR, every=EVERY_NTH)
    assert say(capsys, found) == len(here) + len(OF_ONE_EMULATOR)


@needs_qemu
@needs_node
@pytest.mark.exhaustive
def test_other_instruction_sets_run(capsys: pytest.CaptureFixture[str]) -> None:
    everywhere: Counter[str] = Counter()
    for emulator in FOR_ALL:
        everywhere += tried(["generic-c"], emulator, EVERY_NTH)
    found = tried((*OF_ONE_EMULATOR, *OF_OTHERS)) + everywhere
    assert say(capsys, found) == len(OF_ONE_EMULATOR) + len(OF_OTHERS) + len(FOR_ALL)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", OF_NEWER_EMULATORS)
def test_instruction_sets_of_newer_emulators_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = load_machine(name).target
    if not has_model(target.emulator or "", target.cpu or ""):
        pytest.skip(f"needs a {target.emulator} that knows {target.cpu}: QEMU 8.2 or newer")
    assert say(capsys, tried([name])) == 1


SIZES = {"M": 5, "N": 6, "K": 7}


@needs_qemu
@pytest.mark.parametrize(
    ("machine", "cpu", "lacks"),
    [
        ("aarch64-dotprod", "cortex-a53", "asimddp"),
        ("aarch64-bf16", "cortex-a76", "i8mm"),
        pytest.param("riscv-rvv", "rv64", "v", marks=pytest.mark.exhaustive),
        pytest.param("power10-mma", "power9", "mma", marks=pytest.mark.exhaustive),
    ],
)
def test_a_processor_that_lacks_a_feature_is_refused(machine: str, cpu: str, lacks: str) -> None:
    """Before its first instruction, which might do something else there than end the program."""
    emulator = f"{load_machine(machine).target.emulator} -cpu {cpu}"
    cases = verify("gemm_s8s8", machine, SIZES, heuristic="greedy", emulator=emulator)
    assert {(p.code, p.message) for case in cases for p in case.problems} == {
        ("program-failed", f"the emitted `gemm_s8s8` could not be run: the processor lacks {lacks}")
    }
    described = load_machine(machine)
    named = emulator_for(described, Emulator.read(emulator))
    with pytest.raises(RunProblem, match=f"the processor lacks {lacks}"):
        check_machine(described, ["load_f32"], emulator=named)


@needs_node
@pytest.mark.exhaustive
def test_a_program_with_vectors_is_refused_where_webassembly_has_none() -> None:
    emulator = "node --no-enable-sse4-1"  # with which V8 knows no vectors
    cases = verify("gemm_f32", "wasm-simd128", SIZES, heuristic="greedy", emulator=emulator)
    assert {(p.code, p.message) for case in cases for p in case.problems} == {
        (
            "program-crashed",
            "the emitted `gemm_f32` has an instruction that the emulated processor lacks (SIGILL)",
        )
    }


@needs_node
@pytest.mark.exhaustive
def test_writes_beside_operands_are_found_where_no_page_is_protected(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "hw_specs" / "wasm-simd128.yaml").read_text(encoding="utf-8")
    emit = "wasm_v128_store$B_lane(z.addr, a, 0)"
    assert emit in text
    path = tmp_path / "wide.yaml"
    path.write_text(
        text.replace("name: wasm-simd128", "name: wide").replace(emit, "wasm_v128_store(z.addr, a)")
    )
    machine = load_machine(str(path))
    checks = check_machine(machine, ["store_v_u8", "store8_v_u8"], emulator=emulator_for(machine))
    assert {(c.instruction, c.verdict, c.message) for c in checks} == {
        ("store_v_u8", "ok", ""),
        ("store8_v_u8", "crashed", "its trial touched memory right beside its tensors (SIGSEGV)"),
    }


@needs_qemu
@pytest.mark.exhaustive
@pytest.mark.parametrize("bits", [128, 512])
@pytest.mark.parametrize(
    ("machine", "unit", "cpu", "names"),
    [
        (
            "riscv-rvv", 64, "qemu-riscv64 -cpu rv64,v=true,vlen={bits}",
            ["load_v_f32", "fma_n_v_f32", "reduce_v_f64", "cvt_v_u8_i32", "max_v_f32"],
        ),
        (
            "aarch64-sve2", 128, "qemu-aarch64 -cpu max,sve-default-vector-length={bytes}",
            ["load_first_v_f32", "fma_v_f32", "total_v_f64", "load_first_v_u8_i32", "dot4_v_i8"],
        ),
    ],
)  # fmt: skip
def test_vectors_of_other_lengths(machine: str, unit: int, cpu: str, names: list[str], bits: int) -> None:
    """What is made for one length, on a processor that has it."""
    described = load_machine(f"{machine}@Q={bits // unit}")
    emulator = Emulator.read(cpu.format(bits=bits, bytes=bits // 8))
    checks = check_machine(described, names, emulator=emulator_for(described, emulator))
    assert {check.verdict for check in checks} == {"ok"}
