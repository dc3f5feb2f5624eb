"""Registers that an issue needs for a moment: of calls in calls, counted wherever registers are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import gemm_option, problem

from isamap.machine import EmitArg, EmitCall, count_between, load_machine
from isamap.plan.check import check_schedule, live_registers
from isamap.scheduler import schedule
from isamap.scheduler.deciding.space import Space
from isamap.source import Infeasible

A = EmitArg("operand", "a")


def call(*args: EmitArg | EmitCall) -> EmitCall:
    return EmitCall(None, None, "f", args)


@pytest.mark.parametrize(
    ("emit", "held"),
    [
        (call(A, A), 0),
        (call(A, call(A)), 1),
        (call(call(call(call(A)))), 1),
        (call(call(A), call(A)), 2),
        (call(call(A), call(call(A), call(A))), 3),
        (call(call(call(A), call(A)), call(A)), 2),
    ],
)
def test_results_of_calls_wait_for_the_others_and_for_the_one_that_takes_them(
    emit: EmitCall, held: int
) -> None:
    assert emit.held == held


def test_a_product_that_is_added_waits_beside_the_sum() -> None:
    machine = load_machine("x86-avx2")
    assert count_between(machine.instructions["dot2_ymm_i16"], machine) == (("ymm", 1),)
    assert count_between(machine.instructions["dot4_ymm_u8_i8"], machine) == (("ymm", 3),)
    assert count_between(machine.instructions["fma_ymm_f32"], machine) == ()
    assert count_between(machine.instructions["store_ymm_f32"], machine) == ()
    assert count_between(machine.instructions["mac_f32"], machine) == ()


def test_a_register_that_is_only_written_takes_what_waits() -> None:
    machine = load_machine("x86-avx2")
    item = machine.instructions["cvt_ymm_i8_i16"]
    assert isinstance(item.emit, EmitCall)
    nested = replace(item, emit=replace(item.emit, args=(call(A),)))
    assert count_between(nested, machine) == ()
    assert count_between(replace(item, emit=replace(nested.emit, args=(call(A), call(A)))), machine) == (
        ("ymm", 1),
    )


def test_register_blocks_leave_room_for_what_waits() -> None:
    option = gemm_option(64, 1024, 256)
    tight = replace(option, between=(("zmm", 2),))
    registers = {"zmm": 32}
    blocks = [Space(0, one, registers, {}).register_blocks() for one in (option, tight)]
    assert {"m": 6, "n": 4} in blocks[0]  # 24 sums, 4 of b and one of a
    assert {"m": 7, "n": 4} not in blocks[1]
    assert {"m": 6, "n": 4} in blocks[1]
    wide = [block for block in blocks[0] if block not in blocks[1]]
    assert wide
    assert all(block in blocks[0] for block in blocks[1])


def test_the_check_counts_what_waits() -> None:
    found = schedule(problem(gemm_option(64, 1024, 256)))
    (nest,) = found.nests
    option = gemm_option(64, 1024, 256)
    needed = live_registers(nest, option)["zmm"]
    over = replace(option, between=(("zmm", 33 - needed),))
    assert live_registers(nest, over)["zmm"] == 33
    findings = check_schedule(found, problem(over))
    assert "schedule-capacity" in [finding.code for finding in findings]
    assert f"within an issue: {33 - needed}" in "\n".join(finding.render() for finding in findings)


def test_what_is_fixed_leaves_room_for_what_waits() -> None:
    tight = problem(replace(gemm_option(64, 1024, 256), between=(("zmm", 4),)))
    with pytest.raises(Infeasible) as caught:
        schedule(tight, fixed={"nest0.unroll.m": 6, "nest0.unroll.n": 4})
    said = "\n".join(finding.render() for finding in caught.value.diagnostics)
    assert "33 registers of `zmm` are needed, and there are 32" in said
    assert "4 within an issue" in said
