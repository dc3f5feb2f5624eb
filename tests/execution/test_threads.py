"""Kernels in parts, performed by one, two and three threads: the same bits, beside memory that is guarded."""

from __future__ import annotations

import ctypes
from threading import Barrier, get_ident

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request, Size
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.emit.c import EmittedC
from isamap.emit.c_build import pool_files
from isamap.kernels import kernel_path
from isamap.machine import load_machine, missing_features
from isamap.plan.schedule import CountedLoop, NestSchedule, ParallelLoop, Schedule, Stage, UnrolledLoop
from isamap.plan.text import print_schedule
from isamap.run.arguments import make_call
from isamap.run.fills import make_arrays
from isamap.run.runner import run_program
from isamap.run.toolchain import build, compile_library, find_compiler
from isamap.run.worker import load_function, make_arguments
from isamap.source import Source

THREADS = (1, 2, 3)
Step = tuple[str, str, int]


def shipped(name: str) -> Source:
    return Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8"))


def gemm_schedule(
    hw: str, sizes: dict[str, Size], tile: int, loops: tuple[Step, ...], stages: tuple[Stage, ...]
) -> Source:
    """`loops` around a register block of 2 x 2 issues, of a mapping whose issue covers `tile` columns."""
    matched = compile_kernel(Request(shipped("gemm_f32"), hw, sizes), "formulate")
    assert matched.problem is not None
    reference = {"m": 1, "n": tile, "k": 1}
    option = next(
        o for o in matched.problem.nests[0].options if {a.name: a.tile for a in o.axes} == reference
    )
    around = [(ParallelLoop if kind == "par" else CountedLoop)(axis, step) for kind, axis, step in loops]
    block = [CountedLoop("m", 2), CountedLoop("n", 2 * tile)]
    inner = [CountedLoop("k", 1), UnrolledLoop("m", 1), UnrolledLoop("n", tile)]
    hold = len(around) + len(block)
    nest = NestSchedule(0, option.mapping, option.choose, (*around, *block, *inner), stages, hold)
    problem = matched.problem
    return Source("x", print_schedule(Schedule(problem.kernel, problem.machine, problem.sizes, (nest,))))


TILES = {"generic-c": 1, "x86-avx2": 8, "x86-avx512": 16}


def skip_unless_native(hw: str) -> None:
    if missing := missing_features(load_machine(hw)):
        pytest.skip(f"this computer lacks {', '.join(missing)}")


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize("hw", TILES)
@pytest.mark.parametrize(
    ("loops", "stages"),
    [
        ((("par", "m", 8),), ()),
        ((("par", "n", 48), ("par", "m", 16)), (Stage("b", 0), Stage("a", 2))),
        ((("par", "m", 14), ("for", "k", 16)), (Stage("b", 0), Stage("a", 1))),
        ((("par", "k", 16),), (Stage("c", 1),)),
        ((("par", "k", 10), ("par", "m", 16)), (Stage("a", 0), Stage("c", 2))),
        ((("par", "m", 8),), (Stage("c", 0),)),
    ],
)
def test_a_product_in_parts_is_right_on_any_number_of_threads(
    hw: str, loops: tuple[Step, ...], stages: tuple[Stage, ...]
) -> None:
    skip_unless_native(hw)
    sizes: dict[str, Size] = {"M": 37, "N": 101, "K": 43}
    schedule = gemm_schedule(hw, sizes, TILES[hw], loops, stages)
    for threads in THREADS:
        prepared = prepare(Request(shipped("gemm_f32"), hw, sizes, schedule=schedule, threads=threads))
        assert prepared.compiled.interface.takes_pool
        for fill in ("integers", "random"):
            case = verify_case(prepared, {"M": 37, "N": 101, "K": 43}, fill)
            assert case.ok, case.problems[0].render()


@pytest.mark.parametrize(
    ("loops", "stages"),
    [
        ((("par", "n", 64), ("par", "m", 16)), (Stage("b", 0), Stage("a", 2))),
        ((("par", "k", 24),), (Stage("c", 1),)),
    ],
)
def test_how_many_parts_there_are_may_depend_on_the_call(
    loops: tuple[Step, ...], stages: tuple[Stage, ...]
) -> None:
    skip_unless_native("x86-avx2")
    sizes: dict[str, Size] = {"M": "1..200@64", "N": "1..200@64", "K": "1..200@64"}
    schedule = gemm_schedule("x86-avx2", sizes, 8, loops, stages)
    prepared = prepare(Request(shipped("gemm_f32"), "x86-avx2", sizes, schedule=schedule, threads=2))
    for m, n, k in ((1, 1, 1), (37, 101, 43), (64, 128, 96), (16, 64, 24), (5, 150, 200)):
        case = verify_case(prepared, {"M": m, "N": n, "K": k}, "integers")
        assert case.ok, (m, n, k, case.problems[0].render())


def test_the_bits_of_a_sum_in_parts_do_not_depend_on_the_threads() -> None:
    skip_unless_native("x86-avx2")
    sizes: dict[str, Size] = {"M": 16, "N": 32, "K": 1000}
    schedule = gemm_schedule("x86-avx2", sizes, 8, (("par", "k", 130),), (Stage("c", 1),))
    made = compile_kernel(Request(shipped("gemm_f32"), "x86-avx2", sizes, schedule=schedule))
    assert isinstance(made.emitted, EmittedC)
    assert made.machine
    compiled = compile_library(made.emitted, made.machine)
    arrays = make_arrays(made.kernel, "random")
    results = [run_program(compiled, arrays, threads=t).arrays["C"].tobytes() for t in (1, 2, 3, 5)]
    assert set(results) == {results[0]}


CALLER = """
#include "isamap_pool.h"
#include <pthread.h>
#include <stddef.h>

typedef struct { void (*body)(void *, int64_t); void *argument; int64_t part; } job;
typedef struct { isamap_pool face; int64_t parts; } counting;

static void *perform(void *given) {
  job *mine = given;
  mine->body(mine->argument, mine->part);
  return NULL;
}

/* A thread for each part, the last one first. */
static void each_by_a_thread(
    isamap_pool *pool, int64_t parts, void (*body)(void *, int64_t), void *argument) {
  pthread_t threads[16];
  job jobs[16];
  ((counting *)pool)->parts += parts;
  for (int64_t part = parts - 1; part >= 0; part--) {
    jobs[part] = (job){body, argument, part};
    pthread_create(&threads[part], NULL, perform, &jobs[part]);
  }
  for (int64_t part = 0; part < parts; part++) pthread_join(threads[part], NULL);
}

int64_t call(int (*kernel)(void *, void *, isamap_pool *), void *args, void *workspace) {
  counting pool = {{each_by_a_thread}, 0};
  int status = kernel(args, workspace, &pool.face);
  return status == 0 ? pool.parts : -1;
}
"""


def test_a_pool_of_the_callers_performs_the_parts() -> None:
    skip_unless_native("x86-avx2")
    sizes: dict[str, Size] = {"M": 16, "N": 32, "K": 1000}
    schedule = gemm_schedule("x86-avx2", sizes, 8, (("par", "k", 130),), (Stage("c", 1),))
    made = compile_kernel(Request(shipped("gemm_f32"), "x86-avx2", sizes, schedule=schedule))
    assert isinstance(made.emitted, EmittedC)
    assert made.machine
    compiled = compile_library(made.emitted, made.machine)
    arrays = make_arrays(made.kernel, "random")
    expected = run_program(compiled, arrays).arrays["C"].tobytes()
    files = {"caller.c": CALLER, "isamap_pool.h": pool_files()["isamap_pool.h"]}
    caller = ctypes.CDLL(str(build(compiled.compiler, ("-O2", "-std=c11"), files, "caller.c")))
    function, workspace_bytes = load_function(str(compiled.library), compiled.interface.name)
    call = make_call(compiled.interface, arrays, {}, {}, in_place=True)
    arguments = make_arguments(call.fields, [t.array.ctypes.data for t in call.tensors])
    pointer = ctypes.addressof(arguments)
    workspace = ctypes.create_string_buffer(workspace_bytes(pointer))
    caller.call.argtypes, caller.call.restype = [ctypes.c_void_p] * 3, ctypes.c_int64
    parts = caller.call(ctypes.cast(function, ctypes.c_void_p), pointer, ctypes.addressof(workspace))
    assert parts == 8 + 8 + 8  # sums, joining them, writing them back: two rows each
    assert arrays["C"].tobytes() == expected


def test_each_thread_of_the_pool_has_parts_of_its_own_before_it_takes_those_of_others() -> None:
    """Two threads, four parts that wait for one of the other thread: so none can be taken over."""
    skip_unless_native("x86-avx2")
    compiler = find_compiler(())
    library = ctypes.CDLL(str(build(compiler, ("-O2", "-std=c11"), pool_files(), "isamap_pool.c")))
    library.isamap_pool_create.restype = ctypes.c_void_p
    library.isamap_pool_destroy.argtypes = [ctypes.c_void_p]
    body_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    both, threads = Barrier(2), dict[int, int]()

    @body_type
    def body(_: int, part: int) -> None:
        both.wait(timeout=60)
        threads[part] = get_ident()

    pool = library.isamap_pool_create(2)
    parallel_for = ctypes.cast(
        ctypes.cast(pool, ctypes.POINTER(ctypes.c_void_p))[0],
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, body_type, ctypes.c_void_p),
    )
    for _ in range(20):
        threads.clear()
        parallel_for(pool, 4, body, None)
        assert [threads[part] == get_ident() for part in range(4)] == [True, True, False, False]
    library.isamap_pool_destroy(pool)


def test_a_program_without_parts_refuses_a_pool() -> None:
    made = compile_kernel(
        Request(shipped("gemm_f32"), "generic-c", {"M": 4, "N": 4, "K": 4}, heuristic="greedy", threads=2)
    )
    assert isinstance(made.emitted, EmittedC)
    assert not made.emitted.interface.takes_pool
    assert "if (pool != NULL) return gemm_f32_POOL_NOT_NULL;" in made.emitted.source


def test_a_block_that_is_no_multiple_of_what_it_holds_is_performed_once() -> None:
    """Steps of 64 inside steps of 80 once were cut short as the whole axis is, not as the 80 are."""
    skip_unless_native("x86-avx2")
    sizes: dict[str, Size] = {"M": 4, "N": 104, "K": 5}
    schedule = gemm_schedule("x86-avx2", sizes, 8, (("for", "n", 40),), ())
    prepared = prepare(Request(shipped("gemm_f32"), "x86-avx2", sizes, schedule=schedule))
    case = verify_case(prepared, {"M": 4, "N": 104, "K": 5}, "integers")
    assert case.ok, case.problems[0].render()
