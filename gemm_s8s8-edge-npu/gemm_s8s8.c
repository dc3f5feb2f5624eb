/* gemm_s8s8 on a plain-C model of edge-npu: K = 256, M = 256, N = 256
   Emitted by isamap 0.1.0. Compile with -O2 -fno-strict-aliasing;
   gcc 12 needs -fno-tree-loop-vectorize too, or it loads from behind the last row of a tensor,
   -fno-tree-coalesce-vars and -fno-tree-sink, or it keeps sums on the stack, and
   -fno-tree-loop-distribute-patterns, or it copies rows of a few registers by calls;
   with -fno-schedule-insns2 it leaves loads in the order of the schedule. */

#include "gemm_s8s8.h"

static inline void dma_in_i8(const int8_t *x, int64_t x_s0, int8_t *z, int64_t R, int64_t C) {
  for (int64_t r = 0; r < R; r++) {
    for (int64_t c = 0; c < C; c++) {
      z[c + 32*r] = x[r*x_s0 + c];
    }
  }
}

static inline void dma_in_i32(const int32_t *x, int64_t x_s0, int32_t *z, int64_t R, int64_t C) {
  for (int64_t r = 0; r < R; r++) {
    for (int64_t c = 0; c < C; c++) {
      z[c + 32*r] = x[r*x_s0 + c];
    }
  }
}

static inline void load_weights(const int8_t *w, int8_t *b) {
  for (int64_t k = 0; k < 32; k++) {
    for (int64_t n = 0; n < 32; n++) {
      b[32*k + n] = w[32*k + n];
    }
  }
}

static inline void stream(const int8_t *a, const int8_t *b, int32_t *c, int64_t M) {
  for (int64_t m = 0; m < M; m++) {
    for (int64_t n = 0; n < 32; n++) {
      for (int64_t k = 0; k < 32; k++) {
        c[32*m + n] = (int32_t)((uint32_t)c[32*m + n] + (uint32_t)a[k + 32*m] * (uint32_t)b[32*k + n]);
      }
    }
  }
}

static inline void dma_out_i32(const int32_t *x, int32_t *y, int64_t y_s0, int64_t R, int64_t C) {
  for (int64_t r = 0; r < R; r++) {
    for (int64_t c = 0; c < C; c++) {
      y[r*y_s0 + c] = x[c + 32*r];
    }
  }
}

static void gemm_s8s8_body(
    const int8_t *restrict A,
    const int8_t *restrict B,
    int32_t *restrict C,
    int8_t *restrict a_tiles0,
    int8_t *restrict b_tiles0,
    int32_t *restrict c_tiles0,
    int64_t A_s0,
    int64_t B_s0,
    int64_t C_s0) {
  { /* C[m, n] += i32(A[m, k]) * i32(B[k, n]); */
    { /* stage a */
      for (int64_t k0 = 0; k0 < 2; k0++) {
        for (int64_t k1 = 0; k1 < 4; k1++) {
          for (int64_t m0 = 0; m0 < 256; m0++) {
            dma_in_i8(A + A_s0*m0 + 128*k0 + 32*k1, 0, a_tiles0 + 32768*k0 + 8192*k1 + 32*m0, 1, 32);
          }
        }
      }
    }
    { /* stage b for turn 0 */
      for (int64_t k2 = 0; k2 < 2; k2++) {
        for (int64_t k3 = 0; k3 < 4; k3++) {
          dma_in_i8(B + 128*B_s0*k2 + 32*B_s0*k3, B_s0, b_tiles0 + 4096*k2 + 1024*k3, 32, 32);
        }
      }
    }
    { /* stage c */
      for (int64_t m1 = 0; m1 < 256; m1++) {
        dma_in_i32(C + C_s0*m1, 0, c_tiles0 + 32*m1, 1, 32);
      }
    }
    { /* stage b for a later turn */
      for (int64_t k4 = 0; k4 < 2; k4++) {
        for (int64_t k5 = 0; k5 < 4; k5++) {
          dma_in_i8(B + 128*B_s0*k4 + 32*B_s0*k5 + 32, B_s0, b_tiles0 + 4096*k4 + 1024*k5 + 8192, 32, 32);
        }
      }
    }
    { /* hold c */
      for (int64_t k6 = 0; k6 < 2; k6++) {
        int8_t v0[1024];
        load_weights(b_tiles0 + 4096*k6, v0);
        stream(a_tiles0 + 32768*k6, v0, c_tiles0, 256);
        int8_t v1[1024];
        load_weights(b_tiles0 + 4096*k6 + 1024, v1);
        stream(a_tiles0 + 32768*k6 + 8192, v1, c_tiles0, 256);
        int8_t v2[1024];
        load_weights(b_tiles0 + 4096*k6 + 2048, v2);
        stream(a_tiles0 + 32768*k6 + 16384, v2, c_tiles0, 256);
        int8_t v3[1024];
        load_weights(b_tiles0 + 4096*k6 + 3072, v3);
        stream(a_tiles0 + 32768*k6 + 24576, v3, c_tiles0, 256);
      }
    }
    for (int64_t n0 = 0; n0 < 7; n0++) {
      { /* stage c */
        for (int64_t m4 = 0; m4 < 256; m4++) {
          dma_in_i32(C + C_s0*m4 + 32*n0 + 32, 0, c_tiles0 + 32*m4 + 8192*((n0 + 1) % 2), 1, 32);
        }
      }
      { /* stage b for a later turn */
        if (32*n0 + 64 < 256) {
          for (int64_t k7 = 0; k7 < 2; k7++) {
            for (int64_t k8 = 0; k8 < 4; k8++) {
              dma_in_i8(B + 128*B_s0*k7 + 32*B_s0*k8 + 32*n0 + 64, B_s0, b_tiles0 + 4096*k7 + 1024*k8 + 8192*(n0 % 2), 32, 32);
            }
          }
        }
      }
      { /* hold c */
        for (int64_t k9 = 0; k9 < 2; k9++) {
          { /* write c of the turn before back */
            for (int64_t share0 = 0; share0 < 128; share0++) {
              dma_out_i32(c_tiles0 + 4096*k9 + 32*share0 + 8192*(n0 % 2), C + 128*C_s0*k9 + C_s0*share0 + 32*n0, 0, 1, 32);
            }
          }
          int8_t v4[1024];
          load_weights(b_tiles0 + 4096*k9 + 8192*((n0 + 1) % 2), v4);
          stream(a_tiles0 + 32768*k9, v4, c_tiles0 + 8192*((n0 + 1) % 2), 256);
          int8_t v5[1024];
          load_weights(b_tiles0 + 4096*k9 + 8192*((n0 + 1) % 2) + 1024, v5);
          stream(a_tiles0 + 32768*k9 + 8192, v5, c_tiles0 + 8192*((n0 + 1) % 2), 256);
          int8_t v6[1024];
          load_weights(b_tiles0 + 4096*k9 + 8192*((n0 + 1) % 2) + 2048, v6);
          stream(a_tiles0 + 32768*k9 + 16384, v6, c_tiles0 + 8192*((n0 + 1) % 2), 256);
          int8_t v7[1024];
          load_weights(b_tiles0 + 4096*k9 + 8192*((n0 + 1) % 2) + 3072, v7);
          stream(a_tiles0 + 32768*k9 + 24576, v7, c_tiles0 + 8192*((n0 + 1) % 2), 256);
        }
      }
    }
    { /* write c of the last turn back */
      for (int64_t m7 = 0; m7 < 256; m7++) {
        dma_out_i32(c_tiles0 + 32*m7 + 8192, C + C_s0*m7 + 224, 0, 1, 32);
      }
    }
  }
}

size_t gemm_s8s8_workspace_bytes(const gemm_s8s8_args *args) {
  (void)args;
  return 147456 + 63;
}

int gemm_s8s8(const gemm_s8s8_args *args, void *workspace, gemm_s8s8_pool *pool) {
  if (args == NULL || args->A == NULL || args->B == NULL || args->C == NULL || workspace == NULL) return gemm_s8s8_NULL_POINTER;
  if (pool != NULL) return gemm_s8s8_POOL_NOT_NULL;
  int64_t A_s0 = args->A_stride0;
  int64_t B_s0 = args->B_stride0;
  if (args->C_stride0 % 4 != 0) return gemm_s8s8_BAD_STRIDE;
  int64_t C_s0 = args->C_stride0 / 4;
  if (C_s0 < 256 && C_s0 > -256) return gemm_s8s8_BAD_STRIDE;
  char *space = (char *)(((uintptr_t)workspace + 63) & ~(uintptr_t)63);
  int8_t *a_tiles0 = (int8_t *)(void *)(space + 65536); /* staged tiles */
  int8_t *b_tiles0 = (int8_t *)(void *)(space + 131072); /* staged tiles, 2 times */
  int32_t *c_tiles0 = (int32_t *)(void *)space; /* staged tiles, 2 times */
  gemm_s8s8_body(args->A, args->B, args->C, a_tiles0, b_tiles0, c_tiles0, A_s0, B_s0, C_s0);
  return gemm_s8s8_OK;
}
