/* gemm_f32 on x86-avx2: K = 8, M = 8, N = 8
   Emitted by isamap 0.1.0. Compile with -O3 -std=c11 -mavx2 -mfma -mf16c -fno-strict-aliasing;
   gcc 12 needs -fno-tree-loop-vectorize too, or it loads from behind the last row of a tensor,
   -fno-tree-coalesce-vars and -fno-tree-sink, or it keeps sums on the stack, and
   -fno-tree-loop-distribute-patterns, or it copies rows of a few registers by calls, and
   -fno-predictive-commoning, or it broadcasts out of integer registers;
   with -fno-schedule-insns2 it leaves loads in the order of the schedule. */

#include "gemm_f32.h"

#include <immintrin.h>

#if defined(__aarch64__)
#define VECTOR_CLASS "w"
#elif defined(__AVX512F__)
#define VECTOR_CLASS "v"
#elif defined(__SSE2__)
#define VECTOR_CLASS "x"
#endif

/* Read once: compilers would read memory again for each of the two or three instructions that use it. */
#ifdef VECTOR_CLASS
#define READ_ONCE(x) __asm__("" : "+" VECTOR_CLASS(x))
#else
#define READ_ONCE(x) ((void)0)
#endif

/* The last use of x: without it, compilers end the sum before in its register, and move it back later. */
#ifdef VECTOR_CLASS
#define LAST_USE(x, sum) __asm__("" : "+" VECTOR_CLASS(sum) : VECTOR_CLASS(x))
#else
#define LAST_USE(x, sum) ((void)0)
#endif

static __attribute__((always_inline)) inline void gemm_f32_body(
    const float *restrict A,
    const float *restrict B,
    float *restrict C,
    int64_t A_s0,
    int64_t B_s0,
    int64_t C_s0) {
  { /* C[m, n] += A[m, k] * B[k, n]; */
    { /* hold c */
      __m256 v0;
      v0 = _mm256_loadu_ps(C);
      __m256 v1;
      v1 = _mm256_loadu_ps(C + C_s0);
      __m256 v2;
      v2 = _mm256_loadu_ps(C + 2*C_s0);
      __m256 v3;
      v3 = _mm256_loadu_ps(C + 3*C_s0);
      __m256 v4;
      v4 = _mm256_loadu_ps(C + 4*C_s0);
      __m256 v5;
      v5 = _mm256_loadu_ps(C + 5*C_s0);
      __m256 v6;
      v6 = _mm256_loadu_ps(C + 6*C_s0);
      __m256 v7;
      v7 = _mm256_loadu_ps(C + 7*C_s0);
      for (int64_t k0 = 0; k0 < 8; k0++) {
        __m256 v8;
        v8 = _mm256_set1_ps(*(A + k0));
        __m256 v9;
        v9 = _mm256_loadu_ps(B + B_s0*k0);
        READ_ONCE(v9);
        v0 = _mm256_fmadd_ps(v8, v9, v0);
        __m256 v10;
        v10 = _mm256_set1_ps(*(A + A_s0 + k0));
        v1 = _mm256_fmadd_ps(v10, v9, v1);
        __m256 v11;
        v11 = _mm256_set1_ps(*(A + 2*A_s0 + k0));
        v2 = _mm256_fmadd_ps(v11, v9, v2);
        __m256 v12;
        v12 = _mm256_set1_ps(*(A + 3*A_s0 + k0));
        v3 = _mm256_fmadd_ps(v12, v9, v3);
        __m256 v13;
        v13 = _mm256_set1_ps(*(A + 4*A_s0 + k0));
        v4 = _mm256_fmadd_ps(v13, v9, v4);
        __m256 v14;
        v14 = _mm256_set1_ps(*(A + 5*A_s0 + k0));
        v5 = _mm256_fmadd_ps(v14, v9, v5);
        __m256 v15;
        v15 = _mm256_set1_ps(*(A + 6*A_s0 + k0));
        v6 = _mm256_fmadd_ps(v15, v9, v6);
        __m256 v16;
        v16 = _mm256_set1_ps(*(A + 7*A_s0 + k0));
        v7 = _mm256_fmadd_ps(v16, v9, v7);
        LAST_USE(v9, v7);
      }
      _mm256_storeu_ps(C, v0);
      _mm256_storeu_ps(C + C_s0, v1);
      _mm256_storeu_ps(C + 2*C_s0, v2);
      _mm256_storeu_ps(C + 3*C_s0, v3);
      _mm256_storeu_ps(C + 4*C_s0, v4);
      _mm256_storeu_ps(C + 5*C_s0, v5);
      _mm256_storeu_ps(C + 6*C_s0, v6);
      _mm256_storeu_ps(C + 7*C_s0, v7);
    }
  }
}

static __attribute__((noinline)) void gemm_f32_dense(
    const float *restrict A,
    const float *restrict B,
    float *restrict C) {
  gemm_f32_body(A, B, C, 8, 8, 8);
}

static __attribute__((noinline)) void gemm_f32_strided(
    const float *restrict A,
    const float *restrict B,
    float *restrict C,
    int64_t A_s0,
    int64_t B_s0,
    int64_t C_s0) {
  gemm_f32_body(A, B, C, A_s0, B_s0, C_s0);
}

size_t gemm_f32_workspace_bytes(const gemm_f32_args *args) {
  (void)args;
  return 0;
}

int gemm_f32(const gemm_f32_args *args, void *workspace, gemm_f32_pool *pool) {
  (void)workspace;
  if (args == NULL || args->A == NULL || args->B == NULL || args->C == NULL) return gemm_f32_NULL_POINTER;
  if (pool != NULL) return gemm_f32_POOL_NOT_NULL;
  if (args->A_stride0 % 4 != 0) return gemm_f32_BAD_STRIDE;
  int64_t A_s0 = args->A_stride0 / 4;
  if (args->B_stride0 % 4 != 0) return gemm_f32_BAD_STRIDE;
  int64_t B_s0 = args->B_stride0 / 4;
  if (args->C_stride0 % 4 != 0) return gemm_f32_BAD_STRIDE;
  int64_t C_s0 = args->C_stride0 / 4;
  if (C_s0 < 8 && C_s0 > -8) return gemm_f32_BAD_STRIDE;
  if (A_s0 == 8 && B_s0 == 8 && C_s0 == 8) {
    gemm_f32_dense(args->A, args->B, args->C);
  } else {
    gemm_f32_strided(args->A, args->B, args->C, A_s0, B_s0, C_s0);
  }
  return gemm_f32_OK;
}
