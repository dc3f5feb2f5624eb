"""The judge of lowered programs: what issues touch by their meaning, and what lies outside of tensors."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from unit.matching import instruction

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.ir import Index
from isamap.lower.program import Block, For, If, Issue, LoweredProgram, MemoryRef, Node, Parallel
from isamap.lower.touched import check_touched, touched_elements
from isamap.machine import Machine
from isamap.source import Source

SUM = """kernel sum() {
  in X: f32[5, 19]; out Y: f32[5, 19];
  for i in 5, j in 19 { Y[i, j] = X[i, j] + X[i, j]; }
}"""


@cache
def lowered() -> tuple[LoweredProgram, Machine]:
    made = compile_kernel(Request(Source("k.ir", SUM), "x86-avx2", {}, heuristic="greedy"), "lower")
    assert made.program
    assert made.machine
    return made.program, made.machine


def moved(nodes: tuple[Node, ...], array: str, by: int) -> tuple[Node, ...]:
    """Return the nodes with each place in an array so many elements further on."""
    found: list[Node] = []
    for node in nodes:
        match node:
            case Issue(_, operands):
                places = tuple(
                    (n, replace(r, offset=r.offset + by))
                    if isinstance(r, MemoryRef) and r.buffer == array
                    else (n, r)
                    for n, r in operands
                )
                found.append(replace(node, operands=places))
            case For(body=body) | If(body=body) | Block(body=body) | Parallel(body=body):
                found.append(replace(node, body=moved(body, array, by)))
            case _:
                found.append(node)
    return tuple(found)


def test_a_program_touches_nothing_beside_its_tensors() -> None:
    assert check_touched(*lowered()) == ()
    assert check_touched(*lowered(), every_iteration=True) == ()


@pytest.mark.parametrize("array", ["X", "Y"])
@pytest.mark.parametrize("by", [-1, 1])
def test_places_one_element_away_are_noticed_at_the_ends_of_rows(array: str, by: int) -> None:
    program, machine = lowered()
    changed = replace(program, body=moved(program.body, array, by))
    for every_iteration in (False, True):
        found = check_touched(changed, machine, every_iteration=every_iteration)
        assert found
        assert all(f" {array}, 5 x 19 elements, at " in said for said in found)


def test_a_mask_that_is_too_long_is_noticed_between_rows() -> None:
    """Behind all rows but the last there is memory; it is the tensor's only where rows follow each other."""
    program, machine = lowered()
    shorter = tuple(
        replace(t, shape=(t.shape[0], Index.of(18))) if t.name == "X" else t for t in program.tensors
    )
    assert any("X, 5 x 18" in said for said in check_touched(replace(program, tensors=shorter), machine))


def touched(text: str, **params: int) -> dict[str, tuple[tuple[int, ...], ...]]:
    return dict(touched_elements(instruction(text).instruction, tuple(params.items())))


def test_what_is_read_is_what_statements_read() -> None:
    found = touched("""instruction first() {
      in a: f32[8] @ mem; out z: f32[4] @ reg;
      for i in 4 { z[i] = a[2*i]; }
    }""")
    assert found == {"a": ((0,), (6,)), "z": ((0,), (3,))}


def test_a_broadcast_of_two_reads_both() -> None:
    found = touched("""instruction twice() {
      in a: bf16[2] @ mem; out z: bf16[8] @ reg;
      for i in 4, p in 2 { z[2*i + p] = a[p]; }
    }""")
    assert found["a"] == ((0,), (1,))


def test_a_masked_load_reads_what_its_mask_says() -> None:
    text = """instruction masked(scalar B: 0..8) {
      in a: f32[B] @ mem; out z: f32[8] @ reg outside zero;
      for i in B { z[i] = a[i]; }
    }"""
    assert touched(text, B=3)["a"] == ((0,), (2,))
    assert touched(text, B=0)["a"] == ()


def test_an_output_that_is_zero_elsewhere_is_written_as_a_whole() -> None:
    found = touched(
        """instruction zeroing(scalar B: 1..8) {
      in a: f32[8] @ reg; out z: f32[8] @ mem outside zero;
      for i in B { z[i] = a[i]; }
    }""",
        B=3,
    )
    assert found["z"] == ((0,), (7,))


def test_what_a_fill_stands_for_is_not_read() -> None:
    text = """instruction filled() {
      in a: f32[6] @ mem; out z: f32[8] @ reg;
      for i in 8 { z[i] = a[i - 1] else 0; }
    }"""
    assert touched(text)["a"] == ((0,), (5,))
