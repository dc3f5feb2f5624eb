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
    have_same_terms,
    is_caught,
    quick,
    score,
    shipped,
    start_of_body,
    tokens_of,
)
from mutations.terms import Unknown, with_hashes

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


def test_a_change_of_addresses_that_moves_another_element_has_other_terms() -> None:
    kernel = shipped("gemm_f32")
    prepared = prepare(Request(kernel, "x86-avx2", choose_sizes(kernel), heuristic="greedy"))
    text = prepared.program.emitted.source
    at = text.index("_mm256_storeu_ps(C") + len("_mm256_storeu_ps(C")
    sites = [Site("constant", at, at, new) for new in (" + 0", " + 1")]
    with apart_cache():
        assert have_same_terms(prepared, sites) == [True, False]


def test_each_maximum_of_a_softmax_that_becomes_a_minimum_is_noticed() -> None:
    sizes = {"M": 3, "N": 37}
    prepared = prepare(Request(shipped("softmax_f32"), "x86-avx2", sizes, heuristic="greedy"))
    text = prepared.program.emitted.source
    sites = [s for s in find_sites(text) if s.kind == "extreme" and "max" in text[s.start : s.end]]
    assert len(sites) >= 15
    with apart_cache():
        programs = compile_mutants(prepared, [s.applied(text) for s in sites], quick(prepared.machine))
        left = [
            text.count("\n", 0, site.start) + 1
            for site, compiled in zip(sites, programs, strict=True)
            if compiled is None or not is_caught(prepared, compiled)
        ]
    assert left == []


KERNEL = """
static inline float twice_f32(float a) {
  float z;
  z = a + a;
  return z;
}

static inline float load_f32(const float *a) {
  float z;
  z = a[0];
  return z;
}

static void k_body(
    const float *x,
    float *y) {
  for (int64_t i = 0; i < 7; i++) {
    float v0;
    v0 = load_f32(x + i);
    float v1;
    v1 = twice_f32(v0);
    store(v1, y + i);
  }
}

size_t k_workspace_bytes(const k_args *args) { return 0; }
"""


def test_operations_become_hashes_and_moves_stay() -> None:
    known = KERNEL.replace("store(v1, y + i)", "memcpy(y + i, &v1, 4)")
    hashed = with_hashes(known, known.index("static void k_body"))
    assert "v1 = hashed_twice_f32(v0);" in hashed
    assert "v0 = load_f32(x + i);" in hashed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("store(v1, y + i)", "store(v1, y + i)"),
        ("store(v1, y + i)", "memcpy(y + i, &v1, v0 < 1)"),
        ("store(v1, y + i)", "memcpy(y + i, &v1, x[i])"),
        ("z = a[0];", "z = a[0] * 2;"),
    ],
)
def test_what_is_not_known_to_move_bits_is_refused(old: str, new: str) -> None:
    text = (
        KERNEL.replace("store(v1, y + i)", "memcpy(y + i, &v1, 4)") if old != "store(v1, y + i)" else KERNEL
    )
    text = text.replace(old, new)
    with pytest.raises(Unknown):
        with_hashes(text, text.index("static void k_body"))


def test_a_mutant_that_is_caught_has_other_terms() -> None:
    """Otherwise equal terms would be no proof."""
    kernel = shipped("gemm_s8s8")
    prepared = prepare(Request(kernel, "x86-avx2", choose_sizes(kernel), heuristic="greedy"))
    text = prepared.program.emitted.source
    sites = choose_sites([s for s in find_sites(text) if s.start >= start_of_body(text)], "seed")[:12]
    with apart_cache():
        programs = compile_mutants(prepared, [s.applied(text) for s in sites], quick(prepared.machine))
        caught = [s for s, c in zip(sites, programs, strict=True) if c is not None and is_caught(prepared, c)]
        assert len(caught) > 6
        assert not any(have_same_terms(prepared, caught))
