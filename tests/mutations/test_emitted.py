"""`isamap verify` notices wrong versions of emitted C, and the tool that makes them is right."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from mutations.emitted import (
    Site,
    apart_cache,
    choose_sites,
    choose_sizes,
    compile_mutants,
    find_sites,
    has_same_bits,
    is_caught,
    quick,
    score,
    shipped,
    tokens_of,
)

from isamap.driver import verifying
from isamap.driver.request import Request
from isamap.driver.runnable import prepare

TEXT = """
/* max 1 + 2 */
static float top(float a, float b) { return a > b ? a : b; /* 3 */ }
static void k_body(const float *x, float *y) {
  for (int64_t i = 0; i < 7; i++) {
    y[i] = _mm_sub_ss(x[i], x[i + 1]);
    LAST_USE(y, 5);
  }
}
size_t k_workspace_bytes(const k_args *args) { return 896 + 63; }
"""


def test_sites_are_in_what_computes() -> None:
    """Comments, hints to the compiler and what follows the bodies are left alone."""
    changed = {TEXT[s.start : s.end] for s in find_sites(TEXT)}
    assert changed & {"896", "63", "5", "3", "2"} == set()
    assert {">", "<", "7", "1", "_mm_sub_ss", "x[i], x[i + 1]"} <= changed


def test_a_mutant_differs_in_one_place() -> None:
    for site in find_sites(TEXT):
        before, after = tokens_of(TEXT), tokens_of(site.applied(TEXT))
        assert [t.text for t in before] != [t.text for t in after]
        assert site.applied(TEXT)[: site.start] == TEXT[: site.start]
        assert site.applied(TEXT).endswith(TEXT[site.end :])


def test_each_kind_of_change_has_its_turn() -> None:
    sites = find_sites(TEXT)
    kinds = {site.kind for site in sites}
    assert {site.kind for site in choose_sites(sites, "seed")[: len(kinds)]} == kinds
    assert choose_sites(sites, "seed") == choose_sites(sites, "seed")


@pytest.mark.parametrize(("name", "hw"), [("gemm_f32", "x86-avx2"), ("gemm_u8s8", "generic-c")])
def test_wrong_versions_of_a_kernel_are_noticed(name: str, hw: str) -> None:
    made = score(shipped(name), hw, 6)
    assert not made.failed
    assert made.tried == 6
    assert made.left == ()


def test_a_comparison_that_sees_nothing_catches_nothing() -> None:
    kernel = shipped("gemm_f32")
    prepared = prepare(Request(kernel, "generic-c", choose_sizes(kernel), heuristic="greedy"))
    text = prepared.program.emitted.source
    site = next(s for s in find_sites(text) if s.kind == "bound")
    with apart_cache():
        (compiled,) = compile_mutants(prepared, [site.applied(text)], quick(prepared.machine))
        assert compiled is not None
        assert is_caught(prepared, compiled)
        with patch.object(verifying, "fills_of", return_value=()):
            assert not is_caught(prepared, compiled)


def test_a_change_of_addresses_that_moves_another_element_has_other_bits() -> None:
    kernel = shipped("gemm_f32")
    prepared = prepare(Request(kernel, "x86-avx2", choose_sizes(kernel), heuristic="greedy"))
    text = prepared.program.emitted.source
    at = text.index("_mm256_storeu_ps(C") + len("_mm256_storeu_ps(C")
    with apart_cache():
        assert has_same_bits(prepared, Site("constant", at, at, " + 0"))
        assert not has_same_bits(prepared, Site("constant", at, at, " + 1"))
