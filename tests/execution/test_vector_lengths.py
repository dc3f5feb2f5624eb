"""Code is right for the lengths of vectors that it was made for, and refuses others, touching nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from isamap.cli import main

MACHINE = Path(__file__).parent.parent / "data" / "machines" / "rvv.yaml"
QEMU = "qemu-riscv64"
CALLER = """#include <stdio.h>
#include <stdlib.h>
#include "gemm_f32.h"
enum { M = 13, N = 37, K = 7 };
int main(void) {
  static float a[M * K], b[K * N], c[M * N], wanted[M * N];
  for (int i = 0; i < M * K; i++) a[i] = (float)(i * 7 % 17 - 8);
  for (int i = 0; i < K * N; i++) b[i] = (float)(i * 5 % 13 - 6);
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++)
      for (int k = 0; k < K; k++) wanted[m * N + n] += a[m * K + k] * b[k * N + n];
  gemm_f32_args args = {.A = a, .A_stride0 = 4 * K, .B = b, .B_stride0 = 4 * N, .C = c, .C_stride0 = 4 * N};
  GIVEN
  int status = gemm_f32(&args, malloc(1 << 20), NULL), wrong = 0, touched = 0;
  for (int i = 0; i < M * N; i++) wrong += c[i] != wanted[i], touched += c[i] != 0;
  printf("%d %d %d", status == gemm_f32_WRONG_LENGTH, wrong == 0, touched == 0);
  return 0;
}
"""


# They are exhaustive: the C library of RISC-V takes 50 s of processor time.
needs_tools = pytest.mark.skipif(
    shutil.which(QEMU) is None or find_spec("ziglang") is None, reason=f"needs {QEMU} and the extra `cc`"
)


@needs_tools
@pytest.mark.exhaustive
@pytest.mark.parametrize("made_for", [(128, 256, 512), (512,), (128,), (256,)])
@pytest.mark.parametrize("sizes", [("M=1..64@13", "N=1..64@37", "K=1..64@7"), ("M=13", "N=37", "K=7")])
def test_one_binary_is_right_where_it_was_made_for_and_refuses_elsewhere(
    made_for: tuple[int, ...], sizes: tuple[str, ...], tmp_path: Path
) -> None:
    lengths = ",".join(str(bits // 64) for bits in made_for)
    words = ["gemm_f32", "--hw", f"{MACHINE}@Q={lengths}", *(word for size in sizes for word in ("-D", size))]
    runs_only_at(made_for, words, sizes, tmp_path)


@needs_tools
@pytest.mark.exhaustive
@pytest.mark.parametrize("made_for", [256, 128])
def test_code_of_a_description_of_one_length_refuses_other_lengths(made_for: int, tmp_path: Path) -> None:
    text = MACHINE.read_text(encoding="utf-8")
    assert "lengths: {Q" in text
    without = re.sub(r"(?m)^.*(lengths: \{Q|machine Q:).*\n", "", text)
    machine = tmp_path / "rvv.yaml"
    machine.write_text(re.sub(r"\bQ\b", str(made_for // 64), without), encoding="utf-8")
    sizes = ("M=13", "N=37", "K=7")
    words = ["gemm_f32", "--hw", str(machine), *(word for size in sizes for word in ("-D", size))]
    runs_only_at((made_for,), words, sizes, tmp_path)


def runs_only_at(made_for: tuple[int, ...], words: list[str], sizes: tuple[str, ...], tmp_path: Path) -> None:
    assert main(["compile", *words, "-o", str(tmp_path / "out")]) == 0
    given = "" if sizes[0] == "M=13" else "args.M = M, args.N = N, args.K = K;"
    (tmp_path / "caller.c").write_text(CALLER.replace("GIVEN", given))
    # Only the kernel is compiled for vectors: Zig would build another C library for other features.
    compiler = [sys.executable, "-m", "ziglang", "cc", "--target=riscv64-linux-musl", "-O2"]
    kernel, program = str(tmp_path / "kernel.o"), str(tmp_path / "program")
    vectors = ["-mcpu=generic_rv64+m+a+f+d+c+v", "-c", str(tmp_path / "out" / "gemm_f32.c"), "-o", kernel]
    whole = ["-static", f"-I{tmp_path / 'out'}", str(tmp_path / "caller.c"), kernel, "-o", program]
    for step in (vectors, whole):
        subprocess.run([*compiler, *step], check=True, capture_output=True)
    for there in (128, 256, 512, 1024):
        cpu = f"rv64,v=true,vlen={there},vext_spec=v1.0"
        found = subprocess.run([QEMU, "-cpu", cpu, program], check=True, capture_output=True, text=True)
        assert found.stdout == ("0 1 0" if there in made_for else "1 0 1")
