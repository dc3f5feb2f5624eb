"""Copies whose two sides run along different axes move in blocks, by an instruction found by its meaning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.ir import BF16, F32, Cast, Expr, Index, Read, bind, interpret
from isamap.kernels import kernel_path
from isamap.lower.program import Block, For, If, Issue, MemoryRef, Node
from isamap.lower.touched import check_touched
from isamap.machine import load_machine
from isamap.match import Copy, MoveSearch, find_block
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import Source
from isamap.syntax import parse_kernel

MACHINE = """\
isamap: 1
name: turns
summary: one of the tests
extends: BASE
sources: {t: the test}
instructions:
  - semantics: |
      instruction whatever() {
        in a: S[4, 4] @ mem strides(any, 1);
        out z: T[4, 4] @ mem strides(any, 1);
        for i in 4, j in 4 { z[j, i] = VALUE; }
      }
    emit: semantics
    cost: {unit: move, interval_ns: 1, latency_ns: 1}
    source: t
"""
SCHEDULE = """isamap schedule 1
kernel gemm_nt_f32
machine turns
sizes K = 37, M = 21, N = 50
status MANUAL

nest 0 {
  map matmul { i: n, j: m, k: k } (a = B[n, k], b = A[m, k]);
  for n by 16 {
    stage a;
    stage b;
    for m by 16 {
      stage c;
      hold;
      for k by 16 {
        issue;
      }
    }
  }
}
"""
SIZES = {"K": 37, "M": 21, "N": 50}


def machine(
    folder: Path,
    base: str = "matmul-16x16x16",
    *,
    source: str = "f32",
    target: str = "f32",
    value: str = "a[i, j]",
) -> str:
    path = folder / "turns.yaml"
    text = MACHINE.replace("BASE", base).replace("VALUE", value)
    path.write_text(text.replace("S[", f"{source}[").replace("T[", f"{target}["), encoding="utf-8")
    return str(path)


def compiled(hw: str, kernel: str, sizes: dict[str, int], schedule: str | None = None) -> Compilation:
    replay = Source("s.schedule", schedule) if schedule is not None else None
    return compile_kernel(Request(Source("k.ir", kernel), hw, {**sizes}, schedule=replay, heuristic="greedy"))


def blocks(nodes: tuple[Node, ...]) -> list[tuple[str, ...]]:
    """Return what is moved in blocks: the tensor or buffer that is read, and the one that is written."""
    found: list[tuple[str, ...]] = []
    for node in nodes:
        match node:
            case Issue("whatever", operands):
                found.append(tuple(r.buffer for _, r in operands if isinstance(r, MemoryRef)))
            case For(_, _, body) | If(_, body) | Block(_, body):
                found += blocks(body)
            case _:
                pass
    return found


def is_right(made: Compilation, kernel: str, sizes: dict[str, int]) -> bool:
    assert isinstance(made.emitted, EmittedC)
    assert made.machine
    rng = np.random.default_rng(1)
    bound = bind(parse_kernel(Source("k.ir", kernel)), sizes)
    arrays = {
        o.name: rng.integers(-9, 9, tuple(s.value or 1 for s in o.shape)).astype(o.dtype.numpy())
        for o in bound.operands
    }
    result = run_program(compile_library(made.emitted, made.machine), arrays, {}, guard=True)
    assert result.status == 0, result.meaning
    written = [o.name for o in bound.operands if o.role != "in"]
    expected = interpret(bound, arrays, {})
    return all(np.array_equal(result.arrays[name], expected[name]) for name in written)


def test_tiles_with_swapped_roles_are_packed_brought_and_written_back_in_blocks(tmp_path: Path) -> None:
    kernel = kernel_path("gemm_nt_f32").read_text(encoding="utf-8")
    made = compiled(machine(tmp_path), kernel, SIZES, SCHEDULE)
    assert made.program
    assert made.machine
    moved = {tuple(n.rstrip("0123456789") for n in names) for names in blocks(made.program.body)}
    assert moved == {("A", "b_tiles"), ("C", "c_tiles"), ("c_tiles", "C")}  # B lies as tiles want it
    assert check_touched(made.program, made.machine, every_iteration=True) == ()
    assert is_right(made, kernel, SIZES)


@pytest.mark.parametrize("sizes", [(4, 4), (9, 4), (7, 19)], ids=str)
def test_a_kernel_that_turns_a_matrix_is_performed_in_blocks(tmp_path: Path, sizes: tuple[int, int]) -> None:
    kernel = """kernel turn(M, N) {
      in X: f32[M, N];
      out Y: f32[N, M];
      for m in M, n in N { Y[n, m] = X[m, n]; }
    }"""
    given = dict(zip("MN", sizes, strict=True))
    made = compiled(machine(tmp_path, "vec-fma-16"), kernel, given)
    assert made.program
    assert set(blocks(made.program.body)) == {("X", "Y")}
    assert is_right(made, kernel, given)


def search(hw: str) -> MoveSearch:
    strides = {"B": (Index.of("B.s0"), Index.of(1)), "t": (Index.of(1), Index.of(8), Index.of(1))}
    return MoveSearch(load_machine(hw), strides)


def copy(value: Expr, *, turned: bool = True) -> Copy:
    n, k = Index.of("~n"), Index.of("~k")
    cell = Read("t", (Index.of("@offset"), k, n) if turned else (Index.of("@offset"), n, k), value.dtype)
    return Copy(cell, value, ("~n", "~k"))


READ = Read("B", (Index.of("@n") + Index.of("~n"), Index.of("~k")), F32)


def test_what_a_block_means_decides_which_copies_it_moves(tmp_path: Path) -> None:
    plain = search(machine(tmp_path))
    found = find_block(copy(READ), {"~n": 8, "~k": 12}, plain)
    assert found is not None
    assert (found.instruction, dict(found.sizes), found.cost_ns) == ("whatever", {"~n": 4, "~k": 4}, 1 / 16)
    assert find_block(copy(READ, turned=False), {"~n": 8, "~k": 12}, plain) is None
    assert find_block(copy(READ), {"~n": 8, "~k": 10}, plain) is None  # no whole blocks
    assert find_block(copy(READ), {"~n": 8}, plain, {"~k": 10}) is not None  # which a loop may leave over
    assert find_block(copy(READ), {"~n": 8}, plain, {"~k": 3}) is None
    assert find_block(copy(Cast(READ, BF16)), {"~n": 8, "~k": 12}, plain) is None


def test_a_block_converts_as_it_says(tmp_path: Path) -> None:
    narrowing = search(machine(tmp_path, target="bf16", value="bf16(a[i, j])"))
    assert find_block(copy(Cast(READ, BF16)), {"~n": 8, "~k": 12}, narrowing) is not None
    assert find_block(copy(READ), {"~n": 8, "~k": 12}, narrowing) is None


PAIRS = """
  - semantics: |
      instruction pairs() {
        in a: bf16[4, 8] @ mem strides(any, 1);
        out z: bf16[4, 8] @ mem strides(any, 1);
        for i in 4, j in 4, p in 2 { z[j, 2*i + p] = a[i, 2*j + p]; }
      }
    emit: semantics
    cost: {unit: move, interval_ns: 1, latency_ns: 1}
    source: t
"""


def test_axes_of_a_block_may_count_the_digits_of_one_counter(tmp_path: Path) -> None:
    machine(tmp_path)
    path = tmp_path / "turns.yaml"
    path.write_text(path.read_text(encoding="utf-8") + PAIRS.lstrip("\n"), encoding="utf-8")
    n, k = Index.of("~n"), Index.of("~k")
    value = Read("B", READ.index, BF16)
    pairs = Read("t", (Index.of("@offset"), k.floordiv(2), n * 2 + k.mod(2)), BF16)
    plain = search(str(path))
    found = find_block(Copy(pairs, value, ("~n", "~k")), {"~n": 4, "~k": 16}, plain)
    assert found is not None
    assert (found.instruction, dict(found.sizes), found.cost_ns) == ("pairs", {"~n": 4, "~k": 8}, 1 / 32)
    blocks_along = n * 4 * 2 + k * 8 * 4  # over numbers of blocks
    assert found.places[-1][1].offset == Index.of("@offset") + blocks_along
    fours = Read("t", (Index.of("@offset"), k.floordiv(4), n * 4 + k.mod(4)), BF16)
    assert find_block(Copy(fours, value, ("~n", "~k")), {"~n": 4, "~k": 16}, plain) is None
