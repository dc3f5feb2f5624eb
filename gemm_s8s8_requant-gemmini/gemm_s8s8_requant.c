/* gemm_s8s8_requant on a plain-C model of gemmini: K = 48, M = 37, N = 50
   Emitted by isamap 0.1.0. Compile with -O2 -fno-strict-aliasing;
   gcc 12 needs -fno-tree-loop-vectorize too, or it loads from behind the last row of a tensor,
   -fno-tree-coalesce-vars and -fno-tree-sink, or it keeps sums on the stack, and
   -fno-tree-loop-distribute-patterns, or it copies rows of a few registers by calls, and
   -fno-predictive-commoning, or it broadcasts out of integer registers;
   with -fno-schedule-insns2 it leaves loads in the order of the schedule. */

#include "gemm_s8s8_requant.h"

#include <math.h>

static inline int8_t saturate_i8(double x) {
  return x != x ? 0 : x >= 128.0 ? (int8_t)(0x7f) : x <= -128.0 ? (int8_t)(-(int8_t)(0x7f) - 1) : (int8_t)x;
}

static inline void mvin(const int8_t *x, int64_t x_s0, int8_t *z, int64_t R, int64_t C) {
  for (int64_t r = 0; r < R; r++) {
    for (int64_t c = 0; c < C; c++) {
      z[c + 16*r] = x[r*x_s0 + c];
    }
  }
}

static inline void mvin_zeros(int8_t *z, int64_t L) {
  for (int64_t i = 0; i < L; i++) {
    z[i] = 0;
  }
}

static inline void matmul_first(const int8_t *a, const int8_t *w, int32_t *c) {
  for (int64_t m = 0; m < 16; m++) {
    for (int64_t n = 0; n < 16; n++) {
      c[16*m + n] = 0;
    }
  }
  for (int64_t m = 0; m < 16; m++) {
    for (int64_t n = 0; n < 16; n++) {
      for (int64_t k = 0; k < 16; k++) {
        c[16*m + n] = (int32_t)((uint32_t)c[16*m + n] + (uint32_t)a[k + 16*m] * (uint32_t)w[16*k + n]);
      }
    }
  }
}

static inline void matmul(const int8_t *a, const int8_t *w, int32_t *c) {
  for (int64_t m = 0; m < 16; m++) {
    for (int64_t n = 0; n < 16; n++) {
      for (int64_t k = 0; k < 16; k++) {
        c[16*m + n] = (int32_t)((uint32_t)c[16*m + n] + (uint32_t)a[k + 16*m] * (uint32_t)w[16*k + n]);
      }
    }
  }
}

static inline void mvout_scaled(const int32_t *x, int8_t *y, int64_t y_s0, int64_t R, int64_t C, float scale) {
  for (int64_t r = 0; r < R; r++) {
    for (int64_t c = 0; c < C; c++) {
      y[r*y_s0 + c] = saturate_i8(rintf((float)x[c + 16*r] * scale));
    }
  }
}

static void gemm_s8s8_requant_body(
    const int8_t *restrict A,
    const int8_t *restrict B,
    int8_t *restrict C,
    int8_t *restrict a_tiles0,
    int8_t *restrict w_tiles0,
    int32_t *c_tiles0,
    int32_t *c_tiles1,
    int64_t A_s0,
    int64_t B_s0,
    int64_t C_s0,
    float scale) {
  { /* s[m, n] = 0;; s[m, n] += i32(A[m, k]) * i32(B[k, n]);; C[m, n] = sat_i8(round(f32(s[m, n]) * scale, even)); */
    { /* stage a */
      for (int64_t k0 = 0; k0 < 3; k0++) {
        for (int64_t m0 = 0; m0 < 3; m0++) {
          if (16 <= (16 < -16*m0 + 37 ? 16 : -16*m0 + 37)) {
            mvin(A + 16*A_s0*m0 + 16*k0, A_s0, a_tiles0 + 768*k0 + 256*m0, 16, 16);
          }
          if ((16 < -16*m0 + 37 ? 16 : -16*m0 + 37) < 16) {
            mvin_zeros(a_tiles0 + 768*k0 + 256*m0, 256);
            mvin(A + 16*A_s0*m0 + 16*k0, A_s0, a_tiles0 + 768*k0 + 256*m0, 16 < (16 < -16*m0 + 37 ? 16 : -16*m0 + 37) ? 16 : 16 < -16*m0 + 37 ? 16 : -16*m0 + 37, 16);
          }
        }
      }
    }
    { /* stage w for iteration 0 */
      for (int64_t k1 = 0; k1 < 3; k1++) {
        for (int64_t n0 = 0; n0 < 2; n0++) {
          mvin(B + 16*B_s0*k1 + 16*n0, B_s0, w_tiles0 + 512*k1 + 256*n0, 16, 16);
        }
      }
    }
    { /* stage w for a later iteration */
      for (int64_t k3 = 0; k3 < 3; k3++) {
        for (int64_t n3 = 0; n3 < 2; n3++) {
          if (16 <= (16 < -16*n3 + 18 ? 16 : -16*n3 + 18)) {
            mvin(B + 16*B_s0*k3 + 16*n3 + 32, B_s0, w_tiles0 + 512*k3 + 256*n3 + 1536, 16, 16);
          }
          if ((16 < -16*n3 + 18 ? 16 : -16*n3 + 18) < 16) {
            mvin_zeros(w_tiles0 + 512*k3 + 256*n3 + 1536, 256);
            mvin(B + 16*B_s0*k3 + 16*n3 + 32, B_s0, w_tiles0 + 512*k3 + 256*n3 + 1536, 16, 16 < (16 < -16*n3 + 18 ? 16 : -16*n3 + 18) ? 16 : 16 < -16*n3 + 18 ? 16 : -16*n3 + 18);
          }
        }
      }
    }
    { /* stage c */
    }
    { /* hold c */
      for (int64_t k4 = 0; k4 < 3; k4++) {
        if (16*k4 <= 0) {
          matmul_first(a_tiles0 + 768*k4, w_tiles0 + 512*k4, c_tiles0);
        }
        if (0 < 16*k4) {
          matmul(a_tiles0 + 768*k4, w_tiles0 + 512*k4, c_tiles0);
        }
        if (16*k4 <= 0) {
          matmul_first(a_tiles0 + 768*k4, w_tiles0 + 512*k4 + 256, c_tiles0 + 256);
        }
        if (0 < 16*k4) {
          matmul(a_tiles0 + 768*k4, w_tiles0 + 512*k4 + 256, c_tiles0 + 256);
        }
        if (16*k4 <= 0) {
          matmul_first(a_tiles0 + 768*k4 + 256, w_tiles0 + 512*k4, c_tiles0 + 512);
        }
        if (0 < 16*k4) {
          matmul(a_tiles0 + 768*k4 + 256, w_tiles0 + 512*k4, c_tiles0 + 512);
        }
        if (16*k4 <= 0) {
          matmul_first(a_tiles0 + 768*k4 + 256, w_tiles0 + 512*k4 + 256, c_tiles0 + 768);
        }
        if (0 < 16*k4) {
          matmul(a_tiles0 + 768*k4 + 256, w_tiles0 + 512*k4 + 256, c_tiles0 + 768);
        }
        if (16*k4 <= 0) {
          matmul_first(a_tiles0 + 768*k4 + 512, w_tiles0 + 512*k4, c_tiles0 + 1024);
        }
        if (0 < 16*k4) {
          matmul(a_tiles0 + 768*k4 + 512, w_tiles0 + 512*k4, c_tiles0 + 1024);
        }
        if (16*k4 <= 0) {
          matmul_first(a_tiles0 + 768*k4 + 512, w_tiles0 + 512*k4 + 256, c_tiles0 + 1280);
        }
        if (0 < 16*k4) {
          matmul(a_tiles0 + 768*k4 + 512, w_tiles0 + 512*k4 + 256, c_tiles0 + 1280);
        }
      }
    }
    { /* write c back */
      for (int64_t m2 = 0; m2 < 3; m2++) {
        for (int64_t n4 = 0; n4 < 2; n4++) {
          if (16 <= (16 < -16*m2 + 37 ? 16 : -16*m2 + 37)) {
            mvout_scaled(c_tiles0 + 512*m2 + 256*n4, C + 16*C_s0*m2 + 16*n4, C_s0, 16, 16, scale);
          }
          if ((16 < -16*m2 + 37 ? 16 : -16*m2 + 37) < 16) {
            mvout_scaled(c_tiles0 + 512*m2 + 256*n4, C + 16*C_s0*m2 + 16*n4, C_s0, 16 < (16 < -16*m2 + 37 ? 16 : -16*m2 + 37) ? 16 : 16 < -16*m2 + 37 ? 16 : -16*m2 + 37, 16, scale);
          }
        }
      }
    }
    { /* stage c */
    }
    { /* hold c */
      for (int64_t k7 = 0; k7 < 3; k7++) {
        if (16*k7 <= 0) {
          matmul_first(a_tiles0 + 768*k7, w_tiles0 + 512*k7 + 1536, c_tiles1);
        }
        if (0 < 16*k7) {
          matmul(a_tiles0 + 768*k7, w_tiles0 + 512*k7 + 1536, c_tiles1);
        }
        if (16*k7 <= 0) {
          matmul_first(a_tiles0 + 768*k7, w_tiles0 + 512*k7 + 1792, c_tiles1 + 256);
        }
        if (0 < 16*k7) {
          matmul(a_tiles0 + 768*k7, w_tiles0 + 512*k7 + 1792, c_tiles1 + 256);
        }
        if (16*k7 <= 0) {
          matmul_first(a_tiles0 + 768*k7 + 256, w_tiles0 + 512*k7 + 1536, c_tiles1 + 512);
        }
        if (0 < 16*k7) {
          matmul(a_tiles0 + 768*k7 + 256, w_tiles0 + 512*k7 + 1536, c_tiles1 + 512);
        }
        if (16*k7 <= 0) {
          matmul_first(a_tiles0 + 768*k7 + 256, w_tiles0 + 512*k7 + 1792, c_tiles1 + 768);
        }
        if (0 < 16*k7) {
          matmul(a_tiles0 + 768*k7 + 256, w_tiles0 + 512*k7 + 1792, c_tiles1 + 768);
        }
        if (16*k7 <= 0) {
          matmul_first(a_tiles0 + 768*k7 + 512, w_tiles0 + 512*k7 + 1536, c_tiles1 + 1024);
        }
        if (0 < 16*k7) {
          matmul(a_tiles0 + 768*k7 + 512, w_tiles0 + 512*k7 + 1536, c_tiles1 + 1024);
        }
        if (16*k7 <= 0) {
          matmul_first(a_tiles0 + 768*k7 + 512, w_tiles0 + 512*k7 + 1792, c_tiles1 + 1280);
        }
        if (0 < 16*k7) {
          matmul(a_tiles0 + 768*k7 + 512, w_tiles0 + 512*k7 + 1792, c_tiles1 + 1280);
        }
      }
    }
    { /* write c back */
      for (int64_t m4 = 0; m4 < 3; m4++) {
        for (int64_t n5 = 0; n5 < 2; n5++) {
          if (16 <= (16 < -16*m4 + 37 ? 16 : -16*m4 + 37) && 16 <= (16 < -16*n5 + 18 ? 16 : -16*n5 + 18)) {
            mvout_scaled(c_tiles1 + 512*m4 + 256*n5, C + 16*C_s0*m4 + 16*n5 + 32, C_s0, 16, 16, scale);
          }
          if ((16 < -16*m4 + 37 ? 16 : -16*m4 + 37) < 16) {
            mvout_scaled(c_tiles1 + 512*m4 + 256*n5, C + 16*C_s0*m4 + 16*n5 + 32, C_s0, 16 < (16 < -16*m4 + 37 ? 16 : -16*m4 + 37) ? 16 : 16 < -16*m4 + 37 ? 16 : -16*m4 + 37, 16 < (16 < -16*n5 + 18 ? 16 : -16*n5 + 18) ? 16 : 16 < -16*n5 + 18 ? 16 : -16*n5 + 18, scale);
          }
          if (16 <= (16 < -16*m4 + 37 ? 16 : -16*m4 + 37) && (16 < -16*n5 + 18 ? 16 : -16*n5 + 18) < 16) {
            mvout_scaled(c_tiles1 + 512*m4 + 256*n5, C + 16*C_s0*m4 + 16*n5 + 32, C_s0, 16 < (16 < -16*m4 + 37 ? 16 : -16*m4 + 37) ? 16 : 16 < -16*m4 + 37 ? 16 : -16*m4 + 37, 16 < (16 < -16*n5 + 18 ? 16 : -16*n5 + 18) ? 16 : 16 < -16*n5 + 18 ? 16 : -16*n5 + 18, scale);
          }
        }
      }
    }
  }
}

size_t gemm_s8s8_requant_workspace_bytes(const gemm_s8s8_requant_args *args) {
  (void)args;
  return 11520 + 63;
}

int gemm_s8s8_requant(const gemm_s8s8_requant_args *args, void *workspace, gemm_s8s8_requant_pool *pool) {
  if (args == NULL || args->A == NULL || args->B == NULL || args->C == NULL || workspace == NULL) return gemm_s8s8_requant_NULL_POINTER;
  if (pool != NULL) return gemm_s8s8_requant_POOL_NOT_NULL;
  int64_t A_s0 = args->A_stride0;
  int64_t B_s0 = args->B_stride0;
  int64_t C_s0 = args->C_stride0;
  if (C_s0 < 50 && C_s0 > -50) return gemm_s8s8_requant_BAD_STRIDE;
  char *space = (char *)(((uintptr_t)workspace + 63) & ~(uintptr_t)63);
  int8_t *a_tiles0 = (int8_t *)(void *)(space + 6144); /* staged tiles */
  int8_t *w_tiles0 = (int8_t *)(void *)(space + 8448); /* staged tiles, 2 times */
  int32_t *c_tiles0 = (int32_t *)(void *)space; /* staged tiles */
  int32_t *c_tiles1 = (int32_t *)(void *)space; /* staged tiles */
  gemm_s8s8_requant_body(args->A, args->B, args->C, a_tiles0, w_tiles0, c_tiles0, c_tiles1, A_s0, B_s0, C_s0, args->scale);
  return gemm_s8s8_requant_OK;
}
