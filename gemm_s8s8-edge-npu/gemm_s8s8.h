/* gemm_s8s8 on a plain-C model of edge-npu: K = 256, M = 256, N = 256 */
#ifndef ISAMAP_GEMM_S8S8_H
#define ISAMAP_GEMM_S8S8_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  gemm_s8s8_OK = 0, /* done */
  gemm_s8s8_NULL_POINTER = 1, /* args, a tensor, or a workspace that is needed is missing */
  gemm_s8s8_POOL_NOT_NULL = 2, /* this program runs on one thread: pool must be NULL */
  gemm_s8s8_SIZE_OUT_OF_RANGE = 3, /* a run-time size is outside of the range that the program was made for */
  gemm_s8s8_BAD_STRIDE = 4, /* a stride is no multiple of the element size, not the one it was made for, or lets results overlap */
  gemm_s8s8_REQUIREMENT_NOT_MET = 5, /* sizes, strides or alignments do not meet the kernel's requirements */
};

/* Strides are in bytes; the last axis of a tensor is dense. Outputs alias no input. */
typedef struct {
  const int8_t *A; /* i8[256, 256], read */
  int64_t A_stride0;
  const int8_t *B; /* i8[256, 256], read */
  int64_t B_stride0;
  int32_t *C; /* i32[256, 256], read and written */
  int64_t C_stride0;
} gemm_s8s8_args;

/* Reserved for running on several threads: pass NULL. */
typedef struct gemm_s8s8_pool gemm_s8s8_pool;

/* How many bytes of workspace a call with these arguments needs; any alignment will do. */
size_t gemm_s8s8_workspace_bytes(const gemm_s8s8_args *args);

/* Returns one of the numbers above. Uses no other memory than what it is given. */
int gemm_s8s8(const gemm_s8s8_args *args, void *workspace, gemm_s8s8_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
