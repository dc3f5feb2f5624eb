/* m on generic-c. Emitted by isamap 0.1.0; the Makefile builds it. */
#include "m.h"
#include "matmul_mul_exp_4e246d3b.h"

int matmul_mul_exp_4e246d3b_cdd0ba13(const matmul_mul_exp_4e246d3b_args *args, void *workspace, matmul_mul_exp_4e246d3b_pool *pool);

static const _Alignas(64) uint64_t words[16] = {
  0x3ed2c13dbea1f218, 0xbe039e973f857114, 0xbf2a4a333faee846, 0x3f6749d23eb3f921, 0xbf3e55f83dc08985, 0xbeea5b0abf6bf632,
  0xbf813b2b3e617ad5, 0xbe230be2be56321f, 0x3e5bcf9a3f0a74db, 0xbf2761503eb5f369, 0x3f48b29ebe04b970, 0xbfa1290f3fbf28c0,
  0x3fac45a53fc1c841, 0x3e8766ba3f480406, 0x3fbaa06cbea0ba7e, 0x3fe69bf93ffae9bf,
};
#define weights ((const unsigned char *)words)

size_t m_workspace_bytes(void) {
  return 63;
}

int m_run(const m_inputs *inputs, const m_outputs *outputs, void *workspace) {
  const uintptr_t mask = 63;
  char *space = (char *)(((uintptr_t)workspace + mask) & ~mask);
  int status = 0;
  (void)space, (void)inputs, (void)outputs;
  {
    matmul_mul_exp_4e246d3b_args args = {.a0 = (const float *)(const void *)inputs->x, .a0_stride0 = 32, .a1 = (const float *)(const void *)(weights + 0), .a1_stride0 = 16, .a2 = (const float *)(const void *)inputs->k, .y1_ = (float *)(void *)outputs->y, .y1_stride0 = 16};
    if ((status = matmul_mul_exp_4e246d3b_cdd0ba13(&args, NULL, NULL)) != 0) return status;
  }
  return status;
}
