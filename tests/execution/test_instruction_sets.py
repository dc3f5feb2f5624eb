"""Instruction sets of several makers, each tried where it can be, counted, and held to a number.

What stands in a description is tried by itself: this computer's processor performs it, or QEMU does. Each
program of an architecture needs a C library, half a minute to build once: one architecture is tried always.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from counted_sets import INSTRUCTION_SET

from isamap import compile as compile_kernel
from isamap import verify
from isamap.machine import load_machine, missing_features
from isamap.run.child import Emulator, RunProblem, emulator_for
from isamap.run.conformance import check_machine

ON_HARDWARE = (
    "generic-c",
    "x86-avx2",
    "x86-avx-vnni",
    "x86-avx512",
    "x86-avx512-vnni",
    "x86-avx512-bf16",
    "x86-avx512-fp16",
)
OF_ONE_EMULATOR = ("aarch64-neon", "aarch64-dotprod", "aarch64-bf16", "aarch64-sve2")
OF_OTHERS = ("riscv-rvv", "power10-mma", "wasm-simd128", "s390x-vector", "mips-msa")
FOR_ALL = (
    *("qemu-aarch64", "qemu-riscv64", "qemu-ppc64le", "qemu-loongarch64"),
    *("qemu-s390x", "qemu-mips64el", "node"),
)
OF_NEWER_EMULATORS = ("loongarch-lasx",)
# Their first version with each, right: Debian 12's own has a wrong `smopa`.
NEWER_FOR = {"aarch64-sme": (8, 2)}
EVERY_NTH = 12  # of the instructions, where others try all: `generic-c` is asked for of each architecture

needs_qemu = pytest.mark.skipif(
    shutil.which("qemu-aarch64") is None, reason="needs qemu-aarch64 (Debian's qemu-user)"
)

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node (Debian's nodejs)")


def has_model(emulator: str, model: str) -> bool:
    """Return whether an emulator is here and knows a model of a processor: older ones lack whole vector units."""
    if shutil.which(emulator) is None:
        return False
    listed = subprocess.run([emulator, "-cpu", "help"], capture_output=True, text=True, check=False)
    return model in listed.stdout.split()


def version(emulator: str) -> tuple[int, ...]:
    """Return the version of an emulator of QEMU; () where it is not here."""
    if shutil.which(emulator) is None:
        return ()
    said = subprocess.run([emulator, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version (\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


def own(name: str, every: int) -> list[str]:
    """Return the instructions that a description adds, or one of so many."""
    machine = load_machine(name)
    inherited = set[str]() if len(machine.chain) == 1 else set(load_machine(machine.chain[1]).instructions)
    return [n for n in machine.instructions if n not in inherited][::every]


def tried(names: Sequence[str], emulator: str | None = None, every: int = 1) -> Counter[str]:
    """Return how many of the instructions of each of these machines were right; fails where one was not."""
    right: Counter[str] = Counter()
    for name in names:
        machine = load_machine(name)
        named = Emulator((emulator,)) if emulator is not None else None
        checks = check_machine(machine, own(name, every), emulator=emulator_for(machine, named))
        assert [c for c in checks if c.verdict in ("wrong", "crashed")] == []
        right[f"{name} under {emulator}" if emulator else name] += sum(c.verdict == "ok" for c in checks)
    return right


Recorder = Callable[[str, object], None]


def say(record: Recorder, right: Counter[str]) -> int:
    """Return how many instruction sets were tried; the end of the run says which (counted_sets.py)."""
    sets = [name for name, count in right.items() if count]
    for name in sets:
        record(INSTRUCTION_SET, f"{name} {right[name]}")
    return len(sets)


@needs_qemu
def test_instruction_sets_run_here(record_property: Recorder) -> None:
    here = [name for name in ON_HARDWARE if not missing_features(load_machine(name))]
    found = tried(here, every=EVERY_NTH) + tried(OF_ONE_EMULATOR, every=EVERY_NTH)
    assert say(record_property, found) == len(here) + len(OF_ONE_EMULATOR)


@needs_qemu
@needs_node
@pytest.mark.exhaustive
def test_other_instruction_sets_run(record_property: Recorder) -> None:
    everywhere: Counter[str] = Counter()
    for emulator in FOR_ALL:
        everywhere += tried(["generic-c"], emulator, EVERY_NTH)
    found = tried((*OF_ONE_EMULATOR, *OF_OTHERS)) + everywhere
    assert say(record_property, found) == len(OF_ONE_EMULATOR) + len(OF_OTHERS) + len(FOR_ALL)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", OF_NEWER_EMULATORS)
def test_instruction_sets_of_newer_emulators_run(name: str, record_property: Recorder) -> None:
    target = load_machine(name).target
    if not has_model(target.emulator or "", target.cpu or ""):
        pytest.skip(f"needs a {target.emulator} that knows {target.cpu}: QEMU 8.2 or newer")
    assert say(record_property, tried([name])) == 1


@pytest.mark.parametrize("name", NEWER_FOR)
def test_instruction_sets_that_older_emulators_get_wrong_run(name: str, record_property: Recorder) -> None:
    emulator = load_machine(name).target.emulator or ""
    if version(emulator) < NEWER_FOR[name]:
        pytest.skip(f"needs {emulator} {'.'.join(map(str, NEWER_FOR[name]))} or newer")
    assert say(record_property, tried([name])) == 1


SIZES = {"M": 5, "N": 6, "K": 7}


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize(
    ("kernel", "machine", "by", "without", "sizes"),
    [
        ("gemm_f32", "aarch64-sme", "fmopa", [], (35, 37, 33)),
        ("gemm_s8s8", "aarch64-sme", "smopa", [], (70, 70, 70)),
        ("gemm_bf16", "aarch64-sme", "bfmopa", [], (70, 70, 70)),
        ("gemm_s8s8", "aarch64-bf16", "smmla_q", [], (33, 37, 70)),
        ("gemm_bf16", "aarch64-bf16", "bfmmla_q", [], (33, 37, 70)),
        ("gemm_f32", "aarch64-neon", "fma_lanes_q_f32", ["fma_q_f32", "fma_n_q_f32"], (9, 13, 10)),
        ("gemm_s8s8", "aarch64-dotprod", "sdot_lanes_q", ["sdot_q", "dot2_q_i8", "mla_q_i32"], (9, 13, 33)),
    ],
)
def test_products_in_tiles_joined_rows_and_by_lane(
    kernel: str, machine: str, by: str, without: list[str], sizes: tuple[int, int, int], tmp_path: Path
) -> None:
    """Whole tiles and what is left of them, by the instruction that is meant: others are left out."""
    target = load_machine(machine).target
    if version(target.emulator or "") < NEWER_FOR.get(machine, (1,)):
        pytest.skip(f"needs a newer {target.emulator}")
    path = tmp_path / "own.yaml"
    path.write_text(
        f"isamap: 1\nname: own\nsummary: less\nextends: {machine}\nremove: [{', '.join(without)}]\n"
    )
    given = dict(zip("MNK", sizes, strict=True))
    files = compile_kernel(kernel, path, given, heuristic="greedy").files
    assert by in files[f"{kernel}.schedule"]
    cases = verify(kernel, path, given, schedule=files[f"{kernel}.schedule"])
    assert [p.message for case in cases for p in case.problems] == []


@needs_qemu
@pytest.mark.parametrize(
    ("machine", "cpu", "lacks"),
    [
        ("aarch64-dotprod", "cortex-a53", "asimddp"),
        ("aarch64-bf16", "cortex-a76", "i8mm"),
        pytest.param("aarch64-sme", "max,sme=off", "sme", marks=pytest.mark.exhaustive),
        pytest.param("riscv-rvv", "rv64", "v", marks=pytest.mark.exhaustive),
        pytest.param("power10-mma", "power9", "mma", marks=pytest.mark.exhaustive),
        pytest.param("s390x-vector", "max,vxeh2=off", "vxe2", marks=pytest.mark.exhaustive),
        pytest.param("mips-msa", "MIPS64R2-generic", "msa", marks=pytest.mark.exhaustive),
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
        ("store8_v_u8", "crashed", "its trial accessed memory directly next to its tensors (SIGSEGV)"),
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
        (
            "aarch64-sme", 128, "qemu-aarch64 -cpu max,sme-default-vector-length={bytes}",
            ["fmopa", "bfmopa", "smopa", "load_turned_za_f32", "store_za_f32_bf16", "transpose_words_f32"],
        ),
    ],
)  # fmt: skip
def test_vectors_of_other_lengths(machine: str, unit: int, cpu: str, names: list[str], bits: int) -> None:
    """What is made for one length, on a processor that has it."""
    described = load_machine(f"{machine}@Q={bits // unit}")
    if version(described.target.emulator or "") < NEWER_FOR.get(machine, (1,)):
        pytest.skip(f"needs a newer {described.target.emulator}")
    emulator = Emulator.read(cpu.format(bits=bits, bytes=bits // 8))
    checks = check_machine(described, names, emulator=emulator_for(described, emulator))
    assert {check.verdict for check in checks} == {"ok"}
