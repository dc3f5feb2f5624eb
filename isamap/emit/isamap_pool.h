/* A small pool of threads for programs that isamap emits. It is yours under any licence.

   isamap_pool *pool = isamap_pool_create(4);
   status = gemm_f32(&args, workspace, pool);
   isamap_pool_destroy(pool); */
#ifndef ISAMAP_POOL_H
#define ISAMAP_POOL_H

#include <stdint.h>

#ifndef ISAMAP_POOL
#define ISAMAP_POOL
/* Threads that the caller lends. `parallel_for` calls body(argument, part) once for each part from 0 to
   parts-1, in any order and on any threads, and returns when all calls have; `pool` is this struct itself,
   which may be the first member of a larger one. isamap_pool.c has one. */
typedef struct isamap_pool {
  void (*parallel_for)(
      struct isamap_pool *pool, int64_t parts, void (*body)(void *argument, int64_t part), void *argument);
} isamap_pool;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A pool of so many threads, the caller's own being one of them; NULL when the system gives none. */
isamap_pool *isamap_pool_create(int threads);

/* Ends the threads. Nothing may run on the pool any more. NULL is ignored. */
void isamap_pool_destroy(isamap_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
