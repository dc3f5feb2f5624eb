"""What descriptions say at their edges and prices heed: links, units, groups of registers, missing moves."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from isamap.ir import Index
from isamap.machine import Machine, load_machine
from isamap.machine.costs import cost_value
from isamap.match.patterns.address import Location
from isamap.match.patterns.layouts import alignment, stated_alignments
from isamap.plan.problem import Problem
from isamap.posing.build import build_problem
from isamap.scheduler.deciding.space import Space
from isamap.source import Source, TypeProblem
from isamap.syntax import parse_kernel

MACHINES = Path(__file__).parent.parent / "data" / "machines"

PRODUCT = """kernel product(M, N, K) {{
  in A: {t}[M, K];
  in B: {t}[K, N];
  inout C: {s}[M, N];
  for m in M, n in N, k in K {{ C[m, n] += {product}; }}
}}"""


def problem(machine: Machine, dtype: str, sums: str, size: int) -> Problem:
    """A product of one size each way, as the machine may perform it."""
    cast = "A[m, k] * B[k, n]" if dtype == sums else f"{sums}(A[m, k]) * {sums}(B[k, n])"
    kernel = parse_kernel(Source("product.ir", PRODUCT.format(t=dtype, s=sums, product=cast)))
    return build_problem(kernel, machine, {"M": size, "N": size, "K": size})


def edited(folder: Path, name: str, old: str, new: str) -> Machine:
    """A machine of `tests/data/machines` with one text in place of another."""
    text = (MACHINES / f"{name}.yaml").read_text()
    assert old in text
    (folder / f"{name}.yaml").write_text(text.replace(old, new))
    return load_machine(str(folder / f"{name}.yaml"))


@pytest.mark.parametrize(("bandwidth", "taken"), [(64, 32), (32, 32), (16, 64), (1, 1024)])
def test_a_move_takes_what_its_link_takes(tmp_path: Path, bandwidth: int, taken: int) -> None:
    machine = edited(
        tmp_path,
        "edge-npu",
        "weights, bandwidth_bytes_per_ns: 32",
        f"weights, bandwidth_bytes_per_ns: {bandwidth}",
    )
    cost = machine.instructions["load_weights"].cost
    assert cost_value(cost.interval_ns, {}) == taken
    assert cost_value(cost.latency_ns, {}) == taken


def test_what_a_link_takes_follows_the_sizes_of_a_move(tmp_path: Path) -> None:
    machine = edited(
        tmp_path, "edge-npu", "to: acc, bandwidth_bytes_per_ns: 16", "to: acc, bandwidth_bytes_per_ns: 2"
    )
    cost = machine.instructions["dma_out_i32"].cost
    assert cost_value(cost.interval_ns, {"R": 8, "C": 4}) == 8 * 4 * 4 / 2
    assert cost_value(cost.latency_ns, {"R": 1, "C": 1}) == 101


def test_loads_on_the_unit_that_computes_add_to_it(tmp_path: Path) -> None:
    mine = problem(load_machine(str(MACHINES / "edge-npu.yaml")), "i8", "i32", 64)
    other = problem(
        edited(
            tmp_path, "edge-npu", "{unit: execute, interval_cycles: 32,", "{unit: load, interval_cycles: 32,"
        ),
        "i8",
        "i32",
        64,
    )
    for asked, busy in ((mine, 32.0), (other, 0.0)):
        weights = next(o for o in asked.nests[0].options[0].operands if o.name == "b")
        assert weights.staged_ns == 32.0
        assert weights.staged_busy_ns == busy


def test_a_group_takes_the_registers_that_it_is_made_of() -> None:
    asked = problem(load_machine(str(MACHINES / "register-groups.yaml")), "f32", "f32", 64)
    option = next(o for o in asked.nests[0].options if o.mapping.startswith("ger"))
    taken = {operand.name: operand.takes for operand in option.operands}
    assert taken == {"a": (("vsr", 1),), "b": (("vsr", 1),), "c": (("acc", 1), ("vsr", 4))}
    blocks = Space(0, option, dict(asked.registers), {}).register_blocks()
    most = max(prod(block.values()) for block in blocks)
    assert most == 7  # with eight groups, of 32 registers none is left for an input


def test_registers_of_one_size_are_counted_by_their_own_name() -> None:
    asked = problem(load_machine("x86-avx2"), "f32", "f32", 64)
    assert all(not operand.over for option in asked.nests[0].options for operand in option.operands)


def test_what_is_read_in_place_needs_no_move_into_a_buffer() -> None:
    asked = problem(load_machine(str(MACHINES / "pairs.yaml")), "i16", "i32", 64)
    (option,) = asked.nests[0].options
    assert [(o.name, o.staged_ns) for o in option.operands if not o.is_accumulator] == [
        ("a", None),
        ("b", None),
    ]


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("A[m, k] * B[k, n]", "i32(A[m, k]) * i32(B[k, n])"),
        ("A[m, k] + 2", "i32(A[m, k]) + 2"),
        ("A[m, k] * (B[k, n] - A[m, k])", "i32(A[m, k]) * (i32(B[k, n]) - i32(A[m, k]))"),
        ("A[m, k] - (B[k, n] + A[m, k])", "i32(A[m, k]) - (i32(B[k, n]) + i32(A[m, k]))"),
    ],
)
def test_operands_are_widened_before_they_are_computed_with(value: str, advice: str) -> None:
    with pytest.raises(TypeProblem) as raised:
        parse_kernel(Source("product.ir", PRODUCT.format(t="i8", s="i32", product=value)))
    (found,) = raised.value.diagnostics
    assert found.help is not None
    assert found.help.startswith(f"write `{advice}`: ")
    (edit,) = found.edits
    assert edit.replacement == advice
    parse_kernel(Source("product.ir", PRODUCT.format(t="i8", s="i32", product=edit.replacement)))


def ways(
    folder: Path, condition: str, operand: str = "b", promised: str = ""
) -> tuple[float | None, float | None]:
    """What bringing an operand costs in place and from a buffer where `dot2` has a condition."""
    machine = edited(folder, "pairs", "remove: [load_i16]", "remove: []")
    text = (
        (folder / "pairs.yaml")
        .read_text()
        .replace("instruction dot2() {", f"instruction dot2(){condition} {{")
    )
    (folder / "pairs.yaml").write_text(text)
    machine = load_machine(str(folder / "pairs.yaml"))
    product = PRODUCT.format(t="i16", s="i32", product="i32(A[m, k]) * i32(B[k, n])")
    kernel = parse_kernel(Source("product.ir", product.replace("(M, N, K) {", f"(M, N, K){promised} {{")))
    asked = build_problem(kernel, machine, {"M": 64, "N": 64, "K": 64})
    options = [o for o in asked.nests[0].options if o.mapping.startswith("dot2 { i: n")]
    found = [(o.direct_ns, o.staged_ns) for option in options for o in option.operands if o.name == operand]
    return found[0] if found else (None, None)


def test_a_condition_that_every_place_meets_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    assert ways(tmp_path, " where align(b) >= 2, align(a) >= 1, stride(b, 0) == 1") == ways(
        tmp_path / "with", ""
    )


def test_what_is_not_aligned_comes_from_a_buffer(tmp_path: Path) -> None:
    assert ways(tmp_path, " where align(a) % 4 == 0", "a") == (None, 0.0)


def test_a_kernel_may_promise_an_alignment(tmp_path: Path) -> None:
    operands = "in A: f32[M]; in B: i8[M]; out C: f64[M];"
    where = "align(A) >= 48, align(B) % 128 == 0"
    kernel = f"kernel k(M) where {where} {{ {operands} for m in M {{ C[m] = 0.0; }} }}"
    assert stated_alignments(parse_kernel(Source("k.ir", kernel))) == {"A": 64, "B": 128, "C": 8}


def test_an_address_is_as_aligned_as_all_its_steps() -> None:
    rows = Location("A", Index.of("@m") * 24 + 16, (Index.of(24), Index.of(1)))
    assert alignment(rows, 64, 4, {}) == 32
    assert alignment(rows, 64, 4, {"@m": 2}) == 64
    assert alignment(rows, 16, 4, {}) == 16
    assert alignment(Location("A", Index.of("N") * Index.of("@m"), (Index.of("N"),)), 64, 2, {}) == 2


def test_a_stride_that_is_known_is_compared(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    assert ways(tmp_path, " where stride(b, 0) == 1")[0] is not None
    assert ways(tmp_path / "two", " where stride(b, 0) >= 2")[0] is None
