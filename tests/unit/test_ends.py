"""What tiles take that an array ends in, where the machine moves parts of registers and where it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isamap.formulate.build import build_problem
from isamap.ir import Range, bind
from isamap.kernels import kernel_path
from isamap.machine import Machine, load_machine
from isamap.plan.problem import TileOperand
from isamap.source import Source
from isamap.syntax import parse_kernel

LOAD_NS, MASKED_NS = 1 / 3.6 / 2, 0.5 / 2  # of both load ports, as stated


def machine_of(name: str) -> Machine:
    """Return a machine, x86-avx2 without its masked moves."""
    machine = load_machine(name)
    if name != "x86-avx2":
        return machine
    kept = {name: one for name, one in machine.instructions.items() if not name.startswith("mask")}
    return replace(machine, instructions=kept)


def operand(kernel: str, machine: str, mapping: str, name: str, **sizes: int) -> TileOperand:
    """Return an operand of a product with the mapping whose text begins so."""
    path = kernel_path(kernel)
    problem = build_problem(
        bind(parse_kernel(Source(path.name, path.read_text())), sizes), machine_of(machine), {}
    )
    option = next(o for o in problem.nests[0].options if o.mapping.startswith(mapping))
    return next(o for o in option.operands if o.name == name)


def direct_ns(machine: str, name: str, n: int) -> float:
    register = "ymm" if machine == "x86-avx2" else "zmm"
    found = operand(
        "gemm_f32", machine, f"fma_{register}_f32 {{ i: n }}", name, M=64, N=n, K=64
    ).costs.direct_ns
    assert found is not None
    return found - crossing_ns(machine, n) if name == "b" else found


def crossing_ns(machine: str, n: int) -> float:
    """Return what loads of whole registers take more that lie on two lines, where rows are so many numbers long."""
    width = 8 if machine == "x86-avx2" else 16
    begins = [(row * n + tile * width) % 16 for row in range(16) for tile in range(-(-n // width))]
    return LOAD_NS * sum(begin + width > 16 for begin in begins) / len(begins)


@pytest.mark.parametrize("name", ["b", "c"])
def test_without_an_instruction_for_parts_the_last_tile_goes_by_elements(name: str) -> None:
    whole = direct_ns("x86-avx2", name, 40)
    more = {n: (direct_ns("x86-avx2", name, n) - whole) * tiles for n, tiles in ((33, 5), (35, 5), (19, 3))}
    assert 0 < more[33] < more[35], "the more elements are left, the longer"
    assert more[35] == pytest.approx(more[19]), "as many elements are left of one tile"


@pytest.mark.parametrize(("name", "more_ns"), [("b", MASKED_NS - LOAD_NS), ("c", 0.0)])
def test_with_one_the_last_tile_is_masked(name: str, more_ns: float) -> None:
    whole = direct_ns("x86-avx512", name, 48)
    assert direct_ns("x86-avx512", name, 35) == pytest.approx(whole + more_ns / 3), "one of three tiles"


def test_what_comes_in_by_a_mask_and_goes_back_by_none_goes_by_elements() -> None:
    machine = load_machine("x86-avx512")
    kept = {name: one for name, one in machine.instructions.items() if not name.startswith("maskstore")}
    path = kernel_path("gemm_f32")
    kernel = bind(parse_kernel(Source(path.name, path.read_text())), {"M": 64, "N": 35, "K": 64})
    found: dict[str, float] = {}
    for what, here in (("both", machine), ("loads", replace(machine, instructions=kept))):
        options = build_problem(kernel, here, {}).nests[0].options
        option = next(o for o in options if o.mapping.startswith("fma_zmm_f32 { i: n }"))
        found |= {f"{what} {o.name}": o.costs.direct_ns or 0.0 for o in option.operands}
    assert found["loads c"] > found["both c"]
    assert found["loads b"] == found["both b"]


def test_what_is_left_of_an_open_size_is_known_to_the_run_alone() -> None:
    path = kernel_path("gemm_f32")
    kernel = parse_kernel(Source(path.name, path.read_text()))
    sizes: dict[str, int | Range] = {"M": 64, "N": Range(1, 100), "K": 64}
    found: dict[str, float] = {}
    for register, machine in (("ymm", "x86-avx2"), ("zmm", "x86-avx512")):
        problem = build_problem(bind(kernel, sizes), machine_of(machine), {"N": 35})
        mapping = f"fma_{register}_f32 {{ i: n }}"
        option = next(o for o in problem.nests[0].options if o.mapping.startswith(mapping))
        b = next(o for o in option.operands if o.name == "b")
        assert b.costs.direct_ns is not None
        found[machine] = b.costs.direct_ns
    for machine, b_ns in found.items():
        assert b_ns - crossing_ns(machine, 35) == pytest.approx(direct_ns(machine, "b", 35))


def test_the_load_of_the_last_tile_waits_for_its_elements() -> None:
    machine = machine_of("x86-avx2")
    path = kernel_path("gemm_f32")
    kernel = bind(parse_kernel(Source(path.name, path.read_text())), {"M": 64, "N": 35, "K": 64})
    found: list[float] = []
    for joined_ns in (0.0, 5.0):
        here = replace(machine, loops=replace(machine.loops, joined_ns=joined_ns))
        options = build_problem(kernel, here, {}).nests[0].options
        option = next(o for o in options if o.mapping.startswith("fma_ymm_f32 { i: n }"))
        found.append(next(o.costs.direct_ns or 0.0 for o in option.operands if o.name == "b"))
    assert found[1] - found[0] == pytest.approx(5.0 / 5), "one of five tiles"


def test_axes_that_an_operand_does_not_have_do_not_matter() -> None:
    assert direct_ns("x86-avx2", "a", 35) == direct_ns("x86-avx2", "a", 40)


def test_a_sum_that_ends_in_a_tile_goes_by_elements_too() -> None:
    sizes = {"M": 64, "N": 64}
    odd, even = (
        operand("gemm_nt_f32", "x86-avx2", "fma_ymm_f32 { i: k }", "a", K=k, **sizes) for k in (65, 72)
    )
    assert odd.costs.direct_ns is not None
    assert even.costs.direct_ns is not None
    assert odd.costs.direct_ns > even.costs.direct_ns
