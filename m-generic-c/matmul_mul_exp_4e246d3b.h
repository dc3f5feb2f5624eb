/* matmul_mul_exp_4e246d3b on generic-c */
#ifndef ISAMAP_MATMUL_MUL_EXP_4E246D3B_H
#define ISAMAP_MATMUL_MUL_EXP_4E246D3B_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  matmul_mul_exp_4e246d3b_OK = 0, /* done */
  matmul_mul_exp_4e246d3b_NULL_POINTER = 1, /* args, a tensor, or a workspace that is needed is missing */
  matmul_mul_exp_4e246d3b_POOL_NOT_NULL = 2, /* this program runs on one thread: pool must be NULL */
  matmul_mul_exp_4e246d3b_SIZE_OUT_OF_RANGE = 3, /* a run-time size is outside of the range that the program was made for */
  matmul_mul_exp_4e246d3b_BAD_STRIDE = 4, /* a stride is no multiple of the element size, not the one it was made for, or lets results overlap */
  matmul_mul_exp_4e246d3b_REQUIREMENT_NOT_MET = 5, /* sizes, strides or alignments do not meet the kernel's requirements */
};

/* Strides are in bytes; the last axis of a tensor is dense. Outputs alias no input. */
typedef struct {
  const float *a0; /* f32[2, 8], read */
  int64_t a0_stride0;
  const float *a1; /* f32[8, 4], read */
  int64_t a1_stride0;
  const float *a2; /* f32[1], read */
  float *y1_; /* f32[2, 4], written */
  int64_t y1_stride0;
} matmul_mul_exp_4e246d3b_args;

/* Reserved for running on several threads: pass NULL. */
typedef struct matmul_mul_exp_4e246d3b_pool matmul_mul_exp_4e246d3b_pool;

/* How many bytes of workspace a call with these arguments needs; any alignment will do. */
size_t matmul_mul_exp_4e246d3b_workspace_bytes(const matmul_mul_exp_4e246d3b_args *args);

/* Returns one of the numbers above. Uses no other memory than what it is given. */
int matmul_mul_exp_4e246d3b(const matmul_mul_exp_4e246d3b_args *args, void *workspace, matmul_mul_exp_4e246d3b_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
