"""The judge of schedules: a good one passes, and each way of spoiling it is found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import answer, gemm, tiled_gemm

from isamap.plan.check import check_schedule, live_registers
from isamap.plan.problem import with_fields
from isamap.plan.schedule import Stage

GEMM = gemm(1024, 1024, 1024)
TILED = tiled_gemm(1024, 1024, 1024)


GOOD = "n:512 k:256 m:6 n:64 | k:1 um:1 un:16"
GOOD_TILES = "n:256 m:32 n:32 | k:32 um:16 un:16"


def test_good_schedules_pass() -> None:
    assert check_schedule(answer(GEMM, GOOD, (Stage("b", 2),)), GEMM) == ()
    assert check_schedule(answer(TILED, GOOD_TILES, (Stage("b", 1),)), TILED) == ()
    assert check_schedule(answer(GEMM, "m:1 n:16 | k:1"), GEMM) == ()


def test_registers_are_accumulators_and_what_is_used_again() -> None:
    option = GEMM.nests[0].options[0]
    assert live_registers(answer(GEMM, GOOD).nests[0], option) == {"zmm": 24 + 4 + 1}
    turned = "n:64 m:6 | k:1 un:16 um:1"
    assert live_registers(answer(GEMM, turned).nests[0], option) == {"zmm": 24 + 6 + 1}
    assert live_registers(answer(GEMM, "m:1 n:16 | k:1").nests[0], option) == {"zmm": 3}
    assert live_registers(answer(GEMM, "m:1 n:16 | k:4 uk:1").nests[0], option) == {"zmm": 3}


@pytest.mark.parametrize(
    ("words", "stages", "code", "said"),
    [
        ("n:64 m:6 | um:1 un:16", (), "schedule-tiling", "axis `k`: the innermost loop has to step by 1"),
        ("n:64 m:6 | k:4 um:1 un:16", (), "schedule-tiling", "the steps are 4"),
        ("m:6 n:64 m:6 | k:1 um:1 un:16", (), "schedule-tiling", "the steps 6, 6, 1 do not decrease"),
        ("n:40 m:6 | k:1 um:1 un:16", (), "schedule-tiling", "not all multiples of 16"),
        ("n:4294967296 m:1 n:16 | k:1", (), "schedule-too-large", "a step is at most 2**31"),
        ("um:6 m:1 n:16 | k:1", (), "schedule-tiling", "only its innermost loop can be unrolled"),
        ("m:6 um:1 n:16 | k:1", (), "schedule-tiling", "`for n by 16` stands inside an unrolled loop"),
        ("m:6 n:16 k:1 um:1 | ", (), "schedule-hold", "`hold` must be around all unrolled loops"),
        ("m:6 | n:16 k:1 um:1", (), "schedule-hold", "`for n by 16` stands inside `hold`"),
        ("m:7 n:64 | k:1 um:1 un:16", (), "schedule-capacity", "33 registers of `zmm` are needed"),
        ("m:6 n:16 | k:1 um:1", (Stage("b", 3),), "schedule-stage", "stands inside `hold`"),
        ("m:6 n:16 | k:1 um:1", (Stage("b", 0), Stage("b", 1)), "schedule-stage", "is staged 2 times"),
        ("m:6 n:16 | k:1 um:1", (Stage("d", 0),), "schedule-unknown", "there is no operand `d`"),
        ("m:6 x:16 | k:1 um:1", (), "schedule-unknown", "there is no axis `x`"),
    ],
)
def test_a_spoilt_schedule_is_found(words: str, stages: tuple[Stage, ...], code: str, said: str) -> None:
    findings = check_schedule(answer(GEMM, words, stages), GEMM)
    assert code in [finding.code for finding in findings]
    assert said in "\n".join(finding.render() for finding in findings)


@pytest.mark.parametrize(
    ("step", "said"),
    [(1 << 31, "issues together, at most 4096 can be"), (1 << 32, "a step is at most 2**31")],
)
def test_no_list_grows_with_the_step_of_an_axis_that_only_the_run_knows(step: int, said: str) -> None:
    option = GEMM.nests[0].options[0]
    axes = tuple(replace(axis, is_open=axis.name == "m") for axis in option.axes)
    nests = (replace(GEMM.nests[0], options=(replace(option, axes=axes),)),)
    findings = check_schedule(answer(GEMM, f"m:{step} n:16 | k:1 um:1"), replace(GEMM, nests=nests))
    assert said in "\n".join(finding.render() for finding in findings)


@pytest.mark.parametrize(
    ("words", "stages", "code", "said"),
    [
        (GOOD_TILES, (), "schedule-stage", "`b` has to be staged"),
        ("k:256 " + GOOD_TILES, (Stage("b", 1),), "schedule-hold", "leaves partial sums in `C`"),
        ("k:256 " + GOOD_TILES, (Stage("b", 1), Stage("c", 1)), "schedule-hold", "put `stage c;` around"),
        ("m:48 n:48 | k:32 um:16 un:16", (Stage("b", 0),), "schedule-capacity", "13 registers of `tmm`"),
    ],
)
def test_a_spoilt_schedule_of_tiles_is_found(
    words: str, stages: tuple[Stage, ...], code: str, said: str
) -> None:
    findings = check_schedule(answer(TILED, words, stages), TILED)
    assert [finding.code for finding in findings] == [code]
    assert said in findings[0].render()


def test_partial_sums_may_rest_in_a_staging_buffer() -> None:
    stages = (Stage("c", 0), Stage("b", 1))
    assert check_schedule(answer(TILED, "k:256 " + GOOD_TILES, stages), TILED) == ()


def test_rows_of_which_nothing_is_known_are_not_copied_one_after_the_other() -> None:
    stages = (Stage("b", 0, by_rows=True),)
    assert check_schedule(answer(GEMM, GOOD, stages), GEMM) == ()
    (finding,) = check_schedule(answer(TILED, GOOD_TILES, stages), TILED)
    assert finding.message == "nest 0: `stage b by rows;`: no loop runs along rows of the copied elements"
    assert finding.help == "write `stage b;`"


def test_an_operand_without_a_way_from_a_buffer_is_not_staged() -> None:
    option = GEMM.nests[0].options[0]
    a = with_fields(option.operands[0], staged_ns=None)
    nest = replace(GEMM.nests[0], options=(replace(option, operands=(a, *option.operands[1:])),))
    problem = replace(GEMM, nests=(nest,))
    findings = check_schedule(answer(problem, GOOD, (Stage("a", 0),)), problem)
    assert [finding.message for finding in findings] == ["nest 0: `a` cannot be staged"]


def test_a_buffer_has_a_limit() -> None:
    huge = gemm(2**31, 2**31, 2**31)
    findings = check_schedule(answer(huge, "m:1 n:16 | k:1", (Stage("b", 0),)), huge)
    assert [finding.code for finding in findings] == ["schedule-too-large"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("kernel", "gemv", "the schedule is for kernel `gemv`, and this is kernel `kernel`"),
        ("machine", "other", "the schedule is for machine `other`"),
        ("sizes", (("K", 3),), "the schedule is for other sizes: K = 3"),
        ("nests", (), "the schedule has nests none; the kernel's statements are 0"),
    ],
)
def test_a_schedule_for_something_else_is_found(field: str, value: object, said: str) -> None:
    findings = check_schedule(replace(answer(GEMM, GOOD), **{field: value}), GEMM)
    assert [finding.code for finding in findings] == ["schedule-mismatch"]
    assert said in findings[0].message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mapping": "fma16 { i: n } (a = A, b = B, c = D)"}, "did you mean `fma16 { i: n } (a = A, b = B,"),
        ({"mapping": "?"}, "`isamap match` lists them"),
        ({"choose": (("R", 1),)}, "offered: none"),
    ],
)
def test_an_unknown_mapping_is_found(change: dict[str, object], said: str) -> None:
    good = answer(GEMM, GOOD)
    findings = check_schedule(replace(good, nests=(replace(good.nests[0], **change),)), GEMM)
    assert [finding.code for finding in findings] == ["schedule-unknown"]
    assert said in findings[0].render()
