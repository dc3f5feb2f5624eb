"""Every allocation, lock, thread and call of a driver in emitted C is made to fail in turn.

A call that failed ends with a status, gives back all that was taken, and the next one is right.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from isamap.cli import main
from isamap.emit import c_build

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

HEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long left, live; /* calls until one fails, and what was taken and is not given back */
static int fails(void) { return left > 0 && --left == 0; }
static void *taken(void *made) { live += made != NULL; return made; }
static void *failing_malloc(size_t n) { return fails() ? NULL : taken(malloc(n)); }
static void *failing_calloc(size_t n, size_t size) { return fails() ? NULL : taken(calloc(n, size)); }
static void *failing_aligned_alloc(size_t to, size_t n) { return fails() ? NULL : taken(aligned_alloc(to, n)); }
static void failing_free(void *p) { live -= p != NULL; free(p); }
#define FAILING(type, name, taken, given) \\
  static int failing_##name taken { if (fails()) return EAGAIN; live++; return pthread_##name given; }
FAILING(, create, (pthread_t *t, const void *a, void *(*f)(void *), void *x), (t, a, f, x))
FAILING(, mutex_init, (pthread_mutex_t *m, const pthread_mutexattr_t *a), (m, a))
FAILING(, cond_init, (pthread_cond_t *c, const pthread_condattr_t *a), (c, a))
static int given_back(int status) { live--; return status; }
#define malloc(n) failing_malloc(n)
#define calloc(n, size) failing_calloc(n, size)
#define aligned_alloc(to, n) failing_aligned_alloc(to, n)
#define free(p) failing_free(p)
#define pthread_create failing_create
#define pthread_mutex_init failing_mutex_init
#define pthread_cond_init failing_cond_init
#define pthread_join(...) given_back(pthread_join(__VA_ARGS__))
#define pthread_mutex_destroy(...) given_back(pthread_mutex_destroy(__VA_ARGS__))
#define pthread_cond_destroy(...) given_back(pthread_cond_destroy(__VA_ARGS__))
"""

POOL = """
#include "isamap_pool.c"
static _Atomic int64_t sum;
static void add(void *x, int64_t part) { (void)x; atomic_fetch_add(&sum, part); }
static int call(void) {
  isamap_pool *pool = isamap_pool_create(4);
  if (pool == NULL) return 1;
  sum = 0;
  pool->parallel_for(pool, 100, add, NULL);
  isamap_pool_destroy(pool);
  return sum == 4950 ? 0 : 99;
}
"""

PROGRAM = """
#include "gemm_f32.c"
static float A[24][24], B[24][24], C[24][24];
static int call(void) {
  for (int i = 0; i < 24; i++) for (int j = 0; j < 24; j++) {
    A[i][j] = (float)(i - j), B[i][j] = (float)(i % 3 + j), C[i][j] = 1;
  }
  gemm_f32_args args = {.A = &A[0][0], .B = &B[0][0], .C = &C[0][0]};
  STRIDES
  void *space = (malloc)(gemm_f32_workspace_bytes(&args) + 1);
  int status = gemm_f32(&args, space, NULL);
  (free)(space);
  for (int i = 0; i < 24 && CHECKS && status == 0; i++) for (int j = 0; j < 24; j++) {
    float right = 1;
    for (int k = 0; k < 24; k++) right += A[i][k] * B[k][j];
    if (C[i][j] != right) return 99;
  }
  return status;
}
"""

DRIVER = """
/* A driver of OpenCL whose objects are counted, and which takes no object that it has not made. */
static int object;
static int has(const void *one) { return one == &object; }
static void *make(int allowed, int *error) {
  if (!allowed) abort();
  *error = fails() ? -6 : 0;
  return *error ? NULL : (live++, &object);
}
static int32_t say(int allowed) { if (!allowed) abort(); return fails() ? -6 : 0; }
static int32_t drop(void *one) { if (!has(one)) abort(); live--; return 0; }
static int32_t platforms(uint32_t n, void **p, uint32_t *c) { (void)n, (void)c; *p = &object; return say(1); }
static int32_t devices(void *p, uint64_t t, uint32_t n, void **d, uint32_t *c) {
  (void)t, (void)n, (void)c; *d = &object; return say(has(p));
}
static void *context(const void *p, uint32_t n, void **d, void *f, void *x, int *e) {
  (void)p, (void)n, (void)f, (void)x; return make(has(*d), e);
}
static void *queue(void *c, void *d, uint64_t p, int *e) { (void)p; return make(has(c) && has(d), e); }
static void *program(void *c, uint32_t n, const char **t, const size_t *s, int *e) {
  (void)n, (void)s; return make(has(c) && *t != NULL, e);
}
static int32_t build(void *p, uint32_t n, void **d, const char *o, void *f, void *x) {
  (void)n, (void)d, (void)o, (void)f, (void)x; return say(has(p));
}
static void *buffer(void *c, uint64_t f, size_t n, void *at, int *e) {
  (void)f, (void)n, (void)at; return make(has(c), e);
}
static void *kernel(void *p, const char *n, int *e) { (void)n; return make(has(p), e); }
static int32_t argument(void *k, uint32_t n, size_t s, const void *v) {
  (void)n, (void)s; return say(has(k) && v != NULL);
}
static int32_t launch(
    void *q, void *k, uint32_t n, const size_t *o, const size_t *a, const size_t *l, uint32_t w, const void *e,
    void *x) {
  (void)n, (void)o, (void)a, (void)l, (void)w, (void)e, (void)x; return say(has(q) && has(k));
}
static void *map(
    void *q, void *m, uint32_t b, uint64_t f, size_t o, size_t n, uint32_t w, const void *l, void *x, int *e) {
  (void)b, (void)f, (void)o, (void)n, (void)w, (void)l, (void)x;
  *e = say(has(q) && has(m)); return *e ? NULL : &object;
}
static int32_t unmap(void *q, void *m, void *at, uint32_t w, const void *l, void *x) {
  (void)w, (void)l, (void)x; return say(has(q) && has(m) && has(at));
}
static int32_t finish(void *q) { return say(has(q)); }
static void *find(void *library, const char *name) {
  static const struct { const char *name; void *function; } all[] = {
    {"clGetPlatformIDs", platforms}, {"clGetDeviceIDs", devices}, {"clCreateContext", context},
    {"clCreateCommandQueue", queue}, {"clCreateProgramWithSource", program}, {"clBuildProgram", build},
    {"clCreateBuffer", buffer}, {"clCreateKernel", kernel}, {"clSetKernelArg", argument},
    {"clEnqueueNDRangeKernel", launch}, {"clEnqueueMapBuffer", map}, {"clEnqueueUnmapMemObject", unmap},
    {"clFinish", finish}, {"clReleaseKernel", drop}, {"clReleaseMemObject", drop}, {"clReleaseProgram", drop},
    {"clReleaseCommandQueue", drop}, {"clReleaseContext", drop},
  };
  for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
    if (has(library) && strcmp(all[n].name, name) == 0) return all[n].function;
  }
  abort();
}
static void *open_library(void) { return fails() ? NULL : &object; }
#define dlopen(...) open_library()
#define dlsym find
"""

MAIN = """
int main(void) {
  for (long n = 1;; n++) {
    left = n;
    int status = call(), was_failed = left == 0;
    left = 0;
    if (status == 99 || live != 0 || was_failed != (status != 0) || call() != 0 || live != 0) {
      printf("call %ld that fails: status %d, %ld kept\\n", n, status, live);
      return 1;
    }
    if (!was_failed) return printf("%ld calls failed in turn\\n", n - 1), 0;
  }
}
"""


def failed_in_turn(folder: Path, text: str) -> int:
    """Return how many calls were made to fail, each in a run of its own."""
    (folder / "harness.c").write_text(HEAD + text + MAIN)
    flags = ["-std=gnu11", "-O1", "-g", "-Wno-unused-function", "-w", "-pthread", "-I", str(folder)]
    program = str(folder / "harness")
    built = subprocess.run(
        ["gcc", *flags, "-o", program, str(folder / "harness.c"), "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-3000:]
    ran = subprocess.run([program], capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, (ran.returncode, ran.stdout, ran.stderr[-2000:])
    found = re.fullmatch(r"(\d+) calls failed in turn\n", ran.stdout)
    assert found is not None
    return int(found[1])


def emitted(folder: Path, *more: str, checks: bool) -> str:
    sizes = ("-D", "M=24", "N=24", "K=24", "--heuristic", "greedy")
    assert (
        main(["compile", "gemm_f32", "--hw", "opencl-simt", *sizes, *more, "-o", str(folder / "out"), "-q"])
        == 0
    )
    for path in (folder / "out").iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    header = (folder / "gemm_f32.h").read_text()
    strides = "".join(
        f"args.{name} = {96 if 'stride' in name else 24};" for name in re.findall(r"int64_t (\w+);", header)
    )
    return PROGRAM.replace("STRIDES", strides).replace("CHECKS", str(int(checks)))


def test_a_pool_of_threads_is_whole_or_not_there(tmp_path: Path) -> None:
    for name in ("isamap_pool.c", "isamap_pool.h"):
        shutil.copy(Path(c_build.__file__).with_name(name), tmp_path)
    assert failed_in_turn(tmp_path, POOL) == 9, "two allocations, four locks and conditions, three threads"


@pytest.mark.exhaustive
def test_a_model_of_lanes_tells_that_memory_lacks(tmp_path: Path) -> None:
    assert failed_in_turn(tmp_path, emitted(tmp_path, "--model", checks=True)) >= 12


@pytest.mark.exhaustive
def test_a_host_of_a_device_gives_back_what_it_took(tmp_path: Path) -> None:
    assert failed_in_turn(tmp_path, DRIVER + emitted(tmp_path, checks=False)) >= 20
