/* A small pool of threads for programs that isamap emits. It is yours under any licence. Link with -pthread.

   Threads wait for work: they look for a while, then sleep. The caller of `parallel_for` takes parts as the
   others do, so that a thread that wakes late, or never, holds nobody up. One pool serves one call at a time;
   a second call meanwhile, from another thread or from inside a part, performs its parts by itself. */
#include "isamap_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

enum { LOOKS = 4000, LARGEST_JOB = 1 << 30 };

typedef struct {
  isamap_pool face; /* first: what callers see */
  pthread_mutex_t in_use;
  pthread_mutex_t lock;
  pthread_cond_t work, done;
  /* The number of a job in the upper half, how many of its parts nobody has taken in the lower: a part is
     taken by lowering it, which fails once the job is another one. */
  _Atomic uint64_t job;
  _Atomic int64_t finished;
  _Atomic int sleepers, waiting;
  _Atomic bool stop;
  /* Of the job; whoever has taken a part of it may read them, as it is not over before that part is. */
  int64_t parts;
  void (*body)(void *, int64_t);
  void *argument;
  int workers;
  pthread_t threads[];
} owned_pool;

static void look_again(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Performs parts until none is left to take. */
static void take_parts(owned_pool *pool) {
  uint64_t job = atomic_load(&pool->job);
  while ((uint32_t)job != 0) {
    if (!atomic_compare_exchange_weak(&pool->job, &job, job - 1)) continue;
    int64_t parts = pool->parts;
    pool->body(pool->argument, parts - (int64_t)(uint32_t)job);
    if (atomic_fetch_add(&pool->finished, 1) + 1 == parts && atomic_load(&pool->waiting)) {
      pthread_mutex_lock(&pool->lock);
      pthread_cond_broadcast(&pool->done);
      pthread_mutex_unlock(&pool->lock);
    }
    job = atomic_load(&pool->job);
  }
}

static bool has_work(owned_pool *pool) {
  return (uint32_t)atomic_load(&pool->job) != 0 || atomic_load(&pool->stop);
}

static void *worker(void *given) {
  owned_pool *pool = given;
  while (!atomic_load(&pool->stop)) {
    for (int look = 0; look < LOOKS && !has_work(pool); look++) look_again();
    if (!has_work(pool)) {
      pthread_mutex_lock(&pool->lock);
      atomic_fetch_add(&pool->sleepers, 1);
      while (!has_work(pool)) pthread_cond_wait(&pool->work, &pool->lock);
      atomic_fetch_sub(&pool->sleepers, 1);
      pthread_mutex_unlock(&pool->lock);
    }
    take_parts(pool);
  }
  return NULL;
}

static void perform(owned_pool *pool, int64_t parts, void (*body)(void *, int64_t), void *argument) {
  pool->parts = parts;
  pool->body = body;
  pool->argument = argument;
  atomic_store(&pool->finished, 0);
  uint64_t number = (atomic_load(&pool->job) >> 32) + 1;
  atomic_store(&pool->job, number << 32 | (uint64_t)parts);
  if (atomic_load(&pool->sleepers) > 0) {
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
  }
  take_parts(pool);
  for (int look = 0; look < LOOKS && atomic_load(&pool->finished) < parts; look++) look_again();
  if (atomic_load(&pool->finished) < parts) {
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->waiting, 1);
    while (atomic_load(&pool->finished) < parts) pthread_cond_wait(&pool->done, &pool->lock);
    atomic_store(&pool->waiting, 0);
    pthread_mutex_unlock(&pool->lock);
  }
}

static void parallel_for(isamap_pool *face, int64_t parts, void (*body)(void *, int64_t), void *argument) {
  owned_pool *pool = (owned_pool *)(void *)face;
  if (parts > 1 && parts <= LARGEST_JOB && pthread_mutex_trylock(&pool->in_use) == 0) {
    perform(pool, parts, body, argument);
    pthread_mutex_unlock(&pool->in_use);
    return;
  }
  for (int64_t part = 0; part < parts; part++) body(argument, part);
}

isamap_pool *isamap_pool_create(int threads) {
  int workers = threads > 1 ? threads - 1 : 0;
  owned_pool *pool = calloc(1, sizeof *pool + (size_t)workers * sizeof(pthread_t));
  if (pool == NULL) return NULL;
  pool->face.parallel_for = parallel_for;
  pthread_mutex_init(&pool->in_use, NULL);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->done, NULL);
  while (pool->workers < workers) {
    if (pthread_create(&pool->threads[pool->workers], NULL, worker, pool) != 0) {
      isamap_pool_destroy(&pool->face);
      return NULL;
    }
    pool->workers++;
  }
  return &pool->face;
}

void isamap_pool_destroy(isamap_pool *face) {
  if (face == NULL) return;
  owned_pool *pool = (owned_pool *)(void *)face;
  pthread_mutex_lock(&pool->lock);
  atomic_store(&pool->stop, true);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
  for (int number = 0; number < pool->workers; number++) pthread_join(pool->threads[number], NULL);
  pthread_cond_destroy(&pool->done);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->lock);
  pthread_mutex_destroy(&pool->in_use);
  free(pool);
}
