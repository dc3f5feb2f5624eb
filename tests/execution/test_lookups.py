"""Kernels that read tables at data, by look-ups: right at all sizes, with lanes left over, on several machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap import verify
from isamap.cli import main
from isamap.machine import load_machine, missing_features

MXFP4 = """kernel mxfp4_gemv(M, B) {
  in w: u8[16*M*B] values 0..255;
  in e: u8[M*B] values 0..255;
  in codes: f32[16];
  in powers: f32[256];
  in x: f32[B, 32];
  out y: f32[M];
  for m in M { y[m] = 0; }
  for m in M, b in B, i in 16 {
    y[m] += powers[e[m*B + b]] * (codes[w[(m*B + b) * 16 + i] % 16] * x[b, i]
      + codes[w[(m*B + b) * 16 + i] / 16] * x[b, i + 16]);
  }
}
"""
BYTES = """kernel bytes(N) {
  in t: i8[16];
  in c: u8[N] values 0..255;
  out y: i8[N];
  for n in N { y[n] = t[c[n] % 16]; }
}
"""
WORDS = """kernel words(N) {
  in t: f32[300];
  in c: i32[N] values 5..299;
  out y: f32[N];
  for n in N { y[n] = t[c[n]]; }
}
"""
PAIRS = """kernel pairs(M, B, I) {
  in w: u8[I*M*B] values 0..255;
  in pairs: f32[256, 2];
  in x: f32[B, 2*I];
  out y: f32[M];
  for m in M { y[m] = 0; }
  for m in M, b in B, i in I, h in 2 { y[m] += pairs[w[(m*B + b)*I + i], h] * x[b, 2*i + h]; }
}
"""


@pytest.mark.hardware
@pytest.mark.parametrize(
    ("text", "machine", "sizes", "looks"),
    [
        (MXFP4, "x86-avx512", {"M": 5, "B": 3}, "lookup_zmm_f32"),
        (MXFP4, "x86-avx2", {"M": 9, "B": 3}, "lookup16_ymm_f32"),
        (BYTES, "x86-avx512", {"N": 100}, "lookup_zmm_i8"),
        (BYTES, "x86-avx2", {"N": 100}, "lookup_ymm_i8"),
        (WORDS, "x86-avx512", {"N": 37}, "gather_ymm_f32"),
        (PAIRS, "x86-avx512", {"M": 45, "B": 6, "I": 16}, "join_pairs_"),
        (PAIRS, "x86-avx512", {"M": 17, "B": 2, "I": 69}, "join_pairs_"),
        (PAIRS, "x86-avx2", {"M": 45, "B": 6, "I": 16}, "join_pairs_ymm_f32"),
        (BYTES, "aarch64-neon", {"N": 50}, "lookup_q_i8"),
        (WORDS, "aarch64-sve2", {"N": 37}, "gather_v_f32"),
    ],
)
def test_tables_are_read_by_instructions(
    text: str, machine: str, sizes: dict[str, int | str], looks: str, tmp_path: Path
) -> None:
    described = load_machine(machine)
    if described.target.run == "native" and (lacking := missing_features(described)):
        pytest.skip(f"this processor lacks {lacking[0]}")
    if described.target.run == "emulator":
        pytest.importorskip("ziglang")
    path = tmp_path / "k.ir"
    path.write_text(text)
    words = [f"{name}={value}" for name, value in sizes.items()]
    asked = ["compile", str(path), "--hw", machine, "--heuristic", "greedy", "-o", str(tmp_path / "out")]
    assert main([*asked, "-D", *words]) == 0
    assert looks in (tmp_path / "out" / "report.txt").read_text()
    assert [case.ok for case in verify(path, machine, sizes, heuristic="greedy")] == [True] * 3
