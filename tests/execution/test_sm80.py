"""Kernels for warps and warp groups of NVIDIA's GPUs: right as a model, and compiled to the instructions meant.

No GPU is needed. Without nvcc, which CUDA's toolkit and `nvidia-cuda-nvcc-cu12` have, nothing is compiled.
"""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.printers import emit_artifact
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.emit.c_interface import STATUSES
from isamap.emit.lanes import emit_lanes, print_kernels
from isamap.ir import Loop
from isamap.lower.barrier_check import check_barriers
from isamap.lower.program import ProductGroup
from isamap.lower.walk import rewrite, walk
from isamap.machine import load_machine
from isamap.machine.allowed import devices, headers
from isamap.match.operand_loads.lane_accesses import lane_accesses
from isamap.plan.check.judge import predict_registers
from isamap.plan.problem import chosen_options
from isamap.run.fills import make_arrays
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import Source, UsageProblem
from isamap.source.records import replace
from tests.device_kernels import KERNELS, print_files, product, shipped, without_vector_products

SM80, GROUPS = "nvidia-sm80", "nvidia-sm90-wgmma"
ODD = {"M": 19, "N": 35, "K": 41}
ROUNDED = Source(
    "rounded.ir",
    """kernel product(M, N, K) { in A: f32[M, K]; in B: f32[N, K]; inout C: f32[M, N];
  for m in M, n in N, k in K { C[m, n] += f32(tf32(A[m, k])) * f32(tf32(B[n, k])); } }""",
)
PRODUCTS = {
    "f16": product("f16", "f32"),
    "bf16": product("bf16", "f32", transposed=True),
    "tf32": product("tf32", "f32", is_aligned=True),
    "rounded": ROUNDED,
    "bytes": product("i8", "i32"),
}
MATRIX = {
    "f16": "HMMA.16816.F32",
    "bf16": "HMMA.16816.F32.BF16",
    "tf32": "HMMA.1688.F32.TF32",
    "rounded": "HMMA.1688.F32.TF32",
    "bytes": "IMMA.16832.S8.S8",
}
OF_GROUPS = {
    "f16": product("f16", "f32", transposed=True, is_aligned=True),
    "bf16": product("bf16", "f32", transposed=True, is_aligned=True),
    "rows of any length": product("f16", "f32"),
    "bytes": product("i8", "i32", transposed=True),
}

needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None, reason="needs nvcc: nothing is compiled for sm_80"
)


@pytest.mark.parametrize("name", PRODUCTS)
def test_lanes_of_a_warp_compute_products_together(name: str, tmp_path: Path) -> None:
    described = without_vector_products(SM80, tmp_path)
    parallel = {"nest0.parallel.m": 2, "nest0.parallel.n": 2}
    sizes = {**ODD, "N": 36, "K": 44} if name == "tf32" else ODD  # rows of 16 bytes
    prepared = prepare(Request(PRODUCTS[name], described, sizes, heuristic="greedy", fixed=parallel))
    assert prepared.ran_on == "model"
    for fill in ("integers", "random"):
        found = verify_case(prepared, sizes, fill)
        assert found.ok, found.problems


@needs_nvcc
@pytest.mark.parametrize("name", PRODUCTS)
def test_nvcc_makes_matrix_instructions_of_kernels_without_spills(name: str, tmp_path: Path) -> None:
    sizes = {"M": 64, "N": 64, "K": 64}
    files = print_files(PRODUCTS[name], without_vector_products(SM80, tmp_path), sizes)
    said = compiled(files["source"], json.loads(files["plan"])["compile"], tmp_path)
    assert re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", said) == [("0", "0")]
    registers, shared = re.findall(r"Used (\d+) registers.* (\d+) bytes smem", said)[0]
    assert int(registers) <= 255
    assert int(shared) == declared_bytes(files["source"]), "what the program stages"
    listed = made_of(tmp_path)
    calls = called(files["source"])
    assert listed[MATRIX[name]] >= calls["mma"] > 0, listed
    assert listed["LDSM"] >= calls["ldmatrix"], listed


@needs_nvcc
def test_nvcc_compiles_for_the_capability_with_less_memory_in_a_block(tmp_path: Path) -> None:
    """A launch on a GPU of capability 8.6 or 8.9 may reserve 99 KiB, where one on an A100 may reserve 163."""
    machine, other = load_machine("nvidia-sm86"), load_machine(SM80)
    assert machine.instructions.keys() == other.instructions.keys()
    assert (machine.memories["shared"].capacity_bytes, other.memories["shared"].capacity_bytes) == (
        99 << 10,
        163 << 10,
    )
    fixed: dict[str, Any] = {"nest0.parallel.m": 2, "nest0.parallel.n": 2, "nest0.block.k": 64}
    files = print_files(PRODUCTS["bytes"], "nvidia-sm86", {"M": 64, "N": 64, "K": 64}, **fixed)
    command = json.loads(files["plan"])["compile"]
    assert "-arch=sm_86" in command
    said = compiled(files["source"], command, tmp_path)
    assert re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", said) == [("0", "0")]
    assert "sm_86" in said


@needs_nvcc
@pytest.mark.parametrize("name", ["softmax", "batched"])
def test_registers_are_as_predicted(name: str, tmp_path: Path) -> None:
    """nvcc unrolled the loops of a softmax, which took 86 registers where 28 are predicted."""
    kernel, sizes = KERNELS[name]
    source = shipped(kernel) if isinstance(kernel, str) else kernel
    made = compile_kernel(Request(source, SM80, dict(sizes), heuristic="greedy"))
    assert made.problem is not None
    assert made.schedule is not None
    assert made.program is not None
    assert made.machine is not None
    predicted = max(
        predict_registers(nest, option, made.problem)
        for nest, option in chosen_options(made.schedule, made.problem)
    )
    printed = print_kernels(made.program, made.machine)
    said = compiled(printed.source, json.loads(printed.plan)["compile"], tmp_path)
    reported = max(map(int, re.findall(r"Used (\d+) registers", said)))
    assert predicted == pytest.approx(reported, rel=0.15)


TWO_GROUPS = """isamap schedule 1
kernel product
machine nvidia-sm90-wgmma
sizes K = 40, M = 131, N = 72
status MANUAL
nest 0 {
  map wgmma_64_f16 { i: m, j: n, k: k } (a = A[m, k], b = B[n, k]);
  choose group.m = 2;
  par m by 128 { par n by 64 { for k by 64 {
    stage a in shared at 0; stage b in shared at 16384;
    hold;
    issue;
  } } }
}
"""


def in_flight(columns: int, copies: str, sizes: Mapping[str, int]) -> Source:
    """Return a schedule with the sums of so many columns in registers, and copies for other iterations."""
    known = ", ".join(f"{name} = {sizes[name]}" for name in sorted(sizes))
    text = TWO_GROUPS.replace("K = 40, M = 131, N = 72", known).replace("wgmma_64", f"wgmma_{columns}")
    text = text.replace("par n by 64 {", f"par n by {columns} {{ hold;").replace("    hold;\n", "")
    text = text.replace("stage a in", f"stage a {copies} in").replace("stage b in", f"stage b {copies} in")
    return Source("given", text.replace("at 16384", "at 131072"))


@pytest.mark.parametrize("name", OF_GROUPS)
def test_groups_of_warps_multiply_tiles_in_the_memory_of_a_block(name: str) -> None:
    sizes = {"M": 131, "N": 72, "K": 40}
    given = Source("given", TWO_GROUPS) if name == "f16" else None
    prepared = prepare(Request(OF_GROUPS[name], GROUPS, sizes, schedule=given, heuristic="greedy"))
    assert given is None or "block_lane % 128" in prepared.program.emitted.source, "two groups of 128 lanes"
    for fill in ("integers", "random"):
        found = verify_case(prepared, sizes, fill)
        assert found.ok, found.problems


def test_a_device_whose_prelude_lacks_a_word_is_refused() -> None:
    """The prelude of sm_80 has no groups of products and no swizzle: its compiler would name an unknown function."""
    sizes = {"M": 131, "N": 72, "K": 40}
    made = compile_kernel(
        Request(OF_GROUPS["f16"], GROUPS, sizes, schedule=Source("given", TWO_GROUPS), heuristic="greedy")
    )
    assert made.program is not None
    assert made.machine is not None
    other = replace(made.machine, target=replace(made.machine.target, features=("sm_80",)))
    with pytest.raises(UsageProblem, match="the prelude of the device defines no `PRODUCTS_END`"):
        emit_artifact(made.program, other, "kernels")


@pytest.mark.parametrize(
    ("columns", "copies"), [(64, "ahead 2 behind 1"), (128, "ahead 1 behind 2"), (256, "ahead 2")]
)
def test_products_of_each_width_are_right_at_odd_sizes(columns: int, copies: str) -> None:
    sizes = {"M": 131, "N": columns + 9, "K": 200}
    prepared = prepare(Request(OF_GROUPS["f16"], GROUPS, sizes, schedule=in_flight(columns, copies, sizes)))
    found = verify_case(prepared, sizes, "random")
    assert found.ok, found.problems


def test_descriptors_state_where_the_description_places_operands(tmp_path: Path) -> None:
    """The layout of a descriptor is computed here as the PTX ISA has it: K-major, swizzle of 128 bytes."""
    texts = "".join(headers()[text].text for text in ("sm_80.h", "sm_90a.h"))
    own = [
        re.findall(rf"static inline \w+ {name}\((?:[^\n]*}}\n|.*?\n}})", texts, re.DOTALL)[0]
        for name in ("shared_address", "matrix_descriptor", "swizzled")
    ]
    library = loaded("\n".join(("#define __cvta_generic_to_shared(at) ((uintptr_t)(at))", *own)), tmp_path)
    machine, tried = load_machine(GROUPS), 0
    for item in machine.instructions.values():
        for operand in item.instruction.operands if str(item.emit).startswith("wgmma") else ():
            if operand.memory != "shared":
                continue
            rows, columns = (extent.constant for extent in operand.shape)
            found = lane_accesses(item, machine, operand.name, (columns, 1), {})
            assert found is not None
            (loop,) = item.instruction.body
            assert isinstance(loop, Loop)
            shape = [axis.extent.constant for axis in loop.axes]
            row, column = np.indices(shape)[[0 if operand.name == "a" else 1, 2]].reshape(2, -1)
            at = 9 * 1024
            descriptor = library.matrix_descriptor(at)
            start, step = (descriptor & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
            assert (descriptor >> 62, descriptor >> 49 & 7, rows % 8) == (1, 0, 0)
            size = operand.dtype.size_bytes
            linear = start + column * size // 32 * 32 + row % 8 * 128 + row // 8 * step + column * size % 32
            assert np.array_equal(linear ^ (linear >> 7 & 7) << 4, at + found.addresses)
            assert [library.swizzled(int(place)) for place in linear[:99]] == (
                at + found.addresses[:99]
            ).tolist()
            tried += 1
    assert tried == 18, "two operands of three widths and three types"


def test_a_missing_wait_for_products_is_found_in_the_program_and_by_the_model() -> None:
    sizes = {"M": 128, "N": 64, "K": 192}
    made = compile_kernel(Request(OF_GROUPS["f16"], GROUPS, sizes, schedule=in_flight(64, "ahead 1", sizes)))
    assert made.program is not None
    assert made.machine is not None
    emitted = emit_lanes(made.program, made.machine, model=True)
    waits = [n for n in walk(made.program.body) if isinstance(n, ProductGroup) and n.in_flight is not None]
    places = [found.start() for found in re.finditer(r"PRODUCTS_WITHIN\(0\);", emitted.source)]
    assert len(waits) == len(places) == 2, (
        "before the barrier of an iteration, and before the sums are stored"
    )
    said = "read", "add"
    for wait, at, word in zip(waits, places, said, strict=True):
        body = rewrite(made.program.body, lambda node, wait=wait: () if node is wait else None)
        (found, *_) = check_barriers(replace(made.program, body=body), made.machine)
        assert re.search(f"products in flight {word}", found), found
        text = emitted.source[:at] + emitted.source[at:].replace("PRODUCTS_WITHIN(0);", "", 1)
        library = compile_library(replace(emitted, source=text), made.machine, model=True)
        result = run_program(library, make_arrays(made.program.kernel, "integers"), {})
        assert STATUSES[result.status][0] == "RACE"


def test_products_in_flight_read_copies_that_no_iteration_fills() -> None:
    sizes = {"M": 128, "N": 64, "K": 320}
    made = compile_kernel(
        Request(OF_GROUPS["f16"], GROUPS, sizes, schedule=in_flight(64, "ahead 1 behind 1", sizes))
    )
    assert made.program is not None
    assert made.machine is not None
    waits = [node.in_flight for node in walk(made.program.body) if isinstance(node, ProductGroup)]
    assert waits == [1, None, 0]
    later = rewrite(
        made.program.body, lambda node: (replace(node, in_flight=2),) if node == ProductGroup(1) else None
    )
    (found, *_) = check_barriers(replace(made.program, body=later), made.machine)
    assert "products in flight read" in found
    emitted = emit_lanes(made.program, made.machine, model=True)
    text = emitted.source.replace("PRODUCTS_WITHIN(1);", "PRODUCTS_WITHIN(2);")
    library = compile_library(replace(emitted, source=text), made.machine, model=True)
    result = run_program(library, make_arrays(made.program.kernel, "integers"), {})
    assert STATUSES[result.status][0] == "RACE"


@needs_nvcc
@pytest.mark.parametrize("name", OF_GROUPS)
def test_nvcc_makes_instructions_of_warp_groups_without_spills(name: str, tmp_path: Path) -> None:
    files = print_files(OF_GROUPS[name], GROUPS, {"M": 256, "N": 128, "K": 64})
    said = compiled(files["source"], json.loads(files["plan"])["compile"], tmp_path)
    assert re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", said) == [("0", "0")]
    assert sum(map(int, re.findall(r"(\d+) bytes smem", said))) == declared_bytes(files["source"])
    (columns,) = set(re.findall(r"^ +wgmma_m64n(\d+)k", files["source"], re.MULTILINE))
    wanted = f"HGMMA.64x{columns}x16.F32" + ".BF16" * (name == "bf16")
    wanted = f"IGMMA.64x{columns}x32.S8.S8" if name == "bytes" else wanted
    made = made_of(tmp_path)
    assert made[wanted] >= 4 * called(files["source"])["wgmma"] > 0, "four for each call"
    assert {word for word in made if "GMMA." in word} == {wanted}, "ptxas adds none to end a group"
    assert made["WARPGROUP.DEPBAR"] <= len(re.findall(r"^ +PRODUCTS_WITHIN", files["source"], re.MULTILINE))


@needs_nvcc
def test_nvcc_spills_nothing_where_barriers_stand_in_loops(tmp_path: Path) -> None:
    kernel, sizes = KERNELS["residual"]
    assert isinstance(kernel, str)
    files = print_files(shipped(kernel), SM80, sizes)
    said = compiled(files["source"], json.loads(files["plan"])["compile"], tmp_path)
    assert set(re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", said)) == {("0", "0")}


@needs_nvcc
def test_every_function_of_the_header_becomes_its_instruction(tmp_path: Path) -> None:
    device, header = devices()["sm_80"], headers()["sm_80.h"]
    kernel = """
__kernel void all(uint16_t *g, float *sums, int32_t *counts, int64_t rows) {
  OWN_OF_BLOCK(uint16_t, s, 1024);
  uint16_t a[8], b[4], t[4];
  float x[4], y[2];
  copy_async(g, 64, s, 32, rows, 2);
  BARRIER_WITHIN(1);
  BARRIER;
  ldmatrix_a(s, 32, a);
  ldmatrix_b(s, 32, b);
  ldmatrix_b_trans(s, 16, t);
  mma_m16n8k16_f16(a, b, sums);
  mma_m16n8k16_bf16(a, t, sums);
  ldmatrix_a_tf32(s, 32, x);
  ldmatrix_b_tf32(s, 32, y);
  mma_m16n8k8_tf32(x, y, sums);
  mma_m16n8k32_i8((const int8_t *)a, (const int8_t *)b, counts);
}
"""
    declared = set(re.findall(r"inline void (\w+)\(", header.text))
    assert declared == set(re.findall(r"\b([a-z]\w*)\(\w+, ", kernel)) | {"mma_m16n8k32_i8"}
    compiled("\n".join(("#define LANES 32", device.prelude, header.text, kernel)), device.compile, tmp_path)
    listed = made_of(tmp_path)
    assert all(listed[word] for word in (*MATRIX.values(), "LDGSTS")), listed
    assert listed["LDSM"] == 5


def test_every_call_of_the_descriptions_is_of_a_header() -> None:
    for names, texts in (((SM80,), ("sm_80.h",)), ((SM80, GROUPS), ("sm_80.h", "sm_90a.h"))):
        text = "".join(headers()[text].text for text in texts)
        declared = set(re.findall(r"inline void (\w+)\(", text)) - {"wgmma_"}
        declared |= {f"wgmma_{name}" for name in re.findall(r"^WGMMA\((\w+), \"", text, re.MULTILINE)}
        every = (item for name in names for item in load_machine(name).instructions.values())
        assert {str(item.emit).split("(")[0] for item in every} - {"semantics"} == declared


def loaded(source: str, folder: Path) -> ctypes.CDLL:
    """Return functions of a header, compiled for this processor."""
    text = "#include <stdint.h>\n" + source.replace("static inline", "extern")
    (folder / "header.c").write_text(text, encoding="utf-8")
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(folder / "header.so"), str(folder / "header.c")]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "header.so"))
    library.matrix_descriptor.argtypes, library.matrix_descriptor.restype = [ctypes.c_void_p], ctypes.c_uint64
    library.swizzled.argtypes, library.swizzled.restype = [ctypes.c_uint32], ctypes.c_uint32
    return library


@needs_nvcc
def test_two_groups_multiply_tiles_of_128_columns_in_flight_without_spills(tmp_path: Path) -> None:
    sizes = {"M": 256, "N": 256, "K": 512}
    files = print_files(OF_GROUPS["f16"], GROUPS, sizes, in_flight(128, "ahead 2 behind 1", sizes))
    plan = json.loads(files["plan"])
    said = compiled(files["source"], plan["compile"], tmp_path)
    assert re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", said) == [("0", "0")]
    assert plan["launches"][0]["reserved_bytes"] == 4 * 2 * (128 + 128) * 64
    made = made_of(tmp_path)
    assert (made["HGMMA.64x128x16.F32"], made["WARPGROUP.DEPBAR"]) == (4, 2)


def compiled(source: str, command: str, folder: Path) -> str:
    """Return what ptxas says of kernels, which are compiled to `kernels.cubin`."""
    (folder / "kernels.cu").write_text(source, encoding="utf-8")
    words = [*command.split(), "-Xptxas", "-v", "-diag-suppress", "177", "-Werror", "all-warnings"]
    words += ["-o", str(folder / "kernels.cubin"), str(folder / "kernels.cu")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def made_of(folder: Path) -> Counter[str]:
    """Return how often instructions stand in what was compiled, those of matrices with their types."""
    if (lister := shutil.which("cuobjdump") or "/usr/local/cuda/bin/cuobjdump") and not Path(lister).exists():
        pytest.skip("needs cuobjdump: what nvcc made is not read")
    text = subprocess.run(
        [lister, "-sass", str(folder / "kernels.cubin")], capture_output=True, text=True, check=True
    ).stdout
    words = re.findall(r"\b((?:HMMA|IMMA|HGMMA)\.[A-Zx0-9.]+|LDSM|LDGSTS|WARPGROUP\.DEPBAR)\b", text)
    return Counter(word.removesuffix(".SAT").removesuffix(".SATFINITE") for word in words)


def declared_bytes(source: str) -> int:
    """Return the bytes of the arrays that a block has of its own."""
    sizes = {"uint16_t": 2, "int8_t": 1, "float": 4, "int32_t": 4}
    arrays = re.findall(r"^  OWN_OF_BLOCK\((\w+), \w+, (\d+)\);", source, re.MULTILINE)
    return sum(sizes[kind] * int(count) for kind, count in arrays)


def called(source: str) -> Counter[str]:
    """Return how often kernels call functions for products and for fragments from shared memory."""
    body = source[source.index("__kernel void product") :]
    return Counter(
        word.split("_")[0] for word in re.findall(r"^ +((?:wgmma|mma|ldmatrix)_\w+)\(", body, re.MULTILINE)
    )
