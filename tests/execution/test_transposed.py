"""Products with transposed weights on this processor: packed by transpositions, remainders right as well."""

from __future__ import annotations

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.driver.verifying import all_cases
from isamap.kernels import kernel_path
from isamap.lower.walk import issued_names
from isamap.machine import load_machine, missing_features
from isamap.source import Source

TURNED = """kernel turn(M, N) {
  in X: TYPE[M, N];
  out Y: TYPE[N, M];
  for m in M, n in N { Y[n, m] = X[m, n]; }
}"""
GROUPED = """kernel turn(M, N) {
  in X: TYPE[M, G * N];
  out Y: TYPE[N, G * M];
  for m in M, n in N, p in G { Y[n, G * m + p] = X[m, G * n + p]; }
}"""
NEST = """isamap schedule 1
kernel {name}
machine {hw}
sizes K = {K}, M = {M}, N = {N}
status MANUAL

nest 0 {{
  map {map};
  stage b;
  {loops}
}}
"""
NEST_OF = "for n by {0} {{ for m by {1} {{ stage c; hold; for k by {2} {{ issue; }} }} }}"
SIZES = [{"M": 20, "N": 35, "K": 75}, {"M": 16, "N": 64, "K": 64}]


def is_right(
    text: str, name: str, hw: str, sizes: dict[str, int], used: set[str], schedule: str | None = None
) -> PreparedKernel:
    replay = Source("s.schedule", schedule) if schedule is not None else None
    prepared = prepare(Request(Source(f"{name}.ir", text), hw, {**sizes}, schedule=replay))
    program = prepared.program.compilation.program
    assert program is not None
    assert used <= set(issued_names(program.body))
    cases = list(all_cases(prepared, ("integers", "random"), guard=True))
    assert len(cases) == 2
    assert not [d.render() for case in cases for d in case.problems]
    return prepared


def skip_unless_native(hw: str) -> None:
    if missing := missing_features(load_machine(hw)):
        pytest.skip(f"this computer lacks {', '.join(missing)}")


@pytest.mark.hardware
@pytest.mark.parametrize(
    ("product", "hw", "mapped", "wider", "lanes", "group", "used"),
    [
        ("f32", "x86-avx2", "fma_ymm_f32 { i: n }", "", 8, 1, "8_f32"),
        ("f32", "x86-avx512", "fma_zmm_f32 { i: n }", "", 16, 1, "16_f32"),
        ("bf16", "x86-avx2", "fma_ymm_f32 { i: n }", "f32", 8, 1, "8_bf16_f32"),
        ("bf16", "x86-avx512", "fma_zmm_f32 { i: n }", "f32", 16, 1, "16_bf16_f32"),
        ("bf16", "x86-avx512-bf16", "dpbf16_zmm { i: n, p: k }", "", 16, 2, "16_pairs_bf16"),
        ("s8s8", "x86-avx512-vnni", "dpwssd_zmm { i: n, p: k }", "i16", 16, 2, "16_pairs_i8_i16"),
        ("u8s8", "x86-avx512-vnni", "dpbusd_zmm { i: n, p: k }", "", 16, 4, "16_fours_i8"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_weights_are_packed_by_transpositions(
    product: str,
    hw: str,
    mapped: str,
    wider: str,
    lanes: int,
    group: int,
    used: str,
    sizes: dict[str, int],
) -> None:
    skip_unless_native(hw)
    name = f"gemm_nt_{product}"
    mapped += f" (a = {wider}(A[m, k]), b = {wider}(B[n, k]))" if wider else " (a = A[m, k], b = B[n, k])"
    schedule = NEST.format(name=name, hw=hw, map=mapped, loops=NEST_OF.format(lanes, 1, group), **sizes)
    text = kernel_path(name).read_text(encoding="utf-8")
    prepared = is_right(text, name, hw, sizes, {f"transpose{used}"}, schedule)
    assert prepared.ran_on == "native"


@pytest.mark.hardware
def test_what_blocks_leave_over_takes_smaller_blocks() -> None:
    skip_unless_native("x86-avx512")
    name, hw, sizes = "gemm_nt_f32", "x86-avx512", {"M": 3, "N": 40, "K": 2 * 16 + 8 + 4 + 3}
    mapped = "fma_zmm_f32 { i: n } (a = A[m, k], b = B[n, k])"
    schedule = NEST.format(name=name, hw=hw, map=mapped, loops=NEST_OF.format(16, 1, 1), **sizes)
    used = {"transpose16_f32", "transpose8_f32", "transpose4_f32"}
    is_right(kernel_path(name).read_text(encoding="utf-8"), name, hw, sizes, used, schedule)


@pytest.mark.parametrize(
    ("product", "mapped", "tile", "used"),
    [
        ("bf16", "tdpbf16ps", 32, {"pairs_bf16", "bf16_f32", "f32_bf16"}),
        ("s8s8", "tdpbssd", 64, {"fours_i8", "i32"}),
    ],
)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_tiles_of_swapped_roles_are_packed_brought_and_written_back_by_transpositions(
    product: str, mapped: str, tile: int, used: set[str], sizes: dict[str, int]
) -> None:
    mapped += " { m: n, n: m, k: k, p: k } (a = B[n, k], b = A[m, k]); choose N = 16, Q = 16, R = 16"
    name, hw = f"gemm_nt_{product}", "x86-amx"
    schedule = NEST.format(name=name, hw=hw, map=mapped, loops=NEST_OF.format(16, 16, tile), **sizes)
    text = kernel_path(name).read_text(encoding="utf-8")
    is_right(text, name, hw, sizes, {f"transpose16_{u}" for u in used}, schedule)


@pytest.mark.hardware
@pytest.mark.parametrize(
    ("hw", "text", "used"),
    [
        ("x86-avx2", TURNED.replace("TYPE", "bf16"), "transpose8_bf16"),
        ("x86-avx512", TURNED.replace("TYPE", "f16"), "transpose16_f16"),
        ("x86-avx2", TURNED.replace("TYPE", "u8"), "transpose16_u8"),
        ("x86-avx2", GROUPED.replace("TYPE", "bf16").replace("G", "2"), "transpose8_pairs_bf16"),
        ("x86-avx512", GROUPED.replace("TYPE", "i8").replace("G", "4"), "transpose16_fours_i8"),
    ],
    ids=["halves of 8", "halves of 16", "bytes", "pairs", "fours"],
)
def test_matrices_are_turned_in_blocks(hw: str, text: str, used: str) -> None:
    skip_unless_native(hw)
    is_right(text, "turn", hw, {"M": 96, "N": 160}, {used})
