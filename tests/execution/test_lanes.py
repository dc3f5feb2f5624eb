"""Programs whose instructions are performed by the lanes of blocks: right results, and races that are found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import count

import pytest

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.emit.c import EmittedC
from isamap.emit.c_interface import STATUSES
from isamap.emit.lanes import emit_lanes
from isamap.ir import bind
from isamap.kernels import kernel_path
from isamap.lower.barrier_check import check_barriers
from isamap.lower.program import Barrier, LoweredProgram, Node, Parallel
from isamap.lower.walk import children, walk, with_children
from isamap.machine import load_machine, missing_features
from isamap.run.fills import make_arrays
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import Source
from isamap.syntax import parse_kernel

SIMT = "opencl-simt"
CASES = {
    "tails": ("gemm_f32", {"M": 37, "N": 53, "K": 21}),
    "bytes": ("gemm_s8s8", {"M": 33, "N": 20, "K": 9}),
    "columns": ("gemm_nt_f32", {"M": 20, "N": 33, "K": 12}),
    "parts of a sum": ("gemm_f32", {"M": 16, "N": 16, "K": 700}),
    "one row": ("gemm_f32", {"M": 1, "N": 300, "K": 5}),
    "windows": (
        "conv2d_nhwc", {"N": 1, "H": 5, "W": 6, "C": 4, "K": 17, "R": 3, "S": 3, "stride": 1, "pad": 1},
    ),
}  # fmt: skip


def request(kernel: str, sizes: Mapping[str, int], *, model: bool = True) -> Request:
    path = kernel_path(kernel)
    text = Source(path.name, path.read_text(encoding="utf-8"))
    return Request(text, SIMT, dict(sizes), heuristic="greedy", model=model)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", [True, False], ids=["model", "device"])
def test_lanes_compute_what_the_kernel_says(case: str, model: bool) -> None:
    missing = missing_features(load_machine(SIMT))
    if missing and not model:
        pytest.skip(f"there is no device for {', '.join(missing)}")
    kernel, sizes = CASES[case]
    prepared = prepare(request(kernel, sizes, model=model))
    assert prepared.ran_on == ("model" if model else "native")
    for fill in ("integers", "random"):
        found = verify_case(prepared, sizes, fill)
        assert found.ok, found.problems


def test_both_operands_are_staged_by_blocks_and_lanes_wait_for_them() -> None:
    program = staged().program
    assert program is not None
    nodes = list(nodes_of(program.body))
    assert any(isinstance(node, Parallel) for node in nodes)
    assert {b.name[0] for b in program.buffers if b.memory == "shared"} == {"a", "b"}
    assert sum(isinstance(node, Barrier) for node in nodes) >= 2
    assert not check_barriers(program, load_machine(SIMT))


def test_a_program_without_one_of_its_barriers_is_refused() -> None:
    program, machine = staged().program, load_machine(SIMT)
    assert program is not None
    for number in range(barriers_of(program)):
        said = check_barriers(without(program, number), machine)
        assert said, f"barrier {number}"
        assert "without a barrier in between" in said[0]


def test_the_model_finds_the_races_where_lanes_do_not_wait() -> None:
    program = staged().program
    assert program is not None
    every = set(range(barriers_of(program)))
    assert ended(emitted(without(program, *every))) == "RACE"
    assert ended(emitted(without(program, 0))) == "RACE", "it is staged again while it is read"
    assert ended(emitted(without(program, *every - {0}))) == "RACE", (
        "what is staged is read before it is there"
    )
    assert ended(emitted(without(program))) == "OK"


@pytest.mark.parametrize(
    ("was", "becomes", "status"),
    [
        ("", "", "OK"),
        ("int64_t m0 = rest;", "int64_t m0 = 0 * rest;", "RACE"),
        ("for (int32_t at = lane;", "for (int32_t at = 0;", "RACE"),
        ("const int64_t i = lane / 16;", "const int64_t i = lane / 32;", "RACE"),
        ("const int64_t j = lane % 16;", "const int64_t j = lane % 8;", "RACE"),
        ("stage_f32(block_lane, block_lanes, A", "if (0) stage_f32(block_lane, block_lanes, A", "RACE"),
        (
            "stage_f32(block_lane, block_lanes, B",
            "if (lane != 7) stage_f32(block_lane, block_lanes, B",
            "RACE",
        ),
        ("BARRIER;", "if (lane != 3) BARRIER;", "DIVERGED"),
        ("BARRIER;", "if (lane < 128) { BARRIER; } else { BARRIER; }", "OK"),
        ("BARRIER;", "if (lane < 128) { BARRIER; }\nelse { BARRIER; }", "DIVERGED"),
        (
            "BARRIER;",
            "for (int n = 0; n < 300; n++) isamap_own((char *)&lane + n, 1); BARRIER;",
            "MODEL_FULL",
        ),
        (
            "BARRIER;",
            "for (int n = 0; n < 70; n++) isamap_touch_sums((char *)&lane + n, 1); BARRIER;",
            "MODEL_FULL",
        ),
    ],
    ids=[
        "right",
        "blocks meet",
        "each lane copies all",
        "lanes meet",
        "lanes meet in a row",
        "no copy",
        "one lane copies nothing",
        "left out",
        "same",
        "elsewhere",
        "too many arrays",
        "too many sums in flight",
    ],
)
def test_the_model_finds_planted_faults(was: str, becomes: str, status: str) -> None:
    program = staged().program
    assert program is not None
    made = emitted(program)
    kernel = made.source.index("LAUNCH(name)")  # behind the model itself
    body = made.source[kernel:]
    assert was in body
    assert ended(replace(made, source=made.source[:kernel] + body.replace(was, becomes))) == status


# --- programs with faults


@cache
def staged() -> Compilation:
    """Return a product whose two operands are staged part by part of its sum."""
    fixed = {"nest0.parallel.m": 2, "nest0.parallel.n": 2, "nest0.block.k": 20}
    fixed |= {"nest0.stage.a": 1, "nest0.stage.b": 1, "nest0.mapping": 3}
    fixed |= {"nest0.ahead.a": 0, "nest0.ahead.b": 0}
    return compile_kernel(replace(request("gemm_f32", {"M": 64, "N": 64, "K": 40}), fixed=fixed))


def nodes_of(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from nodes_of(children(node))


def barriers_of(program: LoweredProgram) -> int:
    return sum(isinstance(node, Barrier) for node in nodes_of(program.body))


def without(program: LoweredProgram, *numbers: int) -> LoweredProgram:
    """Return the program without the barriers of some numbers."""
    left = count()

    def inside(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(
            with_children(node, inside(children(node)))
            for node in nodes
            if not (isinstance(node, Barrier) and next(left) in numbers)
        )

    return replace(program, body=inside(program.body))


def emitted(program: LoweredProgram) -> EmittedC:
    return emit_lanes(program, load_machine(SIMT), model=True)


def ended(made: EmittedC) -> str:
    """Return the name of the status with which a program ends."""
    kernel, sizes = "gemm_f32", {"M": 64, "N": 64, "K": 40}
    bound = bind(parse_kernel(request(kernel, sizes).kernel), sizes)
    library = compile_library(made, load_machine(SIMT), model=True)
    result = run_program(library, make_arrays(bound, "integers"), {})
    return STATUSES[result.status][0]


def test_copies_of_elements_need_no_barrier_where_a_bound_depends_on_the_instance() -> None:
    """The last of two instances copies fewer elements, so the bound of its loop names its number."""
    text = (
        "kernel copy(N, D) { in x: f32[N, D]; out y: f32[N, D]; for n in N, d in D { y[n, d] = x[n, d]; } }"
    )
    sizes = {"N": 5, "D": 37}
    request = Request(Source("copy.ir", text), "nvidia-sm80", sizes, heuristic="greedy")
    program = compile_kernel(request).program
    assert program is not None
    assert not any(isinstance(node, Barrier) for node in walk(program.body))
    assert verify_case(prepare(request), sizes, "random").ok
