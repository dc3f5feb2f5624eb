"""Parts of a program for threads: functions of their own, called through the pool that the caller lends.

    static void gemm_part0(const float *restrict A, ..., int64_t part) { ... }    one part
    static void gemm_task0(void *shared, int64_t part) { ... }                    what a pool calls
    gemm_run(pool, 2, gemm_task0, &shared0);                                      all of them

Without a pool the caller's thread performs the parts one after the other: the results are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isamap.codegen.c_dense import Function

POOL_TYPE = """
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
""".strip().splitlines()


def run_text(name: str) -> list[str]:
    """The function that has all parts performed, with a pool or without."""
    return [
        f"static void {name}_run(",
        f"    {name}_pool *pool, int64_t parts, void (*task)(void *, int64_t), void *shared) {{",
        "  if (pool != NULL && parts > 1) {",
        "    pool->parallel_for(pool, parts, task, shared);",
        "    return;",
        "  }",
        "  for (int64_t part = 0; part < parts; part++) task(shared, part);",
        "}",
    ]


@dataclass(frozen=True, slots=True)
class Region:
    """One region: the C identifiers of its struct and of what the pool calls, and its function of one part.

    The last parameter of that function is the part's number.
    """

    struct: str
    task: str
    part: Function


def region_texts(region: Region, body: Sequence[str]) -> list[str]:
    """The struct and the functions of a region; the body is that of one part."""
    *shared, (_, number) = region.part.parameters
    fields = [f"  {declaration.replace('restrict ', '')};" for declaration, _ in shared]
    called = region.part.call([*(f"given->{name}" for _, name in shared), number])
    return [
        "typedef struct {",
        *(fields or ["  char unused;"]),
        f"}} {region.struct};",
        "",
        *region.part.text(body),
        "",
        f"static void {region.task}(void *shared, int64_t {number}) {{",
        f"  const {region.struct} *given = shared;",
        *([] if shared else ["  (void)given;"]),
        *(f"  {line}" for line in called),
        "}",
    ]
