"""Fields of states are set before what requires them, where they may have another value, and not again."""

from __future__ import annotations

import pytest

from isamap import verify
from isamap.ir import DTYPES, Index
from isamap.lower.program import Declare, For, If, Issue, MemoryRef, Node, Parallel, RegisterRef, Value
from isamap.lower.settings import with_settings
from isamap.machine import load_machine
from isamap.source import Infeasible

MACHINE = load_machine("drafts/systolic-32")


def place(buffer: str, stride: str | int) -> MemoryRef:
    return MemoryRef(buffer, Index.of(0), (Index.of(stride), Index.of(1)))


def mvin(stride: str | int) -> Issue:
    """Return a load of rows so far apart: it requires `loader.stride` to be that."""
    return Issue("mvin", (("x", place("A", stride)), ("z", place("tiles", 32))), (("R", 32), ("C", 32)))


def loading(stride: str | int) -> Issue:
    return Issue("config_load", (), (("S", Index.of(stride)),))


def looped(*body: Node, counter: str = "m") -> For:
    return For(counter, Index.of(4), body)


def set_in(*nodes: Node) -> tuple[Node, ...]:
    return with_settings(nodes, MACHINE)


def test_what_a_loop_requires_alike_is_set_in_front_of_it() -> None:
    loop = looped(looped(mvin("A.s0"), counter="k"))
    assert set_in(loop) == (loading("A.s0"), loop)


def test_what_is_known_is_not_set_again() -> None:
    assert set_in(mvin(7), mvin(7), looped(mvin(7))) == (loading(7), mvin(7), mvin(7), looped(mvin(7)))


def test_what_changes_in_a_loop_is_set_in_each_iteration() -> None:
    assert set_in(mvin(7), looped(mvin(7), mvin("B.s0"))) == (
        loading(7),
        mvin(7),
        looped(loading(7), mvin(7), loading("B.s0"), mvin("B.s0")),
    )


def test_what_depends_on_a_loop_is_set_in_it() -> None:
    assert set_in(looped(mvin("m"))) == (looped(loading("m"), mvin("m")),)


def test_behind_a_branch_only_what_both_ways_leave_is_known() -> None:
    branch = If(((Index.of("K"), "<", Index.of(3)),), (mvin(8),))
    changed = If(branch.conditions, (loading(8), mvin(8)))
    assert set_in(mvin(7), branch, mvin(7)) == (loading(7), mvin(7), changed, loading(7), mvin(7))


def test_each_thread_sets_its_own() -> None:
    parallel = Parallel((("p", Index.of(2)),), (mvin(7),))
    set_by_each = Parallel(parallel.counters, (loading(7), mvin(7)))
    assert set_in(mvin(7), parallel) == (loading(7), mvin(7), set_by_each)


def test_a_field_is_indexed_by_the_number_of_a_register() -> None:
    weights = Declare((Value("w", "weights", DTYPES["i8"], (32, 32), register=1),))
    preload = Issue("preload", (("w", place("b", 32)), ("b", RegisterRef("w"))), (("K", 32), ("N", 32)))
    operands = (("a", place("a", 32)), ("b", RegisterRef("w")), ("c", place("c", 32)))
    product = Issue("matmul_accumulate", operands, (("M", 32),))
    assert set_in(weights, looped(preload, product)) == (
        weights,
        looped(Issue("flip_to_0", ()), preload, Issue("flip_to_1", ()), product),
    )


def test_a_value_that_nothing_sets_is_refused() -> None:
    with pytest.raises(Infeasible) as refused:
        set_in(mvin(0))
    assert refused.value.diagnostics[0].message == (
        "`loader.stride` has to be 0, and no instruction of systolic-32 sets it so"
    )


def test_a_machine_without_such_fields_keeps_its_nodes() -> None:
    nodes: tuple[Node, ...] = (looped(mvin(7)),)
    assert with_settings(nodes, load_machine("generic-c")) is nodes


def test_a_product_on_such_a_machine_is_right() -> None:
    cases = verify("gemm_s8s8", "drafts/systolic-32", {"M": 64, "N": 32, "K": 96}, heuristic="greedy")
    assert [p.message for case in cases for p in case.problems] == []
