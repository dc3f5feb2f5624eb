"""What descriptions say at their edges and prices heed: links, units, groups of registers, missing moves."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.formulate.build import build_problem, offers
from isamap.ir import Index
from isamap.machine import Machine, at_one_length, list_machines, load_machine, machine_digest
from isamap.machine.costs import cost_value
from isamap.machine.lint import find_warnings
from isamap.match.patterns.address import Location
from isamap.match.patterns.layouts import alignment, stated_alignments
from isamap.plan.problem import Problem
from isamap.scheduler.deciding.space import Space
from isamap.source import Source, TypeProblem, UsageProblem
from isamap.syntax import parse_kernel

MACHINES = Path(__file__).parent.parent / "data" / "machines"

PRODUCT = """kernel product(M, N, K) {{
  in A: {t}[M, K];
  in B: {t}[K, N];
  inout C: {s}[M, N];
  for m in M, n in N, k in K {{ C[m, n] += {product}; }}
}}"""


DUPLICATE = """  # --- array
  - semantics: |
      instruction slow_weights() {
        in w: i8[32, 32] @ spad;
        out b: i8[32, 32] @ weights;
        for k in 32, n in 32 { b[k, n] = w[k, n]; }
      }
    emit: semantics
    cost: {unit: execute, interval_cycles: 64, latency_cycles: 64}
    source: invented

"""


def problem(machine: Machine, dtype: str, sums: str, size: int) -> Problem:
    """Return a product of one size each way, as the machine may perform it."""
    cast = "A[m, k] * B[k, n]" if dtype == sums else f"{sums}(A[m, k]) * {sums}(B[k, n])"
    kernel = parse_kernel(Source("product.ir", PRODUCT.format(t=dtype, s=sums, product=cast)))
    return build_problem(kernel, machine, {"M": size, "N": size, "K": size})


def edited(folder: Path, name: str, old: str, new: str) -> Machine:
    """Return a machine of `tests/data/machines` with one text in place of another."""
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
        assert weights.costs.staged_ns == 32.0
        assert weights.costs.staged_busy_ns == busy


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
    assert [(o.name, o.costs.staged_ns) for o in option.operands if not o.is_accumulator] == [
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
    """Return what bringing an operand costs in place and from a buffer where `dot2` has a condition."""
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
    found = [
        (o.costs.direct_ns, o.costs.staged_ns)
        for option in options
        for o in option.operands
        if o.name == operand
    ]
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


VECTORS = """isamap: 1
name: vectors
summary: vectors whose length the hardware knows
extends: generic-c
sources: {x: "x"}
target: {run: model}
clock_ghz: 1
language: |
  machine Q: 2..16 = 4;
  memory v: registers(count = 32, bytes = 8*Q, named = compiler);
  state mode { on: u8; }
memories:
  v: {source: x}
units: {u: {count: 1, source: x}}
instructions:
  - for: [{V: load, IN: mem, OUT: v}, {V: store, IN: v, OUT: mem}]
    semantics: |
      instruction $V() {
        in a: f32[2*Q] @ $IN;
        out z: f32[2*Q] @ $OUT;
        for i in 2*Q { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: u, interval_cycles: Q, latency_cycles: Q + 1}
    source: x
  - semantics: |
      instruction fma() {
        inout c: f32[2*Q] @ v;
        in a: f32 @ reg;
        in b: f32[2*Q] @ v;
        for i in 2*Q { c[i] += a * b[i]; }
      }
    emit: semantics
    cost: {unit: u, interval_cycles: Q, latency_cycles: 4}
    source: x
  - semantics: |
      instruction switched() {
        inout c: f32[2*Q] @ v;
        in b: f32[2*Q] @ v;
        requires mode.on == 1;
        for i in 2*Q { c[i] += b[i]; }
      }
    emit: semantics
    cost: {unit: u, interval_cycles: Q, latency_cycles: 4}
    source: x
  - semantics: |
      instruction switch_on() {
        sets mode.on = 1;
      }
    emit: semantics
    cost: {unit: u, interval_cycles: 1, latency_cycles: 1}
    source: x
"""


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    path = tmp_path / "vectors.yaml"
    path.write_text(VECTORS)
    return str(path)


@pytest.mark.parametrize(("word", "length"), [("", 8), ("@Q=2", 4), ("@Q=16", 32)])
def test_a_machine_is_matched_at_one_length(vectors: str, word: str, length: int) -> None:
    machine = at_one_length(load_machine(vectors + word))
    assert machine.memories["v"].register_bytes == 4 * length
    assert cost_value(machine.instructions["fma"].cost.interval_ns, {}) == length // 2
    asked = problem(machine, "f32", "f32", 64)
    option = next(o for o in asked.nests[0].options if o.mapping.startswith("fma"))
    assert sorted(axis.tile for axis in option.axes) == [1, 1, length]
    assert machine_digest(vectors + word) == load_machine(vectors + word).digest


@pytest.mark.parametrize(
    ("word", "said"),
    [("@Q=1", "`Q` of vectors is 2..16, not 1"), ("@R=1", "vectors has no constant called `R`")],
)
def test_a_constant_is_one_that_the_machine_has(vectors: str, word: str, said: str) -> None:
    with pytest.raises(UsageProblem) as raised:
        load_machine(vectors + word)
    assert raised.value.diagnostics[0].message == said


@pytest.mark.parametrize("is_set", [True, False])
def test_what_needs_a_state_that_nothing_sets_is_not_issued(tmp_path: Path, *, is_set: bool) -> None:
    vectors = tmp_path / "vectors.yaml"
    vectors.write_text(VECTORS if is_set else VECTORS[: VECTORS.rindex("  - semantics")])
    kernel = parse_kernel(
        Source(
            "sum.ir",
            """kernel sums(M, N) {
      in A: f32[M, N];
      inout C: f32[M, N];
      for m in M, n in N { C[m, n] += A[m, n]; }
    }""",
        )
    )
    machine = at_one_length(load_machine(str(vectors)))
    reasons = [offer.why_not for offer in offers(kernel, machine, {"M": 64, "N": 64})]
    assert ("it requires `mode`, and no instruction sets it" in reasons) is not is_set


def test_a_check_tells_what_is_odd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edited(tmp_path, "edge-npu", "  # --- array\n", DUPLICATE)
    for _ in "ab":  # found, and remembered
        assert main(["hw", "check", str(tmp_path / "edge-npu.yaml")]) == 0
        told = capsys.readouterr()
        assert "edge-npu: fine" in told.out
        assert "warning[duplicate-instruction]: `slow_weights` duplicates `load_weights`" in told.err


@pytest.mark.parametrize("name", list_machines())
def test_nothing_is_odd_in_shipped_machines(name: str) -> None:
    assert list(find_warnings(load_machine(name))) == []
