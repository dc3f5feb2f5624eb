"""What becomes of each mapping: offered to schedulers, or kept from them with the reason."""

from __future__ import annotations

import pytest

from isamap.formulate.build import Offer, build_problem, offers
from isamap.ir import bind
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit


def all_offers(text: str, machine: str, sizes: dict[str, int]) -> tuple[Offer, ...]:
    kernel = make_guards_explicit(bind(parse_kernel(Source("k.ir", text)), sizes))
    return offers(kernel, load_machine(machine), sizes)


@pytest.mark.parametrize("machine", ["x86-avx2", "x86-amx", "matmul-16x16x16"])
def test_what_is_offered_are_the_options_of_the_problem(machine: str) -> None:
    text = kernel_path("gemm_bf16_f32").read_text(encoding="utf-8")
    if machine == "matmul-16x16x16":
        text = kernel_path("gemm_f32").read_text(encoding="utf-8")
    sizes = {"M": 32, "N": 32, "K": 32}
    found = {o.mapping for o in all_offers(text, machine, sizes) if not o.why_not}
    kernel = make_guards_explicit(bind(parse_kernel(Source("k.ir", text)), sizes))
    (nest,) = build_problem(kernel, load_machine(machine), sizes).nests
    assert found
    assert found <= {option.mapping for option in nest.options}


def test_a_strict_sum_is_kept_from_instructions_that_reorder_it() -> None:
    text = """strict kernel k(M, N, K) {
      in A: f32[M, K];
      in B: f32[K, N];
      inout C: f32[M, N];
      for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; }
    }"""
    found = all_offers(text, "matmul-16x16x16", {"M": 16, "N": 16, "K": 16})
    reasons = {o.why_not for o in found if o.why_not}
    assert "the kernel is strict, and its sum would run in another order" in reasons
