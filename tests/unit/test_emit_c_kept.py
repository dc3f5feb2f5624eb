"""Vectors that several instructions use are read from memory once, whatever compilers think is cheaper."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from unit.rewriting import shipped

from isamap.driver.compiling import compile_program
from isamap.driver.request import Request
from isamap.emit.c import EmittedC, emit_c
from isamap.emit.c_body import READ_BY_EACH, find_shared_values, last_uses, read_as_it_lies, sum_name
from isamap.emit.c_build import COMMON_FLAGS, COMPILER_FLAGS
from isamap.formulate.build import build_problem
from isamap.ir import F32, Index, bind
from isamap.kernels import kernel_path
from isamap.lower.passes import lower
from isamap.lower.program import Declare, Issue, MemoryRef, RegisterRef, Value
from isamap.machine import Machine, load_machine
from isamap.scheduler import schedule
from isamap.source import Source
from isamap.transform import make_guards_explicit

MACHINE = load_machine("x86-avx2")
SWEPT = """isamap schedule 1
kernel gemm_f32
machine x86-avx2
sizes {sizes}

nest 0 {{
  map fma_ymm_f32 {{ i: n }} (a = A[m, k], b = B[k, n]);
  for k by 8 {{
    for n by 16 {{
      for m by {rows} {{
        hold;
        unroll k by 1 {{ unroll m by 1 {{ unroll n by 8 {{ issue; }} }} }}
      }}
    }}
  }}
}}
"""


def load(value: str) -> Issue:
    at = MemoryRef("B", Index.of("k"))
    return Issue("load_ymm_f32", (("a", at), ("z", RegisterRef(value))))


def fma(a: str, b: str, c: str) -> Issue:
    named = (("a", a), ("b", b), ("c", c))
    return Issue("fma_ymm_f32", tuple((name, RegisterRef(value)) for name, value in named))


def test_what_two_instructions_use_is_shared_and_what_one_uses_is_not() -> None:
    body = (load("v0"), load("v1"), load("v2"), fma("v0", "v1", "s0"), fma("v0", "v2", "s1"))
    assert find_shared_values(body, MACHINE) == {"v0"}


@pytest.mark.parametrize("uses", [2, 3, 4])
def test_what_two_or_three_read_whose_sums_begin_there_is_read_by_each(uses: int) -> None:
    sums = [f"s{number}" for number in range(uses)]
    here = Declare(tuple(Value(name, "ymm", F32, (8,)) for name in ("v0", "v1", *sums)))
    work = (load("v0"), *(fma("a", "v0", name) for name in sums))
    begun = tuple(load(name) for name in sums)
    assert ("v0" in find_shared_values((here, *begun, *work), MACHINE)) == (uses > READ_BY_EACH)
    elsewhere = Declare(here.values[:2])
    assert "v0" in find_shared_values((elsewhere, *work), MACHINE), (
        "a loop inside goes on with sums from outside"
    )
    assert last_uses((elsewhere, *work), MACHINE).get("v0") == 1 + uses
    assert ("v0" in last_uses((here, *begun, *work), MACHINE)) == (uses > READ_BY_EACH)


def test_a_load_says_which_value_it_reads_wherever_its_uses_stand() -> None:
    assert read_as_it_lies(load("v0"), MACHINE) == "v0"
    assert read_as_it_lies(fma("v0", "v1", "s0"), MACHINE) is None


def test_what_is_broadcast_or_stored_is_not_read_as_it_lies() -> None:
    at = MemoryRef("A", Index.of("k"))
    for name, operands in (
        ("broadcast_ymm_f32", (("a", at), ("z", RegisterRef("v0")))),
        ("store_ymm_f32", (("a", RegisterRef("v0")), ("z", at))),
    ):
        assert read_as_it_lies(Issue(name, operands), MACHINE) is None


def test_the_last_use_is_said_of_what_several_read_and_not_of_sums() -> None:
    body = (load("v0"), load("v1"), fma("v0", "v1", "s0"), fma("v0", "v2", "s1"), fma("v3", "v1", "s0"))
    assert find_shared_values(body, MACHINE) == {"v0", "v1", "s0"}
    assert last_uses(body, MACHINE) == {"v0": 3, "v1": 4}


def test_what_an_instruction_adds_to_is_its_sum() -> None:
    assert sum_name(fma("v0", "v1", "s0"), MACHINE) == "s0"
    assert sum_name(load("v0"), MACHINE) is None


def emitted(machine: str, fixed: Mapping[str, int], *, model: bool = False) -> str:
    path = kernel_path("gemm_f32")
    sizes = {"M": 64, "N": 64, "K": 64}
    request = Request(Source(path.name, path.read_text()), machine, sizes, fixed=fixed, model=model)
    compilation = compile_program(request).compilation
    assert isinstance(compilation.emitted, EmittedC)
    return compilation.emitted.source


def innermost(source: str) -> str:
    """Return the body of the first loop without a loop that holds sums."""
    return next(body for body in re.findall(r"\{([^{}]*)\}", source) if "_fmadd_" in body)


@pytest.mark.parametrize("rows", [2, 3])
def test_each_vector_of_a_block_of_few_rows_is_kept_where_it_is_read(rows: int) -> None:
    blocks = {"nest0.unroll.m": rows, "nest0.unroll.n": 4, "nest0.stage.b": 0, "nest0.stage.a": 0}
    body = innermost(emitted("x86-avx2", blocks))
    loaded = re.findall(r"(v\d+) = _mm256_loadu_ps\([^;]*\);\n +READ_ONCE\(\1\);", body)
    assert len(loaded) == 4
    assert len(re.findall(r"_mm256_loadu_ps", body)) == 4


@pytest.mark.parametrize(("rows", "kept"), [(2, False), (3, False), (4, True)])
def test_rows_that_are_followed_are_read_where_they_are_multiplied(rows: int, kept: bool) -> None:
    path, sizes = kernel_path("gemm_f32"), {"M": rows, "N": 256, "K": 64}
    head = ", ".join(f"{name} = {sizes[name]}" for name in sorted(sizes))
    text = SWEPT.format(sizes=head, rows=rows)
    request = Request(Source(path.name, path.read_text()), "x86-avx2", sizes, schedule=Source("s", text))
    compilation = compile_program(request).compilation
    assert isinstance(compilation.emitted, EmittedC)
    body = innermost(compilation.emitted.source)
    loaded = re.findall(r"(v\d+) = _mm256_loadu_ps\(B[^;]*\);\n", body)
    assert len(loaded) == 2 * 8
    told = re.findall(r"READ_ONCE\((v\d+)\);", body)
    assert [value in told for value in loaded] == [kept] * len(loaded)


def test_operands_are_used_to_the_end_so_that_sums_stay() -> None:
    blocks = {"nest0.unroll.m": 3, "nest0.unroll.n": 2, "nest0.stage.b": 0, "nest0.stage.a": 0}
    body = innermost(emitted("x86-avx2", blocks))
    ended = re.findall(r"(v\d+) = _mm256_fmadd_ps\((v\d+), (v\d+), \1\);\n +LAST_USE\((v\d+), \1\);", body)
    assert ended
    assert all(value in (a, b) for _, a, b, value in ended)
    values = re.findall(r"LAST_USE\((v\d+), v\d+\);", body)
    read = re.findall(r"(v\d+) = _mm256_(?:loadu|set1)_ps", body)
    assert sorted(values) == sorted(read)  # three numbers and two vectors an iteration
    after = {value: body.split(f"LAST_USE({value},")[1] for value in values}
    assert not [value for value, rest in after.items() if re.search(rf"\b{value}\b", rest)]


def test_a_block_of_one_row_reads_where_it_multiplies() -> None:
    blocks = {"nest0.unroll.m": 1, "nest0.unroll.n": 8, "nest0.stage.b": 0, "nest0.stage.a": 0}
    body = innermost(emitted("x86-avx2", blocks))
    assert len(re.findall("_mm256_set1_ps", body)) == 1
    assert "READ_ONCE" not in body


def inner_loops(emitted: EmittedC, machine: Machine, folder: Path) -> list[str]:
    """Return the loops without a loop inside that gcc makes of a program, in its assembly."""
    for name, written in ((f"{emitted.name}.c", emitted.source), (f"{emitted.name}.h", emitted.header)):
        (folder / name).write_text(written)
    flags = (*machine.target.flags, *COMMON_FLAGS, *COMPILER_FLAGS["gcc"])
    command = ["gcc", *flags, "-S", "-o", "-", f"{emitted.name}.c"]
    assembly = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    loops = re.findall(r"^(\.L\d+):\n((?:(?!\.L\d+:).*\n)*?\tj\w+\t\1\n)", assembly, re.MULTILINE)
    return [body for _, body in loops]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc alone puts loads into another order")
def test_rows_that_are_followed_are_read_line_by_line_and_row_by_row(tmp_path: Path) -> None:
    path, sizes = kernel_path("gemm_f32"), {"M": 1, "N": 128, "K": 64}
    head = ", ".join(f"{name} = {sizes[name]}" for name in sorted(sizes))
    text = SWEPT.format(sizes=head, rows=1).replace(
        "unroll m by 1 { unroll n by 8 { issue; } }", "unroll n by 8 { issue; }"
    )
    request = Request(Source(path.name, path.read_text()), "x86-avx2", sizes, schedule=Source("s", text))
    emitted = compile_program(request).emitted
    found: list[list[int]] = []
    for body in inner_loops(emitted, MACHINE, tmp_path):
        reads = re.findall(r"\tv(?:movups|fmadd\w+)\t(\d*)\((%r\w+)\), .*%ymm", body)
        # One of the two versions knows how far apart rows lie: all are read from one register there.
        rows = {register for at, register in reads if int(at or 0) >= 512}
        found += [[int(at or 0) for at, base in reads if base == register] for register in rows]
    assert found == [[512 * row + 32 * vector for row in range(8) for vector in range(2)]]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc alone has two types for a sum of integers")
def test_sums_of_integers_along_lanes_stay_in_registers(tmp_path: Path) -> None:
    machine, sizes = load_machine("x86-avx512-vnni"), {"M": 32, "N": 96, "K": 2560}
    kernel = make_guards_explicit(bind(shipped("gemm_nt_u8s8"), sizes))
    problem = build_problem(kernel, machine, sizes)
    names = [option.mapping.split(" (")[0] for option in problem.nests[0].options]
    number = names.index("dpbusd_ymm { i: k, p: k }")
    fixed = {"nest0.mapping": number, "nest0.unroll.m": 8, "nest0.unroll.n": 3}
    made = schedule(problem, heuristic="greedy", fixed=fixed)
    emitted = emit_c(lower(kernel, machine, made, sizes), machine)
    sums = [body for body in inner_loops(emitted, machine, tmp_path) if body.count("vpdpbusd") >= 24]
    assert sums
    assert not [body for body in sums if re.search(r"vmov\w+\t%[xyz]mm\d+, .*\(%r[sb]p\)", body)]


@pytest.mark.parametrize("helper", ["READ_ONCE", "LAST_USE", "ONE_SUM"])
def test_numbers_and_models_are_left_to_the_compiler(helper: str) -> None:
    assert helper not in emitted("generic-c", {})
    assert helper not in emitted("x86-avx2", {}, model=True)
