"""What it takes to hand work to a second thread: the pool that is emitted beside programs, timed.

Its two parts wait for each other, so that each has a thread of its own: a time is that of waking the second
one, of both meeting, and of the caller seeing them end.
"""

from __future__ import annotations

import os

from isamap.codegen.clocking import Timed
from isamap.codegen.timing_source import FIRST, sampler
from isamap.codegen.toolchain import pool_files

FUNCTION = "time_threads"

_BODY = """\
typedef struct { _Atomic int64_t arrived; } meeting;

static void meet(void *argument, int64_t part) {
  meeting *m = argument;
  (void)part;
  int64_t wanted = (atomic_fetch_add(&m->arrived, 1) / 2 + 1) * 2;
  for (int64_t look = 1; atomic_load(&m->arrived) < wanted; ++look)
    if (look % 10000 == 0) sched_yield();
}

void time_threads(unsigned char *const *data, const int64_t *numbers, int64_t trips) {
  (void)data; (void)numbers;
  static isamap_pool *pool;  /* made by the first call, which is not timed; it ends with the process */
  meeting both = {0};
  if (pool == NULL) pool = isamap_pool_create(2);
  if (pool == NULL) return;
  for (int64_t trip = 0; trip < trips; ++trip) pool->parallel_for(pool, 2, meet, &both);
}
"""


def has_two_processors() -> bool:
    """Whether two threads of this process can run at a time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) > 1
    return (os.cpu_count() or 1) > 1


def thread_files(main: str) -> dict[str, str]:
    """The files of the library whose function hands two parts to two threads."""
    includes = ("isamap_pool.c", "sched.h", "stdatomic.h", "stdint.h", "time.h")
    lines = [f'#include "{h}"' if h.endswith(".c") else f"#include <{h}>" for h in includes]
    return {**pool_files(), main: "\n".join([*FIRST, *lines, "", sampler(), _BODY])}


def timed_threads(library: int) -> Timed:
    """The call of that function: a trip starts two parts and sees both end."""
    return Timed(library, FUNCTION, (), (), 1.0)
