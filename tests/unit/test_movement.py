"""What moves for each operand of a mapping: in place, strided, gathered, packed, or nothing that does."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from unit.matching import kernel, shipped

from isamap.ir import Kernel, bind
from isamap.machine import Machine, load_machine
from isamap.match import Mapping, Movement, choices, find_mappings, movements
from isamap.transform import statements

WHAT_LOADS_TMM = "tileload_f32, tileload_i32, tileload_bf16, tileload_i8, tileload_u8"


@cache
def machine(name: str) -> Machine:
    return load_machine(name)


def mapping_of(routine: Kernel, on: Machine, instruction: str, **axes: str) -> Mapping:
    """Return the mapping with these kernel axes, `p.q` where several are fused, on the instruction's axes."""
    for found in find_mappings(routine, on):
        said = {axis: ".".join(kernel_axes) for axis, kernel_axes in found.axes.items()}
        if found.instruction == instruction and axes.items() <= said.items():
            return found
    raise AssertionError(f"no mapping of {routine.name} onto {instruction} with {axes}")


def moved(routine: Kernel | str, on: Machine | str, instruction: str, **axes: str) -> dict[str, Movement]:
    routine = shipped(routine) if isinstance(routine, str) else routine
    on = machine(on) if isinstance(on, str) else on
    found = mapping_of(routine, on, instruction, **axes)
    statement = statements(routine)[found.statement]
    return {m.operand: m for m in movements(routine, statement, found, on)}


def kinds(found: dict[str, Movement]) -> dict[str, str]:
    return {name: m.kind for name, m in found.items()}


def edited(folder: Path, text: str, name: str = "edited") -> Machine:
    """Return a machine made from a text that stands behind its name."""
    path = folder / f"{name}.yaml"
    path.write_text(f"isamap: 1\nname: {name}\nsummary: made for a test\n{text}")
    return load_machine(str(path))


# --- read where it lies -----------------------------------------------------------------------------------


def test_a_row_and_a_single_element_are_read_in_place() -> None:
    found = moved("gemm_f32", "x86-avx512", "fma_zmm_f32", i="n")
    assert kinds(found) == {"a": "in place", "b": "in place", "c": "in place"}
    assert found["a"].chain == ("broadcast_zmm_f32",)
    assert found["b"].chain == ("load_zmm_f32",)
    assert found["c"].chain == ("load_zmm_f32", "store_zmm_f32")


def test_a_conversion_on_the_way_is_still_in_place() -> None:
    found = moved("gemm_bf16", "x86-avx512", "fma_zmm_f32", i="n")
    assert found["b"].kind == "in place"
    assert len(found["b"].chain) > 1


def test_rows_of_a_tile_are_read_at_the_distance_of_the_arrays_own() -> None:
    found = moved("gemm_bf16", "x86-amx", "tdpbf16ps", m="m", n="n")
    assert (found["a"].kind, found["a"].chain, found["a"].packing) == ("strided", ("tileload_bf16",), ())


def test_a_transposing_load_serves_a_transposed_operand() -> None:
    found = moved("gemm_nt_f32", "matmul-16x16x16", "matmul", i="m", j="n")
    assert found["b"].kind == "strided"
    assert found["b"].chain == ("load_tile_transposed",)
    assert moved("gemm_f32", "matmul-16x16x16", "matmul", i="m", j="n")["b"].chain == ("load_tile",)


def test_an_instruction_that_reads_memory_needs_no_move(tmp_path: Path) -> None:
    on = edited(tmp_path, READS_MEMORY)
    found = moved("gemm_f32", on, "fma_from_memory", i="n")
    assert (found["b"].kind, found["b"].chain, found["b"].moves_per_issue) == ("in place", (), 0)
    assert (found["a"].kind, found["a"].chain) == ("in place", ())


def test_an_instruction_that_reads_memory_finds_no_column_there(tmp_path: Path) -> None:
    on = edited(tmp_path, READS_MEMORY)
    found = moved("gemm_f32", on, "fma_from_memory", i="m")
    assert found["b"].kind == "gathered"
    assert found["b"].packing == ("load_f32", "store_f32")


READS_MEMORY = """
extends: x86-avx512
sources: {nowhere: "made up"}
instructions:
  - semantics: |
      instruction fma_from_memory() {
        inout c: f32[16] @ zmm;
        in a: f32 @ mem;
        in b: f32[16] @ mem;
        for i in 16 { c[i] += a * b[i]; }
      }
    emit: semantics
    cost: {unit: fma, interval_cycles: 1, latency_cycles: 4}
    source: nowhere
"""


# --- gathered ---------------------------------------------------------------------------------------------


def test_a_column_is_gathered_element_by_element() -> None:
    found = moved("gemm_f32", "x86-avx512", "fma_zmm_f32", i="m")
    assert found["a"].kind == "gathered"
    assert found["a"].packing == ("load_f32", "store_f32")
    assert found["a"].packing_moves == 2 * 16
    assert "in place" in found["a"].why


def test_a_column_of_a_transposed_array_is_a_row() -> None:
    found = moved("gemm_tn_f32", "x86-avx512", "fma_zmm_f32", i="m")
    assert kinds(found) == {"a": "in place", "b": "in place", "c": "gathered"}


def test_the_windows_of_a_convolution_are_gathered_where_axes_are_fused() -> None:
    routine = bind(shipped("conv2d_nchw"), {"N": 1, "C": 8, "K": 8, "H": 9, "W": 9, "R": 3, "S": 3})
    found = moved(routine, "x86-avx512", "fma_zmm_f32", i="p.q")
    assert found["a"].kind == "gathered"
    assert found["a"].packing == ("load_f32", "store_f32")


def test_fused_axes_of_an_argument_are_gathered_for_its_rows_may_lie_apart() -> None:
    found = moved("gemm_f32", "x86-avx512", "fma_zmm_f32", i="m.n")
    assert found["c"].kind == "gathered"


# --- packed -----------------------------------------------------------------------------------------------


def test_pairs_of_rows_are_packed_by_a_permutation() -> None:
    found = moved("gemm_bf16", "x86-amx", "tdpbf16ps", m="m", n="n")
    assert (found["b"].kind, found["b"].chain) == ("packed", ("tileload_bf16",))
    assert "pairs_zmm_bf16" in found["b"].packing
    assert found["b"].packing_moves < 2 * 16 * 32


def test_groups_of_four_bytes_are_packed_by_two_permutations() -> None:
    found = moved("gemm_u8s8", "x86-avx512-vnni", "dpbusd_zmm", i="n")
    assert (found["b"].kind, found["b"].chain) == ("packed", ("load_zmm_i8",))
    assert found["b"].packing[-4:] == ("beside_zmm_i8", "turn4_zmm_i8", "turn1_zmm_i8", "store_zmm_i8")
    assert found["b"].moves_per_issue == 1
    assert "9 moves" in found["b"].why


def test_groups_that_lie_together_already_are_packed_as_they_are() -> None:
    found = moved("gemm_nt_bf16", "x86-amx", "tdpbf16ps", m="m", n="n")
    assert found["a"].kind == "strided"
    assert (found["b"].kind, found["b"].packing) == ("packed", ("load2_xmm_bf16", "store2_xmm_bf16"))
    assert found["b"].packing_moves == 2 * 16 * 32 // 2


def test_an_accumulator_wider_than_its_array_is_converted_through_a_buffer() -> None:
    found = moved("gemm_bf16", "x86-amx", "tdpbf16ps", m="m", n="n")
    assert found["c"].kind == "packed"
    assert found["c"].chain == ("tileload_f32", "tilestore_f32")
    assert "cvt_zmm_bf16_f32" in found["c"].packing
    assert "cvt_zmm_f32_bf16" in found["c"].packing


def test_what_is_read_beyond_the_edge_comes_from_a_padded_copy() -> None:
    routine = bind(shipped("conv2d_nchw"), {"N": 1, "C": 8, "K": 8, "H": 9, "W": 9, "R": 3, "S": 3, "pad": 1})
    found = moved(routine, "x86-avx512", "fma_zmm_f32", i="q")
    assert found["a"].kind == "packed"
    assert "padded array" in found["a"].why


# --- none -------------------------------------------------------------------------------------------------


def test_without_a_load_there_is_no_chain_and_the_mapping_says_so(tmp_path: Path) -> None:
    on = edited(tmp_path, f"extends: x86-amx\nremove: [{WHAT_LOADS_TMM}]\n")
    found = moved("gemm_bf16", on, "tdpbf16ps", m="m", n="n")
    assert found["a"].kind == found["b"].kind == "none"
    assert found["a"].why == "edited has no instruction that writes bf16 to tmm"
    assert found["c"].kind == "none"
    assert "f32" in found["c"].why


def test_without_a_load_of_one_type_only_its_operands_have_no_chain(tmp_path: Path) -> None:
    on = edited(tmp_path, "extends: x86-amx\nremove: [tileload_bf16]\n")
    found = moved("gemm_bf16", on, "tdpbf16ps", m="m", n="n")
    assert kinds(found) == {"a": "none", "b": "none", "c": "packed"}


def test_without_interleaves_packing_is_element_by_element(tmp_path: Path) -> None:
    names = ", ".join(
        n
        for n in machine("x86-amx").instructions
        if n.startswith(("interleave", "load_lanes", "lanes_", "beside", "join"))
    )
    on = edited(tmp_path, f"extends: x86-amx\nremove: [{names}]\n")
    found = moved("gemm_bf16", on, "tdpbf16ps", m="m", n="n")
    assert (found["b"].kind, found["b"].packing) == ("gathered", ("load_bf16", "store_bf16"))


def test_a_window_is_not_loaded_and_says_so(tmp_path: Path) -> None:
    on = edited(tmp_path, WINDOW)
    routine = kernel(
        "in X: f32[64]; in F: f32[4]; inout Y: f32[61];",
        "for p in 61, r in 4 { Y[p] += X[p + r] * F[r]; }",
    )
    found = moved(routine, on, "window", p="p", r="r")
    assert set(kinds(found).values()) == {"none"}
    assert "share" in found["a"].why
    assert "window" in found["b"].why


def test_equal_placements_need_no_move_between_and_others_are_not_taken_for_equal(tmp_path: Path) -> None:
    same = edited(tmp_path, PLACED.replace("$HOW", "lane: k, register: m"), "same")
    other = edited(tmp_path, PLACED.replace("$HOW", "lane: m, register: k"), "other")
    assert moved("gemm_f32", same, "outer", m="m", k="k")["a"].chain == ("load_placed",)
    refused = moved("gemm_f32", other, "outer", m="m", k="k")["a"]
    assert refused.kind == "none"
    assert "not even from a separate buffer" in refused.why


def test_nothing_is_copied_into_a_scratchpad_and_that_is_said(tmp_path: Path) -> None:
    on = edited(tmp_path, PLACED.replace("$HOW", "lane: k, register: m"))
    assert moved("gemm_f32", on, "from_pad", i="n")["b"].kind == "none"
    assert "pad" in moved("gemm_f32", on, "from_pad", i="n")["b"].why


PLACED = """
extends: x86-avx512
sources: {nowhere: "made up"}
language: |
  memory warp: registers(count = 255, bytes = 256, lanes = 32, named = compiler);
  memory pad: scratchpad(bytes = 65536);
memories:
  warp: {c_types: {default: float}, source: nowhere}
instructions:
  - semantics: |
      instruction load_placed() {
        in a: f32[8, 8] @ mem strides(any, 1);
        out z: f32[8, 8] @ warp placed [m, k] at $HOW;
        for m in 8, k in 8 { z[m, k] = a[m, k]; }
      }
    emit: semantics
    cost: {unit: load_port, interval_cycles: 1, latency_cycles: 4}
    source: nowhere
  - semantics: |
      instruction outer() {
        inout c: f32[8, 8] @ warp;
        in a: f32[8, 8] @ warp placed [m, k] at lane: k, register: m;
        in b: f32[8, 8] @ warp;
        for m in 8, n in 8, k in 8 { c[m, n] += a[m, k] * b[k, n]; }
      }
    emit: semantics
    cost: {unit: fma, interval_cycles: 1, latency_cycles: 4}
    source: nowhere
  - semantics: |
      instruction from_pad() {
        inout c: f32[16] @ zmm;
        in a: f32[16] @ zmm;
        in b: f32[16] @ pad;
        for i in 16 { c[i] += a[i] * b[i]; }
      }
    emit: semantics
    cost: {unit: fma, interval_cycles: 1, latency_cycles: 4}
    source: nowhere
"""

WINDOW = """
extends: x86-avx512
sources: {nowhere: "made up"}
instructions:
  - semantics: |
      instruction window() {
        inout c: f32[13] @ zmm;
        in a: f32[16] @ zmm;
        in b: f32[4] @ zmm;
        for p in 13, r in 4 { c[p] += a[p + r] * b[r]; }
      }
    emit: semantics
    cost: {unit: fma, interval_cycles: 1, latency_cycles: 4}
    source: nowhere
"""


# --- statements that only assign --------------------------------------------------------------------------


def test_an_assignment_says_what_is_read_and_where_it_is_written() -> None:
    routine = kernel("in X: f32[256]; out Y: f32[256];", "for i in 256 { Y[i] = X[i]; }")
    found = moved(routine, "x86-avx512", "store_zmm_f32", i="i")
    assert kinds(found) == {"a": "in place", "z": "in place"}
    assert found["a"].chain == ("load_zmm_f32",)


def test_an_assignment_to_a_column_is_not_written_by_a_vector() -> None:
    routine = kernel("in X: f32[256]; inout Y: f32[256, 4];", "for i in 256 { Y[i, 0] = X[i]; }")
    found = moved(routine, "x86-avx512", "store_zmm_f32", i="i")
    assert kinds(found) == {"a": "none", "z": "none"}


# --- figures and alternatives -----------------------------------------------------------------------------


def test_moves_and_bytes_are_those_of_one_issue() -> None:
    found = moved("gemm_bf16", "x86-amx", "tdpbf16ps", m="m", n="n")
    assert (found["a"].moves_per_issue, found["a"].bytes_per_issue) == (1, 16 * 32 * 2)
    assert abs(found["a"].cost_ns - 0.3 * 16 / 2) < 1e-9  # two load ports
    assert found["c"].moves_per_issue == 2


def test_an_operand_read_in_place_may_go_through_a_buffer_too() -> None:
    routine, on = shipped("gemm_f32"), machine("x86-avx512")
    found = mapping_of(routine, on, "fma_zmm_f32", i="n")
    ways = choices(routine, statements(routine)[0], found, on)
    assert [[m.kind for m in w] for w in ways] == [["in place", "packed"]] * 3


def test_what_is_computed_from_several_arrays_is_computed_in_place() -> None:
    routine = kernel(
        "in A: f32[64, 64]; in B: f32[64, 64]; in D: f32[64, 64]; inout C: f32[64, 64];",
        "for m in 64, n in 64, k in 64 { C[m, n] += A[m, k] * (B[k, n] + D[k, n]); }",
    )
    found = moved(routine, "x86-avx512", "fma_zmm_f32", i="n")
    assert found["b"].kind == "in place"
    assert found["b"].chain[-1] == "add_zmm_f32"
    assert found["b"].bytes_per_issue == 2 * 64
