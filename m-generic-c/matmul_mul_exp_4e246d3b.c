#define matmul_mul_exp_4e246d3b static __attribute__((always_inline)) inline matmul_mul_exp_4e246d3b
/* matmul_mul_exp_4e246d3b on generic-c
   Emitted by isamap 0.1.0. Compile with -O3 -std=c11 -fno-strict-aliasing;
   gcc 12 needs -fno-tree-loop-vectorize too, or it loads from behind the last row of a tensor,
   -fno-tree-coalesce-vars and -fno-tree-sink, or it keeps sums on the stack, and
   -fno-tree-loop-distribute-patterns, or it copies rows of a few registers by calls, and
   -fno-predictive-commoning, or it broadcasts out of integer registers;
   with -fno-schedule-insns2 it leaves loads in the order of the schedule. */

#include "matmul_mul_exp_4e246d3b.h"

#include <math.h>
#include <string.h>



static inline uint32_t bits_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float of_bits_f32(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint32_t where_f32(int is) {
  return 0u - (uint32_t)is;
}

static inline float all_f32(float x) {
  return x;
}

static inline float multiply_add_f32(float a, float b, float c) {
  return a * b + c;
}

static inline float choose_f32(uint32_t where, float a, float b) {
  return of_bits_f32((bits_f32(a) & where) | (bits_f32(b) & ~where));
}

/* Where a < b, else d. */
static inline float if_less_f32(float a, float b, float c, float d) {
  return choose_f32(where_f32(a < b), c, d);
}

static inline float at_most_f32(float x, float high) {
  return if_less_f32(high, x, high, x);
}

/* To a whole number below 2**22, as adding and taking away 1.5 * 2**23 rounds. */
static inline float nearest_f32(float x) {
  return x + 12582912.0f - 12582912.0f;
}

/* x * 2**n in two factors, as 2**n may lie outside of what floats reach. */
static inline float scale_f32(float x, float n) {
  uint32_t biased = bits_f32(n + 12582912.0f) - 0x4b3fff00u, first = biased >> 1;
  return x * of_bits_f32((first - 1u) << 23) * of_bits_f32((biased - first - 1u) << 23);
}

static inline float exp_f32(float x) {
  const float high = if_less_f32(x, all_f32(-104.0f), all_f32(0.0f), x);
  const float near = at_most_f32(high, all_f32(90.0f));
  const float n = nearest_f32((near * all_f32(1.44269504f)));
  const float r = multiply_add_f32(n, all_f32(0.00021219444f), multiply_add_f32(n, all_f32(-0.693359375f), near));
  const float p = multiply_add_f32(multiply_add_f32(multiply_add_f32(multiply_add_f32(multiply_add_f32(all_f32(0.000198756915f), r, all_f32(0.0013981999507f)), r, all_f32(0.0083334519073f)), r, all_f32(0.041665795894f)), r, all_f32(0.16666665459f)), r, all_f32(0.50000001201f));
  return if_less_f32(x, all_f32(-104.0f), all_f32(0.0f), scale_f32((multiply_add_f32(p, (r * r), r) + all_f32(1.0f)), n));
}

static inline float set_f32(float v) {
  float z;
  z = v;
  return z;
}

static inline float load_f32(const float *a) {
  float z;
  z = a[0];
  return z;
}

static inline float mac_f32(float c, float a, float b) {
  c += a * b;
  return c;
}

static inline float mul_f32(float a, float b) {
  float z;
  z = a * b;
  return z;
}

static inline float exp_f32_2(float a) {
  float z;
  z = exp_f32(a);
  return z;
}

static inline void store_f32(float a, float *z) {
  z[0] = a;
}

static __attribute__((always_inline)) inline void matmul_mul_exp_4e246d3b_body(
    const float *restrict a0,
    const float *restrict a1,
    const float *restrict a2,
    float *restrict y1_,
    int64_t a0_s0,
    int64_t a1_s0,
    int64_t y1_s0) {
  { /* y0[d0, d1] = 0;; y0[d0, d1] += a0[d0, k] * a1[k, d1];; y1[d0, d1] = exp(y0[d0, d1] * a2[0]); */
    { /* hold c */
      float v0;
      v0 = set_f32(0.0f);
      float v1;
      v1 = set_f32(0.0f);
      float v2;
      v2 = set_f32(0.0f);
      float v3;
      v3 = set_f32(0.0f);
      float v4;
      v4 = set_f32(0.0f);
      float v5;
      v5 = set_f32(0.0f);
      float v6;
      v6 = set_f32(0.0f);
      float v7;
      v7 = set_f32(0.0f);
      for (int64_t k0 = 0; k0 < 8; k0++) {
        float v8;
        v8 = load_f32(a0 + k0);
        float v9;
        v9 = load_f32(a1 + a1_s0*k0);
        v0 = mac_f32(v0, v8, v9);
        float v10;
        v10 = load_f32(a0 + a0_s0 + k0);
        v1 = mac_f32(v1, v10, v9);
        float v11;
        v11 = load_f32(a1 + a1_s0*k0 + 1);
        v2 = mac_f32(v2, v8, v11);
        v3 = mac_f32(v3, v10, v11);
        float v12;
        v12 = load_f32(a1 + a1_s0*k0 + 2);
        v4 = mac_f32(v4, v8, v12);
        v5 = mac_f32(v5, v10, v12);
        float v13;
        v13 = load_f32(a1 + a1_s0*k0 + 3);
        v6 = mac_f32(v6, v8, v13);
        v7 = mac_f32(v7, v10, v13);
      }
      float v14;
      v14 = load_f32(a2);
      float v15;
      v15 = mul_f32(v0, v14);
      float v16;
      v16 = exp_f32_2(v15);
      store_f32(v16, y1_);
      float v17;
      v17 = mul_f32(v1, v14);
      float v18;
      v18 = exp_f32_2(v17);
      store_f32(v18, y1_ + y1_s0);
      float v19;
      v19 = mul_f32(v2, v14);
      float v20;
      v20 = exp_f32_2(v19);
      store_f32(v20, y1_ + 1);
      float v21;
      v21 = mul_f32(v3, v14);
      float v22;
      v22 = exp_f32_2(v21);
      store_f32(v22, y1_ + y1_s0 + 1);
      float v23;
      v23 = mul_f32(v4, v14);
      float v24;
      v24 = exp_f32_2(v23);
      store_f32(v24, y1_ + 2);
      float v25;
      v25 = mul_f32(v5, v14);
      float v26;
      v26 = exp_f32_2(v25);
      store_f32(v26, y1_ + y1_s0 + 2);
      float v27;
      v27 = mul_f32(v6, v14);
      float v28;
      v28 = exp_f32_2(v27);
      store_f32(v28, y1_ + 3);
      float v29;
      v29 = mul_f32(v7, v14);
      float v30;
      v30 = exp_f32_2(v29);
      store_f32(v30, y1_ + y1_s0 + 3);
    }
  }
}

static __attribute__((noinline)) void matmul_mul_exp_4e246d3b_dense(
    const float *restrict a0,
    const float *restrict a1,
    const float *restrict a2,
    float *restrict y1_) {
  matmul_mul_exp_4e246d3b_body(a0, a1, a2, y1_, 8, 4, 4);
}

static __attribute__((noinline)) void matmul_mul_exp_4e246d3b_strided(
    const float *restrict a0,
    const float *restrict a1,
    const float *restrict a2,
    float *restrict y1_,
    int64_t a0_s0,
    int64_t a1_s0,
    int64_t y1_s0) {
  matmul_mul_exp_4e246d3b_body(a0, a1, a2, y1_, a0_s0, a1_s0, y1_s0);
}

size_t matmul_mul_exp_4e246d3b_workspace_bytes(const matmul_mul_exp_4e246d3b_args *args) {
  (void)args;
  return 0;
}

int matmul_mul_exp_4e246d3b(const matmul_mul_exp_4e246d3b_args *args, void *workspace, matmul_mul_exp_4e246d3b_pool *pool) {
  (void)workspace;
  if (args == NULL || args->a0 == NULL || args->a1 == NULL || args->a2 == NULL || args->y1_ == NULL) return matmul_mul_exp_4e246d3b_NULL_POINTER;
  if (pool != NULL) return matmul_mul_exp_4e246d3b_POOL_NOT_NULL;
  if (args->a0_stride0 % 4 != 0) return matmul_mul_exp_4e246d3b_BAD_STRIDE;
  int64_t a0_s0 = args->a0_stride0 / 4;
  if (args->a1_stride0 % 4 != 0) return matmul_mul_exp_4e246d3b_BAD_STRIDE;
  int64_t a1_s0 = args->a1_stride0 / 4;
  if (args->y1_stride0 % 4 != 0) return matmul_mul_exp_4e246d3b_BAD_STRIDE;
  int64_t y1_s0 = args->y1_stride0 / 4;
  if (y1_s0 < 4 && y1_s0 > -4) return matmul_mul_exp_4e246d3b_BAD_STRIDE;
  if (a0_s0 == 8 && a1_s0 == 4 && y1_s0 == 4) {
    matmul_mul_exp_4e246d3b_dense(args->a0, args->a1, args->a2, args->y1_);
  } else {
    matmul_mul_exp_4e246d3b_strided(args->a0, args->a1, args->a2, args->y1_, a0_s0, a1_s0, y1_s0);
  }
  return matmul_mul_exp_4e246d3b_OK;
}
#undef matmul_mul_exp_4e246d3b

int matmul_mul_exp_4e246d3b_cdd0ba13(const matmul_mul_exp_4e246d3b_args *args, void *workspace, matmul_mul_exp_4e246d3b_pool *pool) {
  matmul_mul_exp_4e246d3b_args known = *args;
  known.a0_stride0 = 32;
  known.a1_stride0 = 16;
  known.y1_stride0 = 16;
  return matmul_mul_exp_4e246d3b(&known, workspace, pool);
}
