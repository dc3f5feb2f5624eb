"""Prefetches: what the judge refuses, and that every hint names an element that exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from plan_problems import answer, gemm

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request, Size
from isamap.emit.c import EmittedC
from isamap.kernels import kernel_path
from isamap.lower.program import Block, For, Hint, If, Node
from isamap.machine import line_hints, load_machine
from isamap.plan.check import check_schedule
from isamap.plan.schedule import Prefetch
from isamap.plan.text import parse_schedule, print_schedule
from isamap.source import Source

GEMM = replace(gemm(1024, 1024, 1024), hinted=("l1", "l2"))
WORDS = "n:512 k:256 m:6 n:64 | k:1 um:1 un:16"
HEAD = """isamap schedule 1
kernel {kernel}
machine {machine}
sizes K = {K}, M = {M}, N = {N}
status MANUAL

nest 0 {{
  map {mapping};
"""
COPIED = """  for n by 48 {
    prefetch b ahead 1 into l2;
    stage b;
    for m by 4 {
      prefetch a ahead 2 into l1;
      prefetch c ahead 1 into l2;
      for n by 16 {
        prefetch b ahead 1 into l1;
        prefetch c ahead 1 into l1;
        hold;
        for k by 1 {
          unroll m by 1 {
            unroll n by 8 {
              issue;
            }
          }
        }
      }
    }
  }
}
"""
FOLLOWING = """  for k by 4 {
    prefetch b ahead 1 into l2;
    for n by 32 {
      for m by 1 {
        hold;
        unroll k by 1 {
          unroll n by 8 {
            issue;
          }
        }
      }
    }
  }
}
"""
SHORT = """  for k by 2 {
    for n by 8 {
      prefetch b ahead 1 into l2;
      for m by 1 {
        hold;
        for k by 1 {
          issue;
        }
      }
    }
  }
}
"""
SHARED = """  for k by 8 {
    for n by 48 {
      prefetch b ahead 2 into l2;
      for m by 1 {
        hold;
        for k by 1 {
          unroll n by 8 {
            issue;
          }
        }
      }
    }
  }
}
"""
ALONG = """  for m by 1 {
    for n by 4 {
      prefetch b ahead 1 into l1;
      hold;
      for k by 16 {
        unroll n by 1 {
          issue;
        }
      }
    }
  }
}
"""
PAIRED = """  stage c;
  for k by 6 {
    for n by 32 {
      prefetch b ahead 1 into l2;
      for m by 1 {
        hold;
        for k by 2 {
          unroll n by 16 {
            issue;
          }
        }
      }
    }
  }
}
"""
# What is not the product of f32 with AVX2: by what its loops need.
OTHERS = {
    ALONG: ("gemm_nt_f32", "x86-avx512", "fma_zmm_f32 { i: k } (a = A[m, k], b = B[n, k])"),
    PAIRED: ("gemm_bf16", "x86-avx512-bf16", "dpbf16_zmm { i: n, p: k } (a = A[m, k], b = B[k, n])"),
}
Comparison = {"<": int.__lt__, "<=": int.__le__, "==": int.__eq__}


def compiled(sizes: dict[str, Size], loops: str = COPIED, model: bool = False) -> Compilation:
    """Return a product with these loops, by an instruction that has them."""
    product = "gemm_f32", "x86-avx2", "fma_ymm_f32 { i: n } (a = A[m, k], b = B[k, n])"
    kernel, machine, mapping = OTHERS.get(loops, product)
    source = Source(f"{kernel}.ir", kernel_path(kernel).read_text())
    text = HEAD.format(kernel=kernel, machine=machine, mapping=mapping, **sizes) + loops
    request = Request(source, machine, sizes, schedule=Source("s.schedule", text), model=model)
    return compile_kernel(request)


def hints(nodes: tuple[Node, ...], env: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the array and element that each hint names when the program runs."""
    for node in nodes:
        match node:
            case Hint(_, _, place):
                yield place.buffer, place.offset.evaluate(env)
            case For(variable, trips, body):
                for iteration in range(trips.evaluate(env)):
                    yield from hints(body, {**env, variable: iteration})
            case If(conditions, body):
                if all(Comparison[c](a.evaluate(env), b.evaluate(env)) for a, c, b in conditions):
                    yield from hints(body, env)
            case Block(_, body):
                yield from hints(body, env)
            case _:
                pass


@pytest.mark.parametrize("run_time", [False, True])
@pytest.mark.parametrize(
    "actual", [{"M": 24, "N": 96, "K": 32}, {"M": 23, "N": 101, "K": 17}, {"M": 3, "N": 5, "K": 1}]
)
def test_every_hint_names_an_element_that_exists(actual: dict[str, int], run_time: bool) -> None:
    sizes: dict[str, Size] = dict.fromkeys("MNK", "1..256@100") if run_time else {**actual}
    made = compiled(sizes)
    assert made.program
    env = {**actual, "A.s0": actual["K"], "B.s0": actual["N"], "C.s0": actual["N"]}
    lengths = {t.name: t.shape[0].evaluate(env) * t.shape[1].evaluate(env) for t in made.program.tensors}
    lengths |= {b.name: b.elements.evaluate(env) for b in made.program.buffers}
    found = list(hints(made.program.body, env))
    assert all(0 <= element < lengths[name] for name, element in found)
    if actual["N"] > 48:
        assert {"A", "B", "C"} < {name for name, _ in found}


def test_all_lines_of_the_next_rows_are_named_once_per_turn() -> None:
    """Rows 4 .. 7 of A hold 32 f32 each: two lines a row, named by its end two iterations before."""
    made = compiled({"M": 24, "N": 48, "K": 32})
    assert made.program
    env = {"A.s0": 32, "B.s0": 48, "C.s0": 48}
    named = sorted(element for name, element in hints(made.program.body, env) if name == "A")
    assert named == [32 * row + 16 * line + 15 for row in range(8, 24) for line in range(2)]


@pytest.mark.parametrize("run_time", [False, True])
def test_rows_are_asked_for_side_by_side_where_the_loop_inside_goes_along_them(run_time: bool) -> None:
    """Iteration n of each four rows of B asks for 32 columns of the next four, where it will read them; of
    rows whose length the run says, for one of the next four rows.
    """
    sizes: dict[str, Size] = {"M": 1, "N": "16..256@96" if run_time else 96, "K": 8}
    made = compiled(sizes, FOLLOWING)
    assert made.program
    found = list(hints(made.program.body, {"M": 1, "N": 96, "K": 8, "A.s0": 8, "B.s0": 96, "C.s0": 96}))
    places = [(row, line) for line in range(6) for row in range(4, 8)]
    if run_time:
        assert sorted(found) == sorted(("B", 96 * row + 16 * line + 15) for row, line in places)
    else:
        assert found == [("B", 96 * row + 16 * line + 15) for row, line in places]


def test_pieces_that_register_blocks_share_are_asked_for_row_by_row_in_their_turns() -> None:
    """Three lines of each of eight rows, two iterations later: a line for each of the first register blocks,
    of which each iteration asks for its own row's.
    """
    made = compiled({"M": 4, "N": 240, "K": 32}, SHARED)
    assert made.program
    env = {"A.s0": 32, "B.s0": 240, "C.s0": 240}
    named = [element for name, element in hints(made.program.body, env) if name == "B"]
    assert named[:24] == [240 * row + 96 + 16 * line + 15 for line in range(3) for row in range(8)]
    ends = [240 * row + 16 * line + 15 for row in range(32) for line in range(6, 15)]
    assert sorted(named) == ends, "each line once"


@pytest.mark.parametrize("rows", [1, 2, 3, 6])
def test_each_line_is_asked_for_however_many_register_blocks_share_them(rows: int) -> None:
    """The last iteration has ten columns, the last block of the sum three rows: lines that a short one lacks
    are named by its first column.
    """
    made = compiled({"M": rows, "N": 202, "K": 11}, SHARED)
    assert made.program
    env = {"A.s0": 11, "B.s0": 202, "C.s0": 202}
    named = [element for name, element in hints(made.program.body, env) if name == "B"]
    whole = [202 * row + 16 * line + 15 for row in range(11) for line in range(6, 12)]
    cut = [202 * row + column for row in range(11) for column in (192, 201)]
    assert {*named} == {*whole, *cut}
    assert len(named) == 11 * (6 + 3)


@pytest.mark.parametrize("known", ["", "M", "MN", "MNK"])
def test_each_line_is_asked_for_whichever_lengths_the_run_says(known: str) -> None:
    actual = {"M": 3, "N": 202, "K": 11}
    sizes: dict[str, Size] = {axis: n if axis in known else "1..256@100" for axis, n in actual.items()}
    made = compiled(sizes, SHARED)
    assert made.program
    env = {**actual, "A.s0": 11, "B.s0": 202, "C.s0": 202}
    named = {element for name, element in hints(made.program.body, env) if name == "B"}
    whole = {202 * row + 16 * line + 15 for row in range(11) for line in range(6, 12)}
    assert whole < named < set(range(96, 11 * 202))
    assert {202 * row + 201 for row in range(11)} < named, "the last turn is cut short"


def test_register_blocks_that_outnumber_the_lines_of_a_row_share_its_rows() -> None:
    """Six blocks have three lines of each of eight rows: each has one line of every other row."""
    made = compiled({"M": 6, "N": 240, "K": 32}, SHARED)
    assert made.program
    found = list(hints(made.program.body, {"A.s0": 32, "B.s0": 240, "C.s0": 240}))
    named = [element for name, element in found if name == "B"]
    shares = [(row, m % 3) for m in range(6) for row in range(m // 3, 8, 2)]
    assert named[:24] == [240 * row + 96 + 16 * line + 15 for row, line in shares]


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_turns_of_several_rows_ask_for_those_that_there_are(rows: int) -> None:
    """Two rows an iteration, six a block, nine in all: the last one has one row, and names its line twice."""
    made = compiled({"M": rows, "N": 96, "K": 9}, PAIRED)
    assert made.program
    env = {"A.s0": 9, "B.s0": 96, "C.s0": 96}
    named = sorted(element for name, element in hints(made.program.body, env) if name == "B")
    ends = [96 * row + 32 * iteration + 31 for row in range(9) for iteration in (1, 2)]
    assert named == sorted([*ends, *ends[-2:]])


def test_of_a_piece_shorter_than_a_line_the_line_is_named_that_it_ends_in() -> None:
    """Pieces of eight columns of rows of 20: one ends in a line that the one before has not touched."""
    made = compiled({"M": 1, "N": 20, "K": 2}, SHORT)
    assert made.program
    found = list(hints(made.program.body, {"A.s0": 2, "B.s0": 20, "C.s0": 20}))
    assert found == [("B", 20 * row + last) for last in (15, 19) for row in range(2)]


def test_rows_along_a_sum_are_asked_for_one_after_the_other() -> None:
    """Each iteration of the sum over four rows of B[n, k] asks for one of the next four."""
    sizes: dict[str, Size] = {"M": 1, "N": 8, "K": 64}
    made = compiled(sizes, ALONG)
    assert made.program
    found = list(hints(made.program.body, {"A.s0": 64, "B.s0": 64, "C.s0": 8}))
    assert found == [("B", 64 * row + 16 * line + 15) for row in range(4, 8) for line in range(4)]


def test_a_machine_says_what_its_hints_bring_where() -> None:
    found = line_hints(load_machine("x86-avx512"))
    assert {cache: (hint.item.name, hint.line_bytes) for cache, hint in found.items()} == {
        "l1": ("prefetch_l1", 64),
        "l2": ("prefetch_l2", 64),
    }
    assert not line_hints(load_machine("generic-c"))
    assert "prefetch_l1" not in load_machine("x86-avx512").instructions


def test_a_model_names_the_place_only() -> None:
    sizes: dict[str, Size] = {"M": 24, "N": 96, "K": 32}
    made = compiled(sizes, model=True)
    assert isinstance(made.emitted, EmittedC)
    assert "_mm_prefetch" not in made.emitted.source
    assert "/* prefetch_l2 */" in made.emitted.source
    native = compiled(sizes)
    assert isinstance(native.emitted, EmittedC)
    assert "_mm_prefetch((char const *)" in native.emitted.source


@pytest.mark.parametrize(
    ("prefetch", "said"),
    [
        (Prefetch("a", 3, 1, "l2"), ""),
        (
            Prefetch("a", 3, 1, "l3"),
            (
                "`prefetch a ahead 1 into l3;`: the machine has no instruction that brings memory into `l3`\n"
                "  note: it has for l1, l2"
            ),
        ),
        (
            Prefetch("a", 1, 2, "l2"),
            (
                "`prefetch a ahead 2 into l2;` is directly inside `for n by 512`, "
                "whose next iteration accesses the same elements of `A`\n"
                "  help: put it directly inside a `for` loop over m or k"
            ),
        ),
        (
            Prefetch("b", 0, 1, "l2"),
            (
                "`prefetch b ahead 1 into l2;` is not directly inside a loop\n"
                "  help: put it directly inside a `for` loop over k or n"
            ),
        ),
        (Prefetch("a", 5, 1, "l1"), ""),
    ],
)
def test_a_prefetch_without_a_next_turn_is_refused(prefetch: Prefetch, said: str) -> None:
    made = answer(GEMM, WORDS)
    made = replace(made, nests=(replace(made.nests[0], prefetches=(prefetch,)),))
    prefix = "error[schedule-overlap]: nest 0: " if said else ""
    assert "\n".join(finding.render() for finding in check_schedule(made, GEMM)) == prefix + said
    assert parse_schedule(Source("s", print_schedule(made))) == made


def test_an_operand_that_does_not_exist_is_named() -> None:
    made = answer(GEMM, WORDS)
    made = replace(made, nests=(replace(made.nests[0], prefetches=(Prefetch("d", 3, 1, "l1"),)),))
    assert [finding.message for finding in check_schedule(made, GEMM)] == ["nest 0: there is no operand `d`"]
