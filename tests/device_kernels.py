"""Compile the kernels that isamap prints for a device, and run them where an emulator is named."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from isamap.driver.pipeline import compile_kernel
from isamap.driver.printers import emit_artifact
from isamap.driver.request import Request
from isamap.driver.verifying import Case, ComparedResult, case_of
from isamap.ir import bind
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.run.fills import make_arrays, make_scalars
from isamap.source import Source
from isamap.syntax import parse_kernel

LAUNCH = Path(__file__).parent / "rdna3" / "launch.py"
EMULATOR = os.environ.get("ISAMAP_TINYGRAD", "")


BATCHED = Source(
    "batched.ir",
    """kernel batched(L, M, N, K) {
  in A: bf16[L, M, K];
  in B: bf16[L, K, N];
  inout C: f32[L, M, N];
  for l in L, m in M, n in N, k in K { C[l, m, n] += f32(A[l, m, k]) * f32(B[l, k, n]); }
}""",
)
REDUCTION = Source(
    "sums.ir",
    "kernel sums(M, N) { in x: f32[M, N]; inout y: f32[N]; for m in M, n in N { y[n] += x[m, n]; } }",
)
ATTENTION = Source(
    "attend.ir",
    """kernel attend(L, M, N, D) {
  in Q: bf16[L, M, D];
  in K: bf16[L, N, D];
  in V: bf16[L, N, D];
  out O: f32[L, M, D];
  temp S: f32[L, M, N];
  temp P: bf16[L, M, N];
  temp top: f32[L, M];
  temp total: f32[L, M];
  for l in L, m in M, n in N { S[l, m, n] = 0; }
  for l in L, m in M, n in N, d in D { S[l, m, n] += f32(Q[l, m, d]) * f32(K[l, n, d]); }
  for l in L, m in M { top[l, m] = -inf; }
  for l in L, m in M, n in N { top[l, m] max= S[l, m, n]; }
  for l in L, m in M, n in N { S[l, m, n] = exp((S[l, m, n] - top[l, m]) / sqrt(f32(D))); }
  for l in L, m in M { total[l, m] = 0; }
  for l in L, m in M, n in N { total[l, m] += S[l, m, n]; }
  for l in L, m in M, n in N { P[l, m, n] = bf16(S[l, m, n] / total[l, m]); }
  for l in L, m in M, d in D { O[l, m, d] = 0; }
  for l in L, m in M, d in D, n in N { O[l, m, d] += f32(P[l, m, n]) * f32(V[l, n, d]); }
}""",
)


LAYER = {"M": 19, "N": 35, "K": 21}
ROWS = {"M": 5, "N": 37}
KERNELS: Mapping[str, tuple[str | Source, dict[str, int]]] = {
    "layout": ("gemm_tn_bf16_f32", LAYER),
    "activation": ("linear_silu_bf16", LAYER),
    "residual": ("linear_residual_bf16", LAYER),
    "convolution": (
        "conv2d_nhwc_bf16",
        {"N": 1, "H": 5, "W": 6, "C": 3, "K": 17, "R": 3, "S": 3, "stride": 2, "pad": 1},
    ),
    "depthwise": ("depthwise", {"N": 1, "H": 5, "W": 6, "C": 9, "R": 3, "S": 3, "stride": 1, "pad": 1}),
    "softmax": ("softmax_f32", ROWS),
    "norm": ("rms_norm_f32", ROWS),
    "GRU step": ("gru_bf16", {"T": 1, "N": 3, "C": 5, "H": 17}),
    "LSTM step": ("lstm_bf16", {"T": 1, "N": 3, "C": 5, "H": 17}),
    "batched": (BATCHED, {"L": 2, "M": 17, "N": 18, "K": 19}),
    "reduction": (REDUCTION, {"M": 7, "N": 45}),
    "weights of 4 bits": ("gemm_w4_f32", {"M": 3, "N": 37, "G": 2}),
    "attention": (ATTENTION, {"L": 2, "M": 9, "N": 19, "D": 8}),
}
"""Kernels of all kinds at odd sizes, besides plain products: shipped ones by name, and their own texts."""


@cache
def amdgcn_compiler() -> tuple[str, str] | None:
    """Return a clang that compiles for amdgcn and the linker that it needs; None where there is none."""
    for version in ("", *(f"-{number}" for number in range(22, 16, -1))):
        clang, linker = shutil.which(f"clang{version}"), shutil.which(f"ld.lld{version}")
        if clang and linker:
            targets = subprocess.run([clang, "--print-targets"], capture_output=True, text=True, check=False)
            if "amdgcn" in targets.stdout:
                return clang, linker
    return None


def without_vector_products(machine: str, folder: Path) -> str:
    """Return the path of a description in which matrix instructions alone multiply and add.

    At the small sizes of tests, vectors are often cheaper.
    """
    pattern = re.compile(r"(fma|mac|sum)_\w+")
    removed = [name for name in load_machine(machine).instructions if pattern.fullmatch(name)]
    path = folder / f"{machine}-products.yaml"
    path.write_text(
        f"isamap: 1\nname: {path.stem}\nsummary: matrix products\nextends: {machine}\n"
        f"remove: [{', '.join(removed)}]\n",
        encoding="utf-8",
    )
    return str(path)


def print_files(
    kernel: Source, machine: str, sizes: Mapping[str, int], schedule: Source | None = None, **fixed: int
) -> dict[str, str]:
    """Return the source of the kernels of a program, and the plan of their launches."""
    made = compile_kernel(
        Request(kernel, machine, dict(sizes), schedule=schedule, heuristic="greedy", fixed=fixed)
    )
    assert made.program is not None
    assert made.machine is not None
    source, plan, *_ = emit_artifact(made.program, made.machine, "kernels").files().values()
    assert isinstance(source, str)
    assert isinstance(plan, str)
    return {"source": source, "plan": plan}


def compile_for_amdgcn(files: Mapping[str, str], folder: Path) -> Path:
    """Return the code object of kernels, compiled as their plan says."""
    found = amdgcn_compiler()
    assert found is not None
    (folder / "kernels.cl").write_text(files["source"], encoding="utf-8")
    (folder / "plan.json").write_text(files["plan"], encoding="utf-8")
    words = json.loads(files["plan"])["compile"].replace("-fuse-ld=lld", f"-fuse-ld={found[1]}").split()
    made = folder / "kernels.elf"
    command = [found[0], *words[1:], "-Werror", "-o", str(made), str(folder / "kernels.cl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


def emulate(given: Mapping[Path, tuple[Source, Mapping[str, int]]], fill: str) -> dict[Path, Case]:
    """Return what comparing an emulated run of each folder's kernels with the interpreter says."""
    bounds = {folder: bind(parse_kernel(kernel), dict(sizes)) for folder, (kernel, sizes) in given.items()}
    arrays: dict[Path, dict[str, Any]] = {at: dict(make_arrays(bound, fill)) for at, bound in bounds.items()}
    scalars = {folder: make_scalars(bound, fill) for folder, bound in bounds.items()}
    bits = {
        at: {n: np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}") for n, a in own.items()}
        for at, own in arrays.items()
    }
    found = launch_in_emulator({folder: {**own, **scalars[folder]} for folder, own in bits.items()})
    cases: dict[Path, Case] = {}
    for folder, bound in bounds.items():
        results = {
            name: found[folder].get(name, bits[folder][name]).view(array.dtype).reshape(array.shape)
            for name, array in arrays[folder].items()
        }
        sizes = dict(given[folder][1])
        made = ComparedResult(bound, arrays[folder], results, sizes, fill, "emulator", [])
        cases[folder] = case_of(made, scalars[folder], guard=False)
    return cases


def launch_in_emulator(given: Mapping[Path, Mapping[str, Any]]) -> dict[Path, dict[str, Any]]:
    """Return the arrays that the kernels of each folder wrote in the emulator.

    One process launches all of them, because it compiles each instruction once.
    """
    for folder, arrays in given.items():
        np.savez(folder / "arrays.npz", **arrays)
    found, environment = amdgcn_compiler(), dict(os.environ)
    assert found is not None
    environment |= {"CC": found[0], "DEV": "MOCK+AMD:LLVM", "PYTHONPATH": EMULATOR}
    done = subprocess.run(
        [sys.executable, str(LAUNCH), *map(str, given)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {folder: dict(np.load(folder / "results.npz")) for folder in given}


def shipped(name: str) -> Source:
    """Return the text of a shipped kernel."""
    path = kernel_path(name)
    return Source(path.name, path.read_text(encoding="utf-8"))


def product(dtype: str, total: str, *, transposed: bool = False, is_aligned: bool = False) -> Source:
    """Return a product of matrices of such elements, summed in another type; rows of aligned ones are of 16 bytes."""
    where = (
        " where " + ", ".join(f"align({x}) >= 16, stride({x}, 0) % 8 == 0" for x in "AB")
        if is_aligned
        else ""
    )
    b, at = ("B: %s[N, K]", "B[n, k]") if transposed else ("B: %s[K, N]", "B[k, n]")
    return Source(
        "product.ir",
        f"kernel product(M, N, K){where} {{ in A: {dtype}[M, K]; in {b % dtype}; inout C: {total}[M, N];"
        f" for m in M, n in N, k in K {{ C[m, n] += {total}(A[m, k]) * {total}({at}); }} }}",
    )
