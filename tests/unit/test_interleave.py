"""Instructions that write a register in pieces: what each piece wants, and chains that use them."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.matching import instruction

from isamap.ir import BF16, DTYPES, F32, Cast, DType, Index, Read
from isamap.ir.index import ONE
from isamap.machine import Machine, load_machine
from isamap.match import LoadRequest, Location, MoveSearch, OperandMove, find_operand_load
from isamap.match.operand_loads.interleave import is_wasted
from isamap.match.operand_loads.register_parts import axes_at, box_of, pieces_of

AVX512 = load_machine("x86-avx512")
I8 = DTYPES["i8"]
LANE, K, N = Index.of("%0"), Index.of("@k"), Index.of("@n")
ROW = Index.of("B.s0")


def search(machine: Machine = AVX512) -> MoveSearch:
    return MoveSearch(machine, {"B": (ROW, ONE), "D": (Index.of(40), ONE)})


def request(
    dtype: DType, size: int, row: Index, column: Index, memory: str = "zmm", buffer: str = "B"
) -> LoadRequest:
    return LoadRequest(Read(buffer, (row, column), dtype), memory, dtype, (size,), (None,))


def names(found: OperandMove) -> list[str]:
    """Instructions of a chain, those whose results are read first."""
    return [n for _, i in found.inputs if isinstance(i, OperandMove) for n in names(i)] + [found.instruction]


def places(found: OperandMove) -> list[Index]:
    """Return where the loads of a chain begin."""
    own = [i.offset for _, i in found.inputs if isinstance(i, Location)]
    return own + [p for _, i in found.inputs if isinstance(i, OperandMove) for p in places(i)]


# --- pieces -----------------------------------------------------------------------------------------------


def test_a_selection_by_an_axis_is_taken_apart() -> None:
    found = pieces_of(AVX512.instructions["interleave1_hi_zmm_i8"].instruction)
    assert [str(p.target.index[0]) for p in found] == ["g + 2*j + 16*l", "g + 2*j + 16*l + 1"]
    assert [str(p.value.buffer) for p in found if isinstance(p.value, Read)] == ["a", "b"]


def test_moves_and_operations_have_no_pieces() -> None:
    assert pieces_of(AVX512.instructions["load_zmm_f32"].instruction) == ()
    assert pieces_of(AVX512.instructions["add_zmm_f32"].instruction) == ()


def test_a_selection_by_data_has_no_pieces() -> None:
    chosen = instruction("""instruction choose_larger() {
      out z: f32[16] @ reg; in a: f32[16] @ reg; in b: f32[16] @ reg;
      for i in 16 { z[i] = select(a[i] > b[i], a[i], b[i]); }
    }""")
    assert pieces_of(chosen.instruction) == ()


def test_one_operand_in_two_pieces_is_no_interleave() -> None:
    swapped = instruction("""instruction swap() {
      out z: f32[16] @ reg; in a: f32[16] @ reg;
      for h in 2, i in 8 { z[8*h + i] = select(h == 0, a[8 + i], a[i]); }
    }""")
    assert pieces_of(swapped.instruction) == ()


def test_lanes_that_matter_cut_the_axes_that_write_them() -> None:
    low, _ = pieces_of(AVX512.instructions["interleave1_lo_zmm_i8"].instruction)
    lengths = {a.name: a.extent.value or 0 for a in low.axes}
    used = frozenset(16 * part + i for part in range(4) for i in range(8))
    box = box_of(low.target.index[0], low.axes, lengths, used)
    assert box is not None
    assert box.limits == {"j": 4, "l": 4}
    assert not box.full
    assert box.lanes == frozenset(lane for lane in used if lane % 2 == 0)


def test_lanes_that_no_axes_write_alone_make_no_box() -> None:
    low, _ = pieces_of(AVX512.instructions["interleave1_lo_zmm_i8"].instruction)
    lengths = {a.name: a.extent.value or 0 for a in low.axes}
    assert box_of(low.target.index[0], low.axes, lengths, frozenset({0, 2, 16})) is None
    assert box_of(low.target.index[0], low.axes, lengths, frozenset({1, 3})) is None


def test_axes_are_found_from_lanes_between_which_others_lie() -> None:
    low, _ = pieces_of(AVX512.instructions["interleave1_lo_zmm_i8"].instruction)
    lengths = {a.name: a.extent.value or 0 for a in low.axes}
    assert isinstance(low.value, Read)
    box = box_of(low.value.index[0], low.axes, lengths, frozenset(range(64)))
    assert box is not None
    back = axes_at(box, "%0")
    assert back is not None
    for lane in box.lanes:
        at = {a: e.substitute({"%0": lane}).value for a, e in back.items()}
        assert 16 * (at["l"] or 0) + (at["j"] or 0) == lane


def without(folder: Path, *starts: str) -> MoveSearch:
    """AVX-512 without the instructions whose names start so."""
    names = ", ".join(n for n in AVX512.instructions if n.startswith(starts))
    text = f"isamap: 1\nname: m\nsummary: s\nextends: x86-avx512\nremove: [{names}]\n"
    (folder / "m.yaml").write_text(text)
    return search(load_machine(str(folder / "m.yaml")))


# --- chains -----------------------------------------------------------------------------------------------


def test_pairs_of_rows_are_interleaved() -> None:
    found = find_operand_load(search(), request(BF16, 32, K + LANE.mod(2), N + LANE.floordiv(2)))
    assert isinstance(found, OperandMove)
    assert names(found) == ["load_ymm_bf16"] * 2 + ["beside_zmm_bf16", "pairs_zmm_bf16"]
    assert places(found) == [K * ROW + N, (K + 1) * ROW + N]


def test_fours_of_rows_are_laid_side_by_side_and_turned() -> None:
    found = find_operand_load(search(), request(I8, 64, K + LANE.mod(4), N + LANE.floordiv(4)))
    assert isinstance(found, OperandMove)
    halves = ["load_xmm_i8", "load_xmm_i8", "beside_ymm_i8"]
    assert names(found) == [*halves, *halves, "beside_zmm_i8", "turn4_zmm_i8", "turn1_zmm_i8"]
    assert places(found) == [(K + p) * ROW + N for p in range(4)]


@pytest.mark.parametrize("gone", [("pairs",), ("beside_zmm", "join_zmm", "lanes_")])
def test_without_the_permutation_or_the_joining_pairs_are_interleaved(
    tmp_path: Path, gone: tuple[str, ...]
) -> None:
    found = find_operand_load(
        without(tmp_path, *gone), request(BF16, 32, K + LANE.mod(2), N + LANE.floordiv(2))
    )
    assert isinstance(found, OperandMove)
    assert names(found) == ["load_lanes4_zmm_bf16"] * 2 + ["interleave1_lo_zmm_bf16"]
    assert places(found) == [K * ROW + N, (K + 1) * ROW + N]


def test_without_joining_fours_of_rows_are_interleaved_twice(tmp_path: Path) -> None:
    on = without(tmp_path, "beside_zmm", "join_zmm", "lanes_")
    found = find_operand_load(on, request(I8, 64, K + LANE.mod(4), N + LANE.floordiv(4)))
    assert isinstance(found, OperandMove)
    assert names(found).count("interleave1_lo_zmm_i8") == 3
    assert sorted(map(str, places(found))) == sorted(str((K + p) * ROW + N) for p in range(4))


def test_rows_at_a_known_distance_are_interleaved_too() -> None:
    found = find_operand_load(search(), request(BF16, 32, K + LANE.mod(2), N + LANE.floordiv(2), buffer="D"))
    assert isinstance(found, OperandMove)
    assert places(found) == [K * 40 + N, K * 40 + 40 + N]


def test_a_column_is_not_interleaved_out_of_single_elements() -> None:
    assert find_operand_load(search(), request(F32, 16, N + LANE, K)) is None


def test_a_row_is_loaded_and_not_interleaved() -> None:
    found = find_operand_load(search(), request(F32, 16, K, N + LANE))
    assert isinstance(found, OperandMove)
    assert names(found) == ["load_zmm_f32"]


def test_bf16_is_spaced_out_and_widened_by_lanes_that_matter() -> None:
    """Without an instruction that converts: a load, zeros between, and the even elements shifted up."""
    wide = LoadRequest(Cast(Read("B", (K, N + LANE), BF16), F32), "zmm", F32, (16,), (None,))
    found = find_operand_load(search(), wide)
    assert isinstance(found, OperandMove)
    assert names(found) == ["load_ymm_bf16", "space_zmm_bf16", "cvt_even_zmm_bf16_f32"]


def test_a_part_of_a_load_is_not_taken_for_what_lies_behind_may_not_exist(tmp_path: Path) -> None:
    on = without(tmp_path, "load_lanes", "beside_zmm", "join_zmm", "lanes_")
    assert find_operand_load(on, request(BF16, 32, K + LANE.mod(2), N + LANE.floordiv(2))) is None


def test_a_broadcast_of_a_pair_is_not_taken_for_one_of_its_elements(tmp_path: Path) -> None:
    """The other one would be shifted out; behind the last element of the array it does not exist."""
    one = LoadRequest(Cast(Read("B", (K, N), BF16), F32), "zmm", F32, (16,), (None,))
    pair = request(BF16, 32, K, N + LANE.mod(2))
    found = find_operand_load(search(), pair)
    assert isinstance(found, OperandMove)
    assert names(found) == ["broadcast2_zmm_bf16"]
    on = without(tmp_path, "broadcast_zmm", "spread1_", "set_", "load_xmm_i16")
    other = find_operand_load(on, one)
    assert not isinstance(other, OperandMove) or "broadcast2_zmm_bf16" not in names(other)


def test_a_permutation_is_tried_only_where_it_brings_lanes_together() -> None:
    turn = next(p for p in search().known.producers("zmm", "i8") if p.name == "turn4_zmm_i8")
    plain = next(p for p in search().known.producers("zmm", "i8") if p.name == "load_zmm_i8")
    turned = request(I8, 64, K + LANE.floordiv(4).mod(4), N + 4 * LANE.floordiv(16) + LANE.mod(4))
    row = request(I8, 64, K, N + LANE)
    assert not is_wasted(search(), turn, turned)
    assert is_wasted(search(), turn, row)
    assert not is_wasted(search(), plain, row)


def test_two_statements_that_share_an_output_interleave_as_well(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(ZIP)
    machine = load_machine(str(tmp_path / "m.yaml"))
    found = find_operand_load(search(machine), request(F32, 16, K + LANE.mod(2), N + LANE.floordiv(2), "v"))
    assert isinstance(found, OperandMove)
    assert names(found) == ["load_half", "load_half", "zip"]


ZIP = """isamap: 1
name: m
summary: two statements write one register
extends: generic-c
sources: {nowhere: "made up"}
target: {toolchains: [gcc], flags: [-mavx512f], headers: [immintrin.h]}
language: |
  memory v: registers(count = 8, bytes = 64, named = compiler);
memories:
  v: {c_types: {f32: __m512}, source: nowhere}
instructions:
  - semantics: |
      instruction load_half() {
        in a: f32[8] @ mem;
        out z: f32[16] @ v outside undefined;
        for i in 8 { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: scalar, interval_cycles: 1, latency_cycles: 1}
    source: nowhere
  - semantics: |
      instruction zip() {
        in a: f32[16] @ v;
        in b: f32[16] @ v;
        out z: f32[16] @ v;
        for i in 8 { z[2*i] = a[i]; }
        for i in 8 { z[2*i + 1] = b[i]; }
      }
    emit: semantics
    cost: {unit: scalar, interval_cycles: 1, latency_cycles: 1}
    source: nowhere
"""
