"""Variants of a mapping: orders, cuts, what lies where, and what happens where an axis ends inside a tile."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

from unit.matching import kernel, shipped

from isamap.ir import Kernel, bind
from isamap.machine import Machine, load_machine
from isamap.match import (
    Mapping,
    MappingVariant,
    count_groupings,
    count_variants,
    find_mappings,
    variants,
)
from isamap.transform import statements

AVX2, AVX512, AMX = (load_machine(n) for n in ("x86-avx2", "x86-avx512", "x86-amx"))


def mapping_of(routine: Kernel, machine: Machine, instruction: str, **axes: str) -> Mapping:
    for found in find_mappings(routine, machine):
        said = {axis: ".".join(kernel_axes) for axis, kernel_axes in found.axes.items()}
        if found.instruction == instruction and axes.items() <= said.items():
            return found
    raise AssertionError(f"no mapping of {routine.name} onto {instruction} with {axes}")


def all_of(routine: Kernel, machine: Machine, instruction: str, **axes: str) -> list[MappingVariant]:
    found = mapping_of(routine, machine, instruction, **axes)
    return list(variants(routine, statements(routine)[0], found, machine))


def gemm(name: str, m: int, n: int, k: int) -> Kernel:
    return bind(shipped(name), {"M": m, "N": n, "K": k})


# --- orders and cuts --------------------------------------------------------------------------------------


def test_axes_fused_onto_one_come_in_every_order_the_written_one_first() -> None:
    found = all_of(gemm("gemm_f32", 32, 32, 8), AVX512, "fma_zmm_f32", i="m.n")
    assert list(dict.fromkeys(v.orders for v in found)) == [(("m", "n"),), (("n", "m"),)]


def test_a_class_is_cut_in_every_order_of_its_axes_the_finest_innermost_first() -> None:
    found = all_of(gemm("gemm_bf16", 32, 32, 64), AMX, "tdpbf16ps", m="m", n="n")
    assert list(dict.fromkeys(v.cuts[2] for v in found)) == [("k", "p"), ("p", "k")]


def test_another_cut_moves_operands_otherwise() -> None:
    """With p outermost, elements 16 apart are paired: neither rows of A nor its pairs are read in place."""
    found = all_of(gemm("gemm_bf16", 32, 32, 64), AMX, "tdpbf16ps", m="m", n="n")
    first = {v.cuts[2]: v.movements[0].kind for v in reversed(found)}
    assert first[("k", "p")] == "strided"
    assert first[("p", "k")] != "strided"


def test_groupings_are_counted_without_looking_at_moves() -> None:
    routine = bind(shipped("conv2d_nchw"), {"N": 2, "C": 8, "K": 8, "H": 9, "W": 9, "R": 3, "S": 3})
    found = mapping_of(routine, AVX512, "fma_zmm_f32", i="n.p.q")
    assert count_groupings(found) == 6
    assert count_groupings(mapping_of(gemm("gemm_bf16", 32, 32, 64), AMX, "tdpbf16ps", m="m")) == 2


def test_as_many_are_listed_as_are_counted() -> None:
    for routine, machine, instruction in (
        (gemm("gemm_f32", 37, 70, 9), AVX512, "fma_zmm_f32"),
        (gemm("gemm_bf16", 37, 70, 9), AMX, "tdpbf16ps"),
    ):
        for mapping in find_mappings(routine, machine):
            if mapping.instruction == instruction:
                found = list(variants(routine, statements(routine)[0], mapping, machine))
                assert len(found) == count_variants(routine, statements(routine)[0], mapping, machine)
                assert len(set(found)) == len(found)


def test_variants_come_one_at_a_time() -> None:
    """Seven fused axes have 5040 orders; the first few are there at once."""
    axes = "abcdefg"
    routine = kernel(
        f"in X: f32[{', '.join(['4'] * 7)}]; inout Y: f32[{', '.join(['4'] * 7)}];",
        f"for {', '.join(f'{a} in 4' for a in axes)} "
        f"{{ Y[{', '.join(axes)}] += X[{', '.join(axes)}] * X[{', '.join(axes)}]; }}",
    )
    found = mapping_of(routine, AVX512, "fma_zmm_f32", i=".".join(axes))
    assert count_groupings(found) == 5040
    assert len(list(islice(variants(routine, statements(routine)[0], found, AVX512), 3))) == 3


# --- what lies where --------------------------------------------------------------------------------------


def test_an_operand_in_place_may_be_packed_as_well() -> None:
    found = all_of(gemm("gemm_f32", 32, 32, 32), AVX512, "fma_zmm_f32", i="n")
    kinds = {tuple(m.kind for m in v.movements) for v in found}
    assert len(found) == len(kinds) == 8
    assert ("in place", "in place", "in place") in kinds
    assert ("in place", "packed", "in place") in kinds
    assert tuple(m.kind for m in found[0].movements) == ("in place", "in place", "in place")


# --- tails ------------------------------------------------------------------------------------------------


def test_tiles_that_fill_their_axes_have_no_tail() -> None:
    found = all_of(gemm("gemm_f32", 5, 32, 7), AVX512, "fma_zmm_f32", i="n")
    assert {v.tail for v in found} == {"exact"}
    assert {v.fills for v in found} == {()}


def test_a_tail_is_masked_where_moves_of_part_exist_and_staged_where_none_does() -> None:
    routine = gemm("gemm_f32", 5, 35, 7)
    assert all_of(routine, AVX512, "fma_zmm_f32", i="n")[0].tail == "masked"
    assert all_of(routine, AVX2, "fma_ymm_f32", i="n")[0].tail == "masked"
    kept = {name: one for name, one in AVX2.instructions.items() if not name.startswith("mask")}
    whole_only = replace(AVX2, instructions=kept)
    assert all_of(routine, whole_only, "fma_ymm_f32", i="n")[0].tail == "staged"


def test_a_tail_in_a_buffer_is_padded() -> None:
    found = all_of(gemm("gemm_f32", 5, 35, 7), AVX512, "fma_zmm_f32", i="n")
    packed = next(v for v in found if v.movements[1].kind == "packed")
    assert packed.tail == "padded"


def test_a_tail_of_a_sum_is_filled_with_zeros() -> None:
    found = all_of(gemm("gemm_bf16", 32, 32, 70), AMX, "tdpbf16ps", m="m", n="n")
    assert {tuple((n, c.value) for n, c in v.fills) for v in found} == {(("a", 0.0), ("b", 0.0))}


def test_a_tail_of_an_output_axis_needs_no_fill() -> None:
    found = all_of(gemm("gemm_bf16", 32, 40, 64), AMX, "tdpbf16ps", m="m", n="n")
    assert {v.fills for v in found} == {()}
    assert {v.tail for v in found} == {"padded"}


def test_sizes_left_open_may_have_any_tail() -> None:
    assert all_of(shipped("gemm_f32"), AVX512, "fma_zmm_f32", i="n")[0].tail == "masked"


def test_a_mapping_that_is_not_carried_out_has_no_tail(tmp_path: Path) -> None:
    (tmp_path / "bare.yaml").write_text(
        "isamap: 1\nname: bare\nsummary: s\nextends: x86-amx\nremove: [tileload_bf16]\n"
    )
    found = all_of(gemm("gemm_bf16", 32, 32, 64), load_machine(str(tmp_path / "bare.yaml")), "tdpbf16ps")
    assert {v.tail for v in found} == {"none"}
