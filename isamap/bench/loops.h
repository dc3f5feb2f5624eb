/* Timed loops around functions with a C interface: what is measured is the function, not the way to it.
 *
 * Every loop performs `calls` calls, takes operands from a ring of `ring` copies beginning with number `first`, and
 * returns nanoseconds of all calls together, or -1 where a call reports an error.
 */
#include <stdint.h>
#include <time.h>

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* One product as the C interfaces of BLAS take it: row-major, strides in elements. */
typedef struct {
  int64_t m, n, k, lda, ldb, ldc;
  int32_t transpose_a, transpose_b; /* 0: as it is; 1: transposed; 2: packed before */
  double beta;
  void **a, **b, **c;
} product;

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112, PACKED = 151, FIX_OFFSET = 173 };

#define TIMED(CALL)                              \
  do {                                           \
    int64_t start = now_ns();                    \
    for (int64_t call = 0; call < calls; ++call) { \
      int64_t at = (first + call) % ring;        \
      CALL;                                      \
    }                                            \
    return now_ns() - start;                     \
  } while (0)

int64_t time_program(int (*f)(const void *, void *, void *), void **args, void *workspace, void *pool, int64_t ring,
                     int64_t first, int64_t calls) {
  TIMED(if (f(args[at], workspace, pool) != 0) return -1);
}

#define STORED(HOW) ((HOW) == 2 ? PACKED : (HOW) == 1 ? TRANSPOSE : NO_TRANSPOSE)
#define OPERANDS() STORED(p->transpose_a), STORED(p->transpose_b)
#define SIZES(I) (I) p->m, (I)p->n, (I)p->k

typedef void (*sgemm32)(int, int, int, int32_t, int32_t, int32_t, float, const float *, int32_t, const float *, int32_t,
                        float, float *, int32_t);
typedef void (*sgemm64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t,
                        float, float *, int64_t);
typedef void (*scompute)(int, int, int, int32_t, int32_t, int32_t, const float *, int32_t, const float *, int32_t, float,
                         float *, int32_t);
typedef void (*bf16gemm)(int, int, int, int32_t, int32_t, int32_t, float, const uint16_t *, int32_t, const uint16_t *,
                         int32_t, float, float *, int32_t);
typedef void (*u8gemm)(int, int, int, int, int32_t, int32_t, int32_t, float, const void *, int32_t, int8_t, const void *,
                       int32_t, int8_t, float, int32_t *, int32_t, const int32_t *);

int64_t time_sgemm32(void *f, const product *p, int64_t ring, int64_t first, int64_t calls) {
  TIMED(((sgemm32)f)(ROW_MAJOR, OPERANDS(), SIZES(int32_t), 1, p->a[at], (int32_t)p->lda, p->b[at], (int32_t)p->ldb,
                     (float)p->beta, p->c[at], (int32_t)p->ldc));
}

int64_t time_sgemm64(void *f, const product *p, int64_t ring, int64_t first, int64_t calls) {
  TIMED(((sgemm64)f)(ROW_MAJOR, OPERANDS(), SIZES(int64_t), 1, p->a[at], p->lda, p->b[at], p->ldb, (float)p->beta,
                     p->c[at], p->ldc));
}

/* A product with a packed operand: it has no factor, which belongs to the packing. */
int64_t time_scompute(void *f, const product *p, int64_t ring, int64_t first, int64_t calls) {
  TIMED(((scompute)f)(ROW_MAJOR, OPERANDS(), SIZES(int32_t), p->a[at], (int32_t)p->lda, p->b[at], (int32_t)p->ldb,
                      (float)p->beta, p->c[at], (int32_t)p->ldc));
}

int64_t time_bf16gemm(void *f, const product *p, int64_t ring, int64_t first, int64_t calls) {
  TIMED(((bf16gemm)f)(ROW_MAJOR, OPERANDS(), SIZES(int32_t), 1, p->a[at], (int32_t)p->lda, p->b[at], (int32_t)p->ldb,
                      (float)p->beta, p->c[at], (int32_t)p->ldc));
}

int64_t time_u8gemm(void *f, const product *p, int64_t ring, int64_t first, int64_t calls) {
  static const int32_t zero = 0;
  TIMED(((u8gemm)f)(ROW_MAJOR, OPERANDS(), FIX_OFFSET, SIZES(int32_t), 1, p->a[at], (int32_t)p->lda, 0, p->b[at],
                    (int32_t)p->ldb, 0, (float)p->beta, p->c[at], (int32_t)p->ldc, &zero));
}

/* Both read `bytes`, a multiple of 512, `calls` times; the sum goes to `sink` so that no load is left out. One stream is
 * the fastest way through caches; beyond them eight side by side, their lines asked for ahead, keep more under way. */
typedef int64_t lanes __attribute__((vector_size(64), aligned(64)));

enum { STREAMS = 8, LINES_AHEAD = 16 };

static inline __attribute__((always_inline)) int64_t time_sums(const lanes *data, int64_t lines, int64_t apart,
                                                               int64_t step, int ahead, int64_t calls, int64_t *sink) {
  lanes s0 = {0}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  int64_t start = now_ns();
#define ADD(J) (ahead ? __builtin_prefetch(at + (J) * apart + ahead) : (void)0, s##J ^= at[(J) * apart])
  for (int64_t call = 0; call < calls; ++call) {
    for (int64_t i = 0; i < lines / STREAMS; ++i) {
      const lanes *at = data + i * step;
      ADD(0), ADD(1), ADD(2), ADD(3), ADD(4), ADD(5), ADD(6), ADD(7);
    }
    __asm__ volatile("" ::: "memory");
  }
  int64_t ns = now_ns() - start;
  lanes all = s0 ^ s1 ^ s2 ^ s3 ^ s4 ^ s5 ^ s6 ^ s7;
  for (int l = 0; l < 8; ++l) *sink ^= all[l];
  return ns;
}

int64_t time_reads(const void *data, int64_t bytes, int64_t calls, int64_t *sink) {
  return time_sums(data, bytes / 64, 1, STREAMS, 0, calls, sink);
}

int64_t time_streams(const void *data, int64_t bytes, int64_t calls, int64_t *sink) {
  return time_sums(data, bytes / 64, bytes / 64 / STREAMS, 1, LINES_AHEAD, calls, sink);
}
