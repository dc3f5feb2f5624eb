/* A device as a model on this processor: blocks in random order, and in each block its lanes in random order
   from one barrier to the next. Lanes of one instance of a level may also wait for each other alone. Every access of memory is compared with those of other lanes: two of one place,
   of which one writes, are a race unless a barrier of their block stands between them. So is a read of memory of
   the block that no lane of it has written before, and an access outside of the arrays of the block. */

typedef struct { const void *at; size_t bytes; } isamap_value;
typedef void *isamap_memory;
typedef struct { uintptr_t place; int64_t block, epoch, writer, reader, wrote, read, filled, copied, product_lane, product; } isamap_access;

typedef struct isamap_reserved { _Alignas(64) struct isamap_reserved *next; } isamap_reserved;

enum { ISAMAP_NONE = -1, ISAMAP_MANY = -2, ISAMAP_STACK = 1 << 16, ISAMAP_SHOWN = 4, ISAMAP_OWN = 256, ISAMAP_BEHIND = 64, ISAMAP_SUMS = 64 };

typedef struct {
  int status, race, diverged;
  int64_t lane, block, epoch, together, arrived, in_flight;
  uint64_t random;
  isamap_access *accesses, unseen; /* `unseen`: of a place for which no memory is left */
  size_t room, used;
  ucontext_t host, *lanes;
  int64_t *waits_at, *order, *ended, *arrived_products;
  struct { const void *at; int64_t product; } (*sums)[ISAMAP_SUMS];
  char *ready;
  const void *(*shown)[ISAMAP_SHOWN];
  void (*kernel)(const isamap_value *given);
  const isamap_value *given;
  isamap_value own[ISAMAP_OWN];
  int owned;
  isamap_reserved *reserved;
} isamap_device;

static _Thread_local isamap_device *isamap_here;

#define __kernel static
#define __global
#define __local
#define OWN_OF_BLOCK(type, name, count) /* behind each array lie elements that none has */ \
  static _Thread_local _Alignas(1024) type name[2 * (count) + ISAMAP_BEHIND]; \
  isamap_own(name, (count) * sizeof *name)
#define LANE (isamap_here->lane)
#define BLOCK (isamap_here->block)
#define BARRIER isamap_wait(__LINE__, 0)
#define BARRIER_WITHIN(groups) isamap_wait(__LINE__, groups)
#define PRODUCTS_END (isamap_here->ended[LANE]++)
#define PRODUCTS_WITHIN(groups) isamap_wait_for_products(groups)
#define SHOW(number, place) (isamap_here->shown[LANE][number] = (place))
#define SHOWN(number, lane) (isamap_here->shown[lane][number])
#define TOGETHER(count) (isamap_here->together = (count), isamap_wait(-__LINE__, 0)) /* for registers of others: it orders no accesses of memory */
#define UNROLL
#define LOOP for
#define SWIZZLED(type, place, bits) (*(type *)((uintptr_t)(place) ^ ((uintptr_t)(place) >> 7 & (bits)) << 4))
#define LOAD(is_shared, place) (isamap_touch(&(place), is_shared, 0), (place))
#define STORE(is_shared, place, value) (isamap_touch(&(place), is_shared, 1), (void)((place) = (value)))
#define LOAD_BY_PRODUCT(is_shared, place) (isamap_touch(&(place), is_shared, 3), (place))
#define SUMS_OF_PRODUCT(sums) isamap_touch_sums(sums, 1)
#define TOUCH_SUMS(sums) isamap_touch_sums(sums, 0)
#define STORE_LATER(is_shared, place, value) (isamap_touch(&(place), is_shared, 2), (void)((place) = (value)))
#define LAUNCH(name) name##_lane

static uint64_t isamap_random(isamap_device *d, uint64_t below) {
  d->random ^= d->random << 13;
  d->random ^= d->random >> 7;
  d->random ^= d->random << 17;
  return d->random % below;
}

static int64_t isamap_shuffle(isamap_device *d, int64_t *order, int64_t count) {
  for (int64_t i = 0; i < count; i++) order[i] = i;
  for (int64_t i = count - 1; i > 0; i--) {
    const int64_t other = (int64_t)isamap_random(d, (uint64_t)i + 1), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
  return count;
}

static isamap_access *isamap_slot(isamap_access *all, size_t room, uintptr_t place) {
  size_t at = (size_t)((place >> 1) * UINT64_C(0x9e3779b97f4a7c15)) & (room - 1);
  while (all[at].place != 0 && all[at].place != place) at = (at + 1) & (room - 1);
  return &all[at];
}

static isamap_access *isamap_access_of(isamap_device *d, uintptr_t place) {
  isamap_access *found = isamap_slot(d->accesses, d->room, place);
  if (found->place != 0) return found;
  if (2 * ++d->used > d->room) {
    isamap_access *more = calloc(2 * d->room, sizeof *more);
    if (more == NULL) {
      d->status = ISAMAP_DEVICE_FAILED;
      d->used--;
      found = &d->unseen;
    } else {
      for (size_t at = 0; at < d->room; at++) {
        if (d->accesses[at].place != 0) *isamap_slot(more, 2 * d->room, d->accesses[at].place) = d->accesses[at];
      }
      free(d->accesses);
      d->accesses = more;
      d->room *= 2;
      found = isamap_slot(d->accesses, d->room, place);
    }
  }
  *found = (isamap_access){place, ISAMAP_NONE, 0, ISAMAP_NONE, ISAMAP_NONE, ISAMAP_NONE, ISAMAP_NONE, ISAMAP_NONE, ISAMAP_NONE, 0, 0};
  return found;
}

static int64_t isamap_joined(int64_t known, int64_t one) {
  return known == ISAMAP_NONE || known == one ? one : ISAMAP_MANY;
}

static int isamap_is_other(int64_t known, int64_t one) { return known != ISAMAP_NONE && known != one; }

static void isamap_own(const void *at, size_t bytes) {
  isamap_device *d = isamap_here;
  for (int own = 0; own < d->owned; own++) {
    if (d->own[own].at == at) return;
  }
  if (d->owned == ISAMAP_OWN) d->status = ISAMAP_MODEL_FULL;
  else d->own[d->owned++] = (isamap_value){at, bytes};
}

static int isamap_is_own(const isamap_device *d, uintptr_t place) {
  for (int own = 0; own < d->owned; own++) {
    if (place - (uintptr_t)d->own[own].at < d->own[own].bytes) return 1;
  }
  return 0;
}

static void isamap_wait_for_products(int64_t in_flight) {
  isamap_device *d = isamap_here;
  const int64_t arrived = d->ended[d->lane] - in_flight;
  if (arrived > d->arrived_products[d->lane]) d->arrived_products[d->lane] = arrived;
}

/* Registers to which products in flight add: nothing but products may touch them. */
static void isamap_touch_sums(const void *sums, int of_product) {
  isamap_device *d = isamap_here;
  const int64_t arrived = d->arrived_products[d->lane], product = d->ended[d->lane] + 1;
  int free = -1;
  for (int at = 0; at < ISAMAP_SUMS; at++) {
    if (d->sums[d->lane][at].product <= arrived) free = at;
    else if (d->sums[d->lane][at].at == sums) {
      d->race |= !of_product;
      d->sums[d->lane][at].product = product;
      return;
    }
  }
  if (!of_product) return;
  if (free < 0) {
    d->status = ISAMAP_MODEL_FULL;
    return;
  }
  d->sums[d->lane][free].at = sums;
  d->sums[d->lane][free].product = product;
}

static void isamap_touch(const volatile void *place, int is_shared, int how) {
  isamap_device *d = isamap_here;
  isamap_access *a = isamap_access_of(d, (uintptr_t)place);
  const int writes = how % 3;
  if (writes && is_shared) {
    d->race |= a->filled == d->block && a->product > d->arrived_products[a->product_lane];
    a->product = 0;
  }
  if (how == 3) {
    a->product_lane = d->lane;
    a->product = d->ended[d->lane] + 1;
  }
  if (!is_shared) { /* blocks have no order in one launch */
    d->race |= isamap_is_other(a->wrote, d->block) || (writes && isamap_is_other(a->read, d->block));
    if (writes) a->wrote = isamap_joined(a->wrote, d->block);
    else a->read = isamap_joined(a->read, d->block);
  }
  /* A copy is on its way until a barrier waits for the group of its epoch, for its own lane too. */
  d->race |= a->copied > d->arrived;
  if (writes) a->copied = writes == 2 ? d->epoch : ISAMAP_NONE;
  if (writes) a->filled = d->block;
  d->race |= is_shared && (a->filled != d->block || !isamap_is_own(d, (uintptr_t)place));
  if (a->block != d->block || a->epoch != d->epoch) {
    a->block = d->block;
    a->epoch = d->epoch;
    a->writer = a->reader = ISAMAP_NONE;
  }
  d->race |= isamap_is_other(a->writer, d->lane) || (writes && isamap_is_other(a->reader, d->lane));
  if (writes) a->writer = isamap_joined(a->writer, d->lane);
  else a->reader = isamap_joined(a->reader, d->lane);
}

static void isamap_wait(int64_t line, int64_t in_flight) {
  isamap_device *d = isamap_here;
  d->in_flight = in_flight;
  d->waits_at[d->lane] = line;
  swapcontext(&d->lanes[d->lane], &d->host);
}

static void isamap_begin_lane(void) {
  isamap_device *d = isamap_here;
  d->kernel(d->given);
  isamap_here->waits_at[isamap_here->lane] = 0;
}

/* Let lanes go on that all they wait for have reached: those of one instance, or all of the block. */
static int isamap_meet(isamap_device *d, int64_t lanes) {
  int some = 0;
  for (int64_t first = 0; d->together && first < lanes; first += d->together) {
    int64_t waiting = 0, alike = 0;
    for (int64_t lane = first; lane < first + d->together; lane++) {
      waiting += d->waits_at[lane] < 0;
      alike += d->waits_at[lane] == d->waits_at[first];
    }
    if (waiting && alike != d->together) d->diverged = 1;
    for (int64_t lane = first; waiting && lane < first + d->together; lane++) some |= d->ready[lane] = 1;
  }
  if (some) return 1;
  for (int64_t lane = 0; lane < lanes; lane++) {
    d->diverged |= d->waits_at[lane] != d->waits_at[0];
    d->ready[lane] = 1;
  }
  const int64_t arrived = d->waits_at[0] ? d->epoch - d->in_flight : d->epoch;
  if (arrived > d->arrived) d->arrived = arrived;
  d->epoch++;
  return d->waits_at[0] != 0;
}

static void isamap_run_block(isamap_device *d, int64_t lanes, char *stacks) {
  for (int64_t lane = 0; lane < lanes; lane++) {
    getcontext(&d->lanes[lane]);
    d->lanes[lane].uc_stack.ss_sp = stacks + lane * ISAMAP_STACK;
    d->lanes[lane].uc_stack.ss_size = ISAMAP_STACK;
    d->lanes[lane].uc_link = &d->host;
    makecontext(&d->lanes[lane], isamap_begin_lane, 0);
  }
  for (int64_t lane = 0; lane < lanes; lane++) d->ready[lane] = 1;
  memset(d->ended, 0, (size_t)lanes * sizeof *d->ended);
  memset(d->arrived_products, 0, (size_t)lanes * sizeof *d->arrived_products);
  memset(d->sums, 0, (size_t)lanes * sizeof *d->sums);
  for (int running = 1; running && !d->diverged;) {
    const int64_t count = isamap_shuffle(d, d->order, lanes);
    for (int64_t at = 0; at < count; at++) {
      d->lane = d->order[at];
      if (!d->ready[d->lane]) continue;
      d->ready[d->lane] = 0;
      swapcontext(&d->host, &d->lanes[d->lane]);
    }
    running = isamap_meet(d, lanes);
  }
}

static void isamap_open(isamap_device *d, const char *text) {
  (void)text;
  *d = (isamap_device){.random = UINT64_C(0x2545f4914f6cdd1d), .arrived = ISAMAP_NONE};
}

static isamap_memory isamap_share(isamap_device *d, const void *at, size_t bytes) {
  (void)d;
  (void)bytes;
  return (isamap_memory)(uintptr_t)at;
}

/* Memory of the device alone, as devices have it: no part of it is another array's, too. */
static isamap_memory isamap_reserve(isamap_device *d, void *at, size_t bytes) {
  (void)at;
  isamap_reserved *made = aligned_alloc(64, (sizeof *made + bytes + 63) / 64 * 64);
  if (made == NULL) {
    d->status = ISAMAP_DEVICE_FAILED;
    return NULL;
  }
  made->next = d->reserved;
  d->reserved = made;
  return made + 1;
}

static void isamap_launch(
    isamap_device *d, void (*kernel)(const isamap_value *), int64_t blocks, int64_t lanes,
    const isamap_value *given, int count) {
  (void)count;
  if (d->status != 0 || blocks <= 0) return;
  isamap_device *outer = isamap_here;
  isamap_here = d;
  d->kernel = kernel;
  d->given = given;
  d->used = 0;
  d->owned = 0;
  d->room = 1 << 12;
  d->accesses = calloc(d->room, sizeof *d->accesses);
  d->lanes = calloc((size_t)lanes, sizeof *d->lanes);
  d->waits_at = calloc((size_t)lanes, sizeof *d->waits_at);
  d->order = calloc((size_t)lanes, sizeof *d->order);
  d->ready = calloc((size_t)lanes, sizeof *d->ready);
  d->ended = calloc((size_t)lanes, sizeof *d->ended);
  d->arrived_products = calloc((size_t)lanes, sizeof *d->arrived_products);
  d->sums = calloc((size_t)lanes, sizeof *d->sums);
  d->together = 0;
  d->shown = calloc((size_t)lanes, sizeof *d->shown);
  char *stacks = malloc((size_t)lanes * ISAMAP_STACK);
  int64_t *order = calloc((size_t)blocks, sizeof *order);
  if (!d->accesses || !d->lanes || !d->waits_at || !d->order || !d->ready || !d->shown || !d->ended || !d->arrived_products || !d->sums || !stacks || !order) d->status = ISAMAP_DEVICE_FAILED;
  const int64_t all = d->status == 0 ? isamap_shuffle(d, order, blocks) : 0;
  for (int64_t at = 0; at < all && d->status == 0 && !d->diverged; at++) {
    d->block = order[at];
    isamap_run_block(d, lanes, stacks);
  }
  if (d->status == 0 && d->diverged) d->status = ISAMAP_DIVERGED;
  if (d->status == 0 && d->race) d->status = ISAMAP_RACE;
  free(order);
  free(stacks);
  free(d->order);
  free(d->ready);
  free(d->shown);
  free(d->waits_at);
  free(d->ended);
  free(d->arrived_products);
  free(d->sums);
  free(d->lanes);
  free(d->accesses);
  isamap_here = outer;
}

static int isamap_close(isamap_device *d) {
  for (isamap_reserved *next; d->reserved != NULL; d->reserved = next) {
    next = d->reserved->next;
    free(d->reserved);
  }
  return d->status;
}
