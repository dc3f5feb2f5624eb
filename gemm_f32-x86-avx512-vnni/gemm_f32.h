/* gemm_f32 on x86-avx512-vnni: K = 48, M = 37, N = 50 */
#ifndef ISAMAP_GEMM_F32_H
#define ISAMAP_GEMM_F32_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  gemm_f32_OK = 0, /* done */
  gemm_f32_NULL_POINTER = 1, /* args, a tensor, or a workspace that is needed is missing */
  gemm_f32_POOL_NOT_NULL = 2, /* this program runs on one thread: pool must be NULL */
  gemm_f32_SIZE_OUT_OF_RANGE = 3, /* a run-time size is outside of the range that the program was made for */
  gemm_f32_BAD_STRIDE = 4, /* a stride is no multiple of the element size, not the one it was made for, or lets results overlap */
  gemm_f32_REQUIREMENT_NOT_MET = 5, /* sizes, strides or alignments do not meet the kernel's requirements */
};

/* Strides are in bytes; the last axis of a tensor is dense. Outputs alias no input. */
typedef struct {
  const float *A; /* f32[37, 48], read */
  int64_t A_stride0;
  const float *B; /* f32[48, 50], read */
  int64_t B_stride0;
  float *C; /* f32[37, 50], read and written */
  int64_t C_stride0;
} gemm_f32_args;

/* Reserved for running on several threads: pass NULL. */
typedef struct gemm_f32_pool gemm_f32_pool;

/* How many bytes of workspace a call with these arguments needs; any alignment will do. */
size_t gemm_f32_workspace_bytes(const gemm_f32_args *args);

/* Returns one of the numbers above. Uses no other memory than what it is given. */
int gemm_f32(const gemm_f32_args *args, void *workspace, gemm_f32_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
