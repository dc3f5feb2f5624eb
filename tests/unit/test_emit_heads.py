"""What functions are marked with: attributes before heads of some, behind those of others."""

from __future__ import annotations

from isamap.emit.c_build import with_attributes
from isamap.machine.target_fields import Attributes

SOURCE = """\
#include <arm_sme.h>

static const int8_t image[2] = {
  1, 2,
};

static inline float load_f32(const float *a) {
  return a[0];
}

static __attribute__((always_inline)) inline void gemm_body(
    const float *restrict A,
    int64_t A_s0) {
  for (int64_t m = 0; m < (3); m++) {
    if (load_f32(A) > 0) {
    }
  }
}

static __attribute__((noinline)) void gemm_dense(
    const float *restrict A) {
  gemm_body(A, 3);
}

static void gemm_task0(void *shared, int64_t part) {
  gemm_dense(shared);
}

int gemm(const gemm_args *args, void *workspace, gemm_pool *pool) {
  gemm_run(pool, gemm_task0, 3);
"""


def test_functions_are_marked_by_who_calls_them_and_nothing_else_is() -> None:
    marked = with_attributes(SOURCE, Attributes(("ENTERED", 'NEW("za")'), ("WITHIN",)))
    changed = [
        (old, new) for old, new in zip(SOURCE.splitlines(), marked.splitlines(), strict=True) if old != new
    ]
    assert changed == [
        (
            "static inline float load_f32(const float *a) {",
            "static inline float load_f32(const float *a) WITHIN {",
        ),
        ("    int64_t A_s0) {", "    int64_t A_s0) WITHIN {"),
        ("    const float *restrict A) {", "    const float *restrict A) WITHIN {"),
        (
            "static void gemm_task0(void *shared, int64_t part) {",
            'ENTERED NEW("za") static void gemm_task0(void *shared, int64_t part) {',
        ),
        (
            "int gemm(const gemm_args *args, void *workspace, gemm_pool *pool) {",
            'ENTERED NEW("za") int gemm(const gemm_args *args, void *workspace, gemm_pool *pool) {',
        ),
    ]


def test_without_attributes_a_file_stays_as_it_is() -> None:
    assert with_attributes(SOURCE, Attributes()) == SOURCE
