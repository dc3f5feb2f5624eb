"""One artifact for several machines: built by its own Makefile, it runs what this processor allows."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isamap.cli import main
from isamap.driver.api import source_of
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.emit.dispatch import NO_MACHINE, MachineProgram, dispatch_files
from isamap.machine import load_machine, missing_features
from isamap.machine.allowed import supports
from isamap.machine.processor import detect_features
from isamap.source import UsageProblem

SIZES = "-D M=7 N=37 K=11"
X86 = ("x86-avx2", "generic-c", "x86-avx512")
PRESENT = sorted(detect_features() & set(supports()))
ABSENT = sorted(set(supports()) - detect_features())

needs_make = pytest.mark.skipif(
    shutil.which("make") is None or shutil.which("gcc") is None or not PRESENT or not ABSENT,
    reason="make, gcc and a processor that dispatch knows are needed",
)


def compiled(folder: Path, machines: tuple[str, ...], *more: str) -> Path:
    out = folder / "out"
    named = [word for machine in machines for word in ("--hw", machine)]
    assert main(["compile", "gemm_f32", *named, *SIZES.split(), "-o", str(out), *more]) == 0
    return out


def loaded(out: Path) -> ctypes.CDLL:
    subprocess.run(["make", "-s", "-C", str(out)], check=True, capture_output=True)
    library = ctypes.CDLL(str(out / "libgemm_f32.so"))
    library.gemm_f32_machine.restype = ctypes.c_char_p
    library.gemm_f32_workspace_bytes.restype = ctypes.c_size_t
    return library


class Arguments(ctypes.Structure):
    _fields_ = [
        (f"{name}{part}", kind)
        for name in "ABC"
        for part, kind in (("", ctypes.c_void_p), ("_stride0", ctypes.c_int64))
    ]


def called(library: ctypes.CDLL) -> tuple[int, float]:
    """Return the status of a call, and how far its result is from the product."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((7, 11), (11, 37), (7, 37)))
    expected = c + a @ b
    places = [value for array in (a, b, c) for value in (array.ctypes.data, array.strides[0])]
    arguments = Arguments(*places)
    workspace = np.zeros(library.gemm_f32_workspace_bytes(ctypes.byref(arguments)) + 64, np.uint8)
    status = library.gemm_f32(ctypes.byref(arguments), ctypes.c_void_p(workspace.ctypes.data), None)
    return status, float(abs(c - expected).max())


def machine(folder: Path, name: str, *features: str) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(
        f"isamap: 1\nname: {name}\nsummary: a machine\nextends: generic-c\n"
        f"target:\n  features: [{', '.join(features)}]\n"
    )
    return str(path)


@needs_make
def test_the_best_machine_that_is_here_runs(tmp_path: Path) -> None:
    library = loaded(compiled(tmp_path, X86))
    best = next(
        name for name in ("x86-avx512", "x86-avx2", "generic-c") if not missing_features(load_machine(name))
    )
    assert library.gemm_f32_machine() == best.encode()
    status, error = called(library)
    assert status == 0
    assert error < 1e-5


@needs_make
def test_a_machine_that_needs_more_than_there_is_is_passed_over(tmp_path: Path) -> None:
    more = machine(tmp_path, "more", PRESENT[0], ABSENT[0])
    here = machine(tmp_path, "here", PRESENT[0])
    library = loaded(compiled(tmp_path, (more, here)))
    assert library.gemm_f32_machine() == b"here"
    assert called(library)[0] == 0


@needs_make
def test_where_no_machine_fits_nothing_is_touched(tmp_path: Path) -> None:
    one, two = machine(tmp_path, "one", ABSENT[0]), machine(tmp_path, "two", ABSENT[0], PRESENT[0])
    library = loaded(compiled(tmp_path, (one, two)))
    assert library.gemm_f32_machine() is None
    status, error = called(library)
    assert status == NO_MACHINE
    assert error > 0.1
    assert library.gemm_f32(None, None, None) == 1


@needs_make
def test_with_threads_the_pool_goes_to_those_that_take_one(tmp_path: Path) -> None:
    out = compiled(tmp_path, X86, "--threads", "2")
    assert called(loaded(out))[0] == 0
    assert "isamap_pool.o" not in (out / "Makefile").read_text() or (out / "isamap_pool.c").exists()


def test_the_manifest_says_what_is_tried_in_which_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = compiled(tmp_path, X86, "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["machines"] == ["x86-avx512", "x86-avx2", "generic-c"]
    assert [v["machine"] for v in found["variants"]] == found["machines"]
    assert found["dispatch"][1] == {
        "machine": "x86-avx2",
        "function": "gemm_f32_on_x86_avx2",
        "features": ["avx2", "fma", "f16c"],
        "permissions": [],
    }
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["dispatch"] == found["dispatch"]
    assert set(manifest["files"]) == {path.name for path in out.iterdir()} - {"manifest.json"}
    again = {path.name: path.read_bytes() for path in out.iterdir()}
    compiled(tmp_path, X86[::-1])
    assert {path.name: path.read_bytes() for path in out.iterdir()} == again, (
        "the order of --hw is not an input"
    )


def test_programs_that_take_other_arguments_are_refused() -> None:
    variants: list[MachineProgram] = []
    for sizes in ({"M": 4, "N": 4, "K": 4}, {"M": "1..8@4", "N": 4, "K": 4}):
        made = compile_kernel(Request(source_of("gemm_f32"), "generic-c", sizes, heuristic="greedy"))
        assert made.machine is not None
        assert isinstance(made.emitted, EmittedC)
        variants.append(MachineProgram(replace(made.machine, name=f"m{len(variants)}"), made.emitted))
    with pytest.raises(UsageProblem) as refused:
        dispatch_files("gemm_f32", variants)
    assert refused.value.render() == (
        "error[dispatch-packed]: the program for m1 takes a tensor in a layout of its own\n"
        "  note: callers of several machines' code have one layout only\n"
        "  help: leave tensors unpacked, or compile for each machine by itself"
    )
