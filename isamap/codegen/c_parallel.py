"""Parts of a program for threads: functions of their own, called through the pool that the caller lends.

    static void gemm_part0(const float *restrict A, ..., int64_t part) { ... }    one part
    static void gemm_task0(void *shared, int64_t part) { ... }                    what a pool calls
    gemm_run(pool, 2, gemm_task0, &shared0);                                      all of them

Without a pool the caller's thread performs the parts one after the other: the results are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    """The C identifiers of one region: its struct, its function of one part, what the pool calls."""

    struct: str
    part: str
    task: str


def region_texts(region: Region, parameters: Sequence[tuple[str, str]], body: Sequence[str]) -> list[str]:
    """The struct and the functions of a region.

    `parameters` are (declaration, identifier) of what the region is given; the body is that of one part.
    """
    fields = [f"  {declaration.replace('restrict ', '')};" for declaration, _ in parameters]
    listed = ",\n    ".join([*(declaration for declaration, _ in parameters), "int64_t part"])
    given = ", ".join([*(f"given->{name}" for _, name in parameters), "part"])
    return [
        "typedef struct {",
        *(fields or ["  char unused;"]),
        f"}} {region.struct};",
        "",
        f"static void {region.part}(\n    {listed}) {{",
        *body,
        "}",
        "",
        f"static void {region.task}(void *shared, int64_t part) {{",
        f"  const {region.struct} *given = shared;",
        *([] if parameters else ["  (void)given;"]),
        f"  {region.part}({given});",
        "}",
    ]
