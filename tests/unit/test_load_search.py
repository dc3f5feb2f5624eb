"""Chains of moves: what an operand's register is made of, cheapest first, or that nothing makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.ir import BF16, DTYPES, F32, F64, Call, Cast, Const, DType, Expr, Index, Read
from isamap.ir.index import ONE, ZERO
from isamap.machine import Machine, load_machine
from isamap.match import (
    LoadRequest,
    Location,
    MoveSearch,
    OperandMove,
    Present,
    find_operand_load,
    find_operand_store,
)
from isamap.match.operand_loads.load_request import Repertoire
from isamap.match.patterns.pattern import only_assignment, pattern_of
from isamap.match.patterns.unify import heads_match

AVX2, AVX512, AMX = (load_machine(n) for n in ("x86-avx2", "x86-avx512-bf16", "x86-amx"))
GENERIC = load_machine("generic-c")

LANE, LANE_1 = Index.of("%0"), Index.of("%1")
M, K = Index.of("@m"), Index.of("@k")
STRIDE = Index.of("A.s0")


def search(machine: Machine = AVX512) -> MoveSearch:
    return MoveSearch(machine, {"A": (STRIDE, ONE), "B": (Index.of("B.s0"), ONE), "V": (ONE,)})


def element(*index: Index, dtype: DType = F32, buffer: str = "A") -> Read:
    return Read(buffer, index, dtype)


def request(
    expr: Expr, memory: str, *shape: int, valid: Index | None = None, zero: bool = False
) -> LoadRequest:
    parts = (valid, *(None for _ in shape[1:]))
    fill = Const(0.0 if expr.dtype.is_float else 0, expr.dtype)
    return LoadRequest(expr, memory, expr.dtype, shape, parts if shape else (), fill if zero else None)


def chain(found: OperandMove | Present | None) -> list[str]:
    """Names of the instructions of a chain without branches, the last first."""
    assert isinstance(found, OperandMove)
    rest = [i for _, i in found.inputs if isinstance(i, OperandMove)]
    return [found.instruction, *(chain(rest[0]) if rest else [])]


def location(found: OperandMove | Present | None) -> Location:
    """Return where a chain without branches begins."""
    assert isinstance(found, OperandMove)
    (source,) = [i for _, i in found.inputs]
    return (
        source
        if isinstance(source, Location)
        else location(source if isinstance(source, OperandMove) else None)
    )


# --- from memory ------------------------------------------------------------------------------------------


def test_a_row_is_loaded() -> None:
    found = find_operand_load(search(), request(element(M, K + LANE), "zmm", 16))
    assert chain(found) == ["load_zmm_f32"]
    assert location(found) == Location("A", M * STRIDE + K, (ONE,))


def test_one_element_for_all_lanes_is_broadcast() -> None:
    found = find_operand_load(search(), request(element(M, K), "zmm", 16))
    assert chain(found) == ["broadcast_zmm_f32"]
    assert location(found).offset == M * STRIDE + K


def test_a_tile_is_loaded_at_the_rows_own_distance() -> None:
    tile = element(M + LANE, K + LANE_1, dtype=BF16)
    found = find_operand_load(search(AMX), request(tile, "tmm", 16, 32))
    assert chain(found) == ["tileload_bf16"]
    assert location(found) == Location("A", M * STRIDE + K, (STRIDE, ONE))
    assert isinstance(found, OperandMove)
    assert dict(found.params) == {"R": Index.of(16), "W": Index.of(16)}


def test_a_tile_has_rows_of_whole_groups_of_four_bytes() -> None:
    """Other widths raise #UD: docs/decisions/0044-emulators.md."""
    tile = element(M + LANE, K + LANE_1, dtype=BF16)
    assert isinstance(find_operand_load(search(AMX), request(tile, "tmm", 16, 30)), OperandMove)
    assert not isinstance(find_operand_load(search(AMX), request(tile, "tmm", 16, 31)), OperandMove)


def test_a_column_has_no_load() -> None:
    assert find_operand_load(search(), request(element(M + LANE, K), "zmm", 16)) is None


def test_a_transposed_tile_has_no_load() -> None:
    tile = element(M + LANE_1, K + LANE, dtype=BF16)
    assert find_operand_load(search(AMX), request(tile, "tmm", 16, 32)) is None


def test_what_is_wider_than_any_register_has_no_load() -> None:
    assert find_operand_load(search(AVX2), request(element(M, K + LANE), "ymm", 16)) is None


def test_an_array_at_an_unknown_place_has_no_load() -> None:
    assert find_operand_load(search(), request(element(LANE, buffer="Z"), "zmm", 16)) is None


# --- what is computed on the way --------------------------------------------------------------------------


def test_bf16_is_widened_behind_its_load() -> None:
    wide = Cast(element(M, K + LANE, dtype=BF16), F32)
    found = find_operand_load(search(), request(wide, "zmm", 16))
    names = chain(found)
    assert len(names) > 1
    assert names[-1].startswith("load")
    assert location(found) == Location("A", M * STRIDE + K, (ONE,))


def test_a_strict_kernel_uses_no_load_that_loses_subnormal_numbers() -> None:
    narrow, own = request(Cast(element(M, K + LANE), BF16), "ymm", 16), search(AMX)
    used = [AMX.instructions[name].instruction for name in chain(find_operand_load(own, narrow))]
    assert any("flush_inputs" in i.numerics for i in used)
    assert find_operand_load(MoveSearch(AMX, own.strides, strict=True), narrow) is None


def test_one_scalar_is_widened_too() -> None:
    wide = Cast(Cast(element(M, K, dtype=DTYPES["i8"]), DTYPES["i32"]), F64)
    assert chain(find_operand_load(search(GENERIC), request(wide, "reg")))[-1] == "load_i8"


def test_an_expression_is_computed_from_its_parts() -> None:
    total = Call("add", (element(M, K + LANE), Cast(element(M, K, dtype=BF16, buffer="B"), F32)), F32)
    found = find_operand_load(search(), request(total, "zmm", 16))
    assert isinstance(found, OperandMove)
    assert found.instruction == "add_zmm_f32"
    assert {i.memory for _, i in found.inputs if isinstance(i, OperandMove)} == {"zmm"}


def test_operations_do_not_count_as_moves() -> None:
    expr: Expr = Cast(element(M, K + LANE, dtype=BF16), F32)
    for _ in range(8):
        expr = Call("max", (expr, element(M, K + LANE)), F32)
    assert find_operand_load(search(), request(expr, "zmm", 16)) is not None


def test_an_operation_without_an_instruction_has_no_chain() -> None:
    power = Call("pow", (element(M, K + LANE), element(M, K + LANE)), F32)
    assert find_operand_load(search(), request(power, "zmm", 16)) is None


def test_a_literal_is_set_in_all_lanes() -> None:
    found = find_operand_load(search(), request(Const(0.0, F32), "zmm", 16))
    assert isinstance(found, OperandMove)
    assert found.instruction == "set_zmm_f32"
    assert found.params == (("v", Const(0.0, F32)),)


def test_a_literal_is_made_once_in_front_of_all_loops_and_costs_nothing_in_them() -> None:
    i8, u8 = DTYPES["i8"], DTYPES["u8"]
    machine = load_machine("x86-avx512-vnni")
    row = Read("A", (M, K + LANE), i8)
    shifted = Cast(Call("xor", (row, Const(-128, i8)), i8), u8, "wrap")
    loaded = find_operand_load(search(machine), request(row, "zmm", 64))
    literal = find_operand_load(search(machine), request(Const(-128, i8), "zmm", 64))
    flipped = find_operand_load(search(machine), request(shifted, "zmm", 64))
    assert isinstance(loaded, OperandMove)
    assert isinstance(literal, OperandMove)
    assert isinstance(flipped, OperandMove)
    assert literal.cost_ns == 0
    flip_ns = search(machine).interval_ns(flipped.instruction, {})
    assert flip_ns > 0
    assert flipped.cost_ns == loaded.cost_ns + flip_ns


def test_a_register_that_is_there_is_taken() -> None:
    held = Read("$value:zmm", (LANE,), F32)
    assert find_operand_load(search(), request(held, "zmm", 16)) == Present()


# --- parts that are not valid -----------------------------------------------------------------------------


def test_a_tail_is_loaded_under_a_mask() -> None:
    found = find_operand_load(search(), request(element(M, K + LANE), "zmm", 16, valid=Index.of("#n")))
    assert isinstance(found, OperandMove)
    assert found.instruction == "maskload_zmm_f32"
    assert dict(found.params)["L"] == Index.of("#n")


def test_a_tail_that_must_be_zero_takes_a_mask_that_zeroes() -> None:
    tail = request(element(M, K + LANE), "zmm", 16, valid=Index.of("#n"), zero=True)
    assert chain(find_operand_load(search(), tail)) == ["maskload_zmm_f32"]


def test_a_tail_is_not_loaded_whole() -> None:
    assert (
        find_operand_load(search(GENERIC), request(element(M, K + LANE), "reg", 16, valid=Index.of(3)))
        is None
    )


def test_a_sum_of_something_is_not_taken_for_zero() -> None:
    one_more = Call("add", (element(M, K + LANE), element(M, K)), F32)
    assert find_operand_load(search(), request(one_more, "zmm", 16, valid=Index.of("#n"), zero=True)) is None


def test_a_broadcast_needs_no_mask() -> None:
    found = find_operand_load(search(), request(element(M, K), "zmm", 16, valid=Index.of("#n")))
    assert chain(found) == ["broadcast_zmm_f32"]


# --- stores -----------------------------------------------------------------------------------------------


def deliver(
    value: Expr, target: Read, valid: Index | None = None, machine: Machine = AVX512
) -> OperandMove | None:
    memory = "zmm" if isinstance(value, Read) and value.buffer.startswith("$") else ""
    expected = LoadRequest(value, memory, value.dtype, (16,), (valid,))
    return find_operand_store(search(machine), target, value, "", None, expected)


def test_a_register_is_stored_in_a_row() -> None:
    found = deliver(Read("$value:zmm", (LANE,), F32), element(M, K + LANE))
    assert found is not None
    assert found.instruction == "store_zmm_f32"
    assert found.target == Location("A", M * STRIDE + K, (ONE,))
    assert dict(found.inputs) == {"a": Present()}


def test_a_tail_is_stored_under_a_mask() -> None:
    found = deliver(Read("$value:zmm", (LANE,), F32), element(M, K + LANE), Index.of("#n"))
    assert found is not None
    assert found.instruction == "maskstore_zmm_f32"
    assert dict(found.params)["L"] == Index.of("#n")


def test_an_expression_is_computed_and_stored() -> None:
    bias = Call("max", (element(M, K + LANE, buffer="B"), Const(0.0, F32)), F32)
    found = deliver(bias, element(M, K + LANE))
    assert found is not None
    assert [i.instruction for _, i in found.inputs if isinstance(i, OperandMove)] == ["max_zmm_f32"]


def test_a_column_has_no_store() -> None:
    assert deliver(Read("$value:zmm", (LANE,), F32), element(M + LANE, ZERO)) is None


def test_lanes_that_have_to_be_zero_are_not_broadcast() -> None:
    # One element, the other lanes zero: a load under a mask, never the same element everywhere.
    one = Index.of(1)
    found = find_operand_load(search(), request(element(M, K), "zmm", 16, valid=one, zero=True))
    assert found is None or chain(found)[0] != "broadcast_zmm_f32"
    assert chain(find_operand_load(search(), request(element(M, K), "zmm", 16, valid=one))) == [
        "broadcast_zmm_f32"
    ]
    dot = MoveSearch(load_machine("dot-16"), {"A": (STRIDE, ONE)})
    masked = find_operand_load(dot, request(element(M, K), "vec", 16, valid=one, zero=True))
    assert isinstance(masked, OperandMove)
    assert dict(masked.params)["L"] == one


def test_a_store_that_zeroes_what_it_leaves_out_is_not_taken_for_a_part(tmp_path: Path) -> None:
    """The elements behind the part belong to another tile, or do not exist."""
    text = """isamap: 1
name: m
summary: s
extends: model-f32
sources: {here: made up}
instructions:
  - semantics: |
      instruction store_zeroing(scalar B: 0..16) {
        in a: f32[16] @ vec;
        out z: f32[16] @ mem outside zero;
        for i in B { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: move, interval_cycles: 0.001, latency_cycles: 1}
    source: here
"""
    (tmp_path / "m.yaml").write_text(text)
    on = search(load_machine(str(tmp_path / "m.yaml")))
    held = Read("$value:vec", (LANE,), F32)
    part = find_operand_store(
        on, element(K + LANE, buffer="V"), held, "", None, request(held, "vec", 16, valid=Index.of(3))
    )
    assert part is None or part.instruction != "store_zeroing"


# --- conditions -------------------------------------------------------------------------------------------


def with_load(folder: Path, head: str, loop: str) -> MoveSearch:
    """Return a machine whose registers `v8` only this load fills."""
    text = f"""isamap: 1
name: m
summary: s
extends: model-f32
sources: {{here: made up}}
language: |
  memory v8: registers(count = 8, bytes = 32, named = compiler);
memories:
  v8: {{source: here}}
links:
  - {{from: mem, to: v8, bandwidth_bytes_per_ns: 64, shared: false, source: here}}
instructions:
  - semantics: |
      instruction prefix_load{head} {{
        in a: f32[B] @ mem;
        out z: f32[8] @ v8 outside zero;
        {loop}
      }}
    emit: semantics
    cost: {{unit: move, interval_cycles: 1, latency_cycles: 1}}
    source: here
"""
    (folder / "m.yaml").write_text(text)
    return search(load_machine(str(folder / "m.yaml")))


def part_of_a_row(part: Index | None) -> LoadRequest:
    return request(element(K + LANE, buffer="V"), "v8", 8, valid=part)


@pytest.mark.parametrize("guard", ["i < B", "B > i", "i <= B - 1", "(i < B) & (i < 8)"])
@pytest.mark.parametrize("part", [None, Index.of(3), Index.of("#n")])
def test_a_mask_written_as_a_guard_is_a_mask(tmp_path: Path, guard: str, part: Index | None) -> None:
    plain = find_operand_load(
        with_load(tmp_path, "(scalar B: 1..8)", "for i in B { z[i] = a[i]; }"), part_of_a_row(part)
    )
    guarded = find_operand_load(
        with_load(tmp_path, "(scalar B: 1..8)", f"for i in 8 if {guard} {{ z[i] = a[i]; }}"),
        part_of_a_row(part),
    )
    assert isinstance(plain, OperandMove)
    assert guarded == plain


@pytest.mark.parametrize("guard", ["i > B", "i < 2*B", "i == B"])
def test_a_guard_that_holds_elsewhere_is_no_mask(tmp_path: Path, guard: str) -> None:
    on = with_load(tmp_path, "(scalar B: 1..8)", f"for i in 8 if {guard} {{ z[i] = a[i % B]; }}")
    assert find_operand_load(on, part_of_a_row(None)) is None


def test_a_precondition_on_a_mask_is_asked_where_the_mask_is_a_number(tmp_path: Path) -> None:
    on = with_load(tmp_path, "(scalar B: 1..8) where B < 8", "for i in B { z[i] = a[i]; }")
    assert isinstance(find_operand_load(on, part_of_a_row(Index.of(3))), OperandMove)
    assert find_operand_load(on, part_of_a_row(None)) is None
    assert find_operand_load(on, part_of_a_row(Index.of("#n"))) is None


def test_an_instruction_is_a_pattern_only_with_one_assignment() -> None:
    every = [item.instruction for item in AVX2.instructions.values()]
    patterns = [(only_assignment(i), p) for i in every if (p := pattern_of(i)) is not None]
    assert any(own is not None and own.op is not None for own, _ in patterns)
    for own, pattern in patterns:
        assert own is not None
        assert (own.op, own.target) == (pattern.statement.assign.op, pattern.target)
        assert own.value.dtype == pattern.value.dtype


def test_instructions_are_found_by_the_outermost_operation_of_what_they_compute() -> None:
    known = Repertoire(AVX2, strict=False)
    for memory, name in known.outputs:
        every = known.producers(memory, name)
        for pattern in every:
            found = known.producers_of(memory, DTYPES[name], pattern.value)
            assert found == [p for p in every if p in found]
            assert pattern in found
            assert all(heads_match(p.value, pattern.value) for p in found)
