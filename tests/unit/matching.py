"""Instructions and kernels given as text, and the mappings of one onto the other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from isamap.ir import Instruction, Kernel
from isamap.match import CountMode, Mapping, Pattern, pattern_of
from isamap.match.mappings.enumerate import find_in_statement
from isamap.source import Source
from isamap.syntax import parse_kernel, parse_module
from isamap.transform import statements

KERNELS = Path(__file__).resolve().parents[2] / "kernels"

MEMORIES = "memory mem: addressable(); memory reg: registers(count = 8, bytes = 64, named = compiler);"


def instruction(text: str) -> Pattern:
    """Return an instruction as a pattern; its memories are `mem` and `reg`."""
    module = parse_module(Source("instruction.isa", f"{MEMORIES}\n{text}"))
    found = pattern_of(next(d for d in module.declarations if isinstance(d, Instruction)))
    assert found is not None
    return found


def shipped(name: str) -> Kernel:
    return parse_kernel(Source(f"{name}.ir", (KERNELS / f"{name}.ir").read_text(encoding="utf-8")))


def kernel(operands: str, loops: str, params: str = "") -> Kernel:
    return parse_kernel(Source("kernel.ir", f"kernel k({params}) {{ {operands} {loops} }}"))


def mappings(
    pattern: Pattern, routine: Kernel, statement: int = 0, mode: CountMode = "complete"
) -> list[Mapping]:
    """Return all mappings of one statement."""
    return list(find_in_statement(pattern, statements(routine)[statement], statement, mode))


def counts(
    pattern: Pattern, routine: Kernel, statement: int = 0, mode: CountMode = "complete"
) -> tuple[int, int, int]:
    """Return how many mappings are whole, split and degenerate."""
    kinds = Counter(m.kind for m in mappings(pattern, routine, statement, mode))
    return kinds["whole"], kinds["split"], kinds["degenerate"]


MATRIX = """instruction mma() {
  inout c: f32[16, 16] @ reg;
  in a: f32[16, 16] @ reg;
  in b: f32[16, 16] @ reg;
  for i in 16, j in 16, k in 16 { c[i, j] += a[i, k] * b[k, j]; }
}"""

VECTOR = """instruction fma() {
  inout c: f32[16] @ reg;
  in a: f32[16] @ reg;
  in b: f32[16] @ reg;
  for i in 16 { c[i] += a[i] * b[i]; }
}"""

DOT = """instruction dot() {
  inout c: f32 @ reg;
  in a: f32[16] @ reg;
  in b: f32[16] @ reg;
  for k in 16 { c += a[k] * b[k]; }
}"""

PAIRS = """instruction pairs(choose R: 1..16, choose N: 1..16, choose Q: 1..16) {
  inout c: f32[R, N] @ reg;
  in a: bf16[R, 2*Q] @ reg;
  in b: bf16[Q, 2*N] @ reg;
  for m in R, n in N, k in Q, p in 2 { c[m, n] += f32(a[m, 2*k + p]) * f32(b[k, 2*n + p]); }
}"""
