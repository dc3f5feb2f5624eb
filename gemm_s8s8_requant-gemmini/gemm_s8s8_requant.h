/* gemm_s8s8_requant on a plain-C model of gemmini: K = 48, M = 37, N = 50 */
#ifndef ISAMAP_GEMM_S8S8_REQUANT_H
#define ISAMAP_GEMM_S8S8_REQUANT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  gemm_s8s8_requant_OK = 0, /* done */
  gemm_s8s8_requant_NULL_POINTER = 1, /* args, a tensor, or a workspace that is needed is missing */
  gemm_s8s8_requant_POOL_NOT_NULL = 2, /* this program runs on one thread: pool must be NULL */
  gemm_s8s8_requant_SIZE_OUT_OF_RANGE = 3, /* a run-time size is outside of the range that the program was made for */
  gemm_s8s8_requant_BAD_STRIDE = 4, /* a stride is no multiple of the element size, not the one it was made for, or lets results overlap */
  gemm_s8s8_requant_REQUIREMENT_NOT_MET = 5, /* sizes, strides or alignments do not meet the kernel's requirements */
};

/* Strides are in bytes; the last axis of a tensor is dense. Outputs alias no input. */
typedef struct {
  const int8_t *A; /* i8[37, 48], read */
  int64_t A_stride0;
  const int8_t *B; /* i8[48, 50], read */
  int64_t B_stride0;
  int8_t *C; /* i8[37, 50], written */
  int64_t C_stride0;
  float scale;
} gemm_s8s8_requant_args;

/* Reserved for running on several threads: pass NULL. */
typedef struct gemm_s8s8_requant_pool gemm_s8s8_requant_pool;

/* How many bytes of workspace a call with these arguments needs; any alignment will do. */
size_t gemm_s8s8_requant_workspace_bytes(const gemm_s8s8_requant_args *args);

/* Returns one of the numbers above. Uses no other memory than what it is given. */
int gemm_s8s8_requant(const gemm_s8s8_requant_args *args, void *workspace, gemm_s8s8_requant_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
