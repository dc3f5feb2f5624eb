/* A small pool of threads for programs that isamap emits. It is yours under any licence. Link with -pthread.

   Threads wait for work: they look for a while, then sleep. Each has parts of its own, the same ones in every
   call of as many parts, whose data its caches may still hold; a thread that is through with them takes those
   of others, so that a thread that wakes late, or never, delays none of them. The caller is the first of the
   threads. One pool serves one call at a time; a second call meanwhile, from another thread or from inside a
   part, performs its parts by itself. */
#include "isamap_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS = 4000, LARGEST_JOB = 1 << 30, LINE = 64 };

typedef struct owned_pool owned_pool;

typedef struct {
  /* The number of a job in the upper half, how many of this thread's parts are not taken yet in the lower: one
     is taken by lowering it, which fails once the job is another one. On a line of its own. */
  _Alignas(LINE) _Atomic uint64_t left;
  owned_pool *pool;
  int place;
  pthread_t thread;
} seat;

struct owned_pool {
  isamap_pool face; /* first: what callers see */
  pthread_mutex_t in_use;
  pthread_mutex_t lock;
  pthread_cond_t work, done;
  _Atomic uint32_t job; /* its number, told once all seats have their parts of it */
  _Atomic int64_t finished;
  _Atomic int sleepers, waiting;
  _Atomic bool stop;
  /* Of the job; a thread that has taken a part of it may read them, as it is not over before that part is. */
  int64_t parts;
  void (*body)(void *, int64_t);
  void *argument;
  int workers;
  seat *seats; /* the caller's, then one for each worker */
};

static void look_again(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* The first part of a seat, and of those behind the last one: all there are. */
static int64_t first_part(const owned_pool *pool, int place) {
  return pool->parts * place / (pool->workers + 1);
}

/* Performs parts of a seat until none is left to take. */
static void take_from(owned_pool *pool, seat *from) {
  uint64_t left = atomic_load(&from->left);
  while ((uint32_t)left != 0) {
    if (!atomic_compare_exchange_weak(&from->left, &left, left - 1)) continue;
    int64_t parts = pool->parts;
    pool->body(pool->argument, first_part(pool, from->place + 1) - (int64_t)(uint32_t)left);
    if (atomic_fetch_add(&pool->finished, 1) + 1 == parts && atomic_load(&pool->waiting)) {
      pthread_mutex_lock(&pool->lock);
      pthread_cond_broadcast(&pool->done);
      pthread_mutex_unlock(&pool->lock);
    }
    left = atomic_load(&from->left);
  }
}

/* Its own parts first, then what is left of others'. */
static void take_parts(owned_pool *pool, int place) {
  for (int next = 0; next <= pool->workers; next++) {
    take_from(pool, &pool->seats[(place + next) % (pool->workers + 1)]);
  }
}

static bool has_work(owned_pool *pool, uint32_t seen) {
  return atomic_load(&pool->job) != seen || atomic_load(&pool->stop);
}

static void *worker(void *given) {
  seat *own = given;
  owned_pool *pool = own->pool;
  uint32_t seen = 0;
  while (!atomic_load(&pool->stop)) {
    for (int look = 0; look < LOOKS && !has_work(pool, seen); look++) look_again();
    if (!has_work(pool, seen)) {
      pthread_mutex_lock(&pool->lock);
      atomic_fetch_add(&pool->sleepers, 1);
      while (!has_work(pool, seen)) pthread_cond_wait(&pool->work, &pool->lock);
      atomic_fetch_sub(&pool->sleepers, 1);
      pthread_mutex_unlock(&pool->lock);
    }
    seen = atomic_load(&pool->job);
    take_parts(pool, own->place);
  }
  return NULL;
}

static void perform(owned_pool *pool, int64_t parts, void (*body)(void *, int64_t), void *argument) {
  pool->parts = parts;
  pool->body = body;
  pool->argument = argument;
  atomic_store(&pool->finished, 0);
  uint32_t number = atomic_load(&pool->job) + 1;
  for (int place = 0; place <= pool->workers; place++) {
    int64_t count = first_part(pool, place + 1) - first_part(pool, place);
    atomic_store(&pool->seats[place].left, (uint64_t)number << 32 | (uint64_t)count);
  }
  atomic_store(&pool->job, number);
  if (atomic_load(&pool->sleepers) > 0) {
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
  }
  take_parts(pool, 0);
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

/* Ends the workers that were started, and gives back what was made: locks and conditions by their number. */
static void end(owned_pool *pool, int started, int made) {
  if (started > 0) {
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
  }
  for (int place = 1; place <= started; place++) pthread_join(pool->seats[place].thread, NULL);
  if (made > 3) pthread_cond_destroy(&pool->done);
  if (made > 2) pthread_cond_destroy(&pool->work);
  if (made > 1) pthread_mutex_destroy(&pool->lock);
  if (made > 0) pthread_mutex_destroy(&pool->in_use);
  free(pool->seats);
  free(pool);
}

isamap_pool *isamap_pool_create(int threads) {
  int workers = threads > 1 ? threads - 1 : 0;
  size_t room = (size_t)(workers + 1) * sizeof(seat);
  owned_pool *pool = calloc(1, sizeof *pool);
  if (pool == NULL) return NULL;
  pool->seats = aligned_alloc(LINE, room);
  int made = 0;
  if (pool->seats != NULL && pthread_mutex_init(&pool->in_use, NULL) == 0) made = 1;
  if (made == 1 && pthread_mutex_init(&pool->lock, NULL) == 0) made = 2;
  if (made == 2 && pthread_cond_init(&pool->work, NULL) == 0) made = 3;
  if (made == 3 && pthread_cond_init(&pool->done, NULL) == 0) made = 4;
  if (made < 4) {
    end(pool, 0, made);
    return NULL;
  }
  memset(pool->seats, 0, room);
  pool->face.parallel_for = parallel_for;
  pool->workers = workers; /* before a thread reads it */
  for (int place = 1; place <= workers; place++) {
    seat *own = &pool->seats[place];
    own->pool = pool;
    own->place = place;
    if (pthread_create(&own->thread, NULL, worker, own) != 0) {
      end(pool, place - 1, made);
      return NULL;
    }
  }
  return &pool->face;
}

void isamap_pool_destroy(isamap_pool *face) {
  if (face == NULL) return;
  owned_pool *pool = (owned_pool *)(void *)face;
  end(pool, pool->workers, 4);
}
