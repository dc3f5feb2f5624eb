/* m on generic-c. Emitted by isamap 0.1.0. */
#ifndef ISAMAP_M_H
#define ISAMAP_M_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const float *x; /* f32[2, 8] */
  const float *k; /* f32[1] */
} m_inputs;

typedef struct {
  float *y; /* f32[2, 4] */
} m_outputs;

/* How many bytes of workspace a call needs; any alignment will do. */
size_t m_workspace_bytes(void);

/* 0, or where a call failed: the number that a kernel returned (its header has them), or 100
   where an index that is data lies outside. Arrays are dense and row-major; results share
   memory with nothing else. No state is kept: several threads may call it, each with a
   workspace of its own. */
int m_run(const m_inputs *inputs, const m_outputs *outputs, void *workspace);

#ifdef __cplusplus
}
#endif
#endif
