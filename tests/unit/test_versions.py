"""One program with several schedules: what each is for, the text of all, and which of them a call runs."""

from __future__ import annotations

from math import inf

import pytest

from isamap.driver.compiling import describe
from isamap.driver.length_versions import PRECISION, compile_request, end_of_first
from isamap.driver.pipeline import Compilation
from isamap.driver.request import Request, Size, has_versions, read_profiles, read_size, whole_sizes
from isamap.driver.runnable import prepare
from isamap.driver.verifying import concrete_sizes, profile_sizes, verify_case
from isamap.emit.c import EmittedC
from isamap.ir import Range
from isamap.kernels import kernel_path
from isamap.lower.program import Block, If
from isamap.plan.text import box_of, check_versions, parse_schedule, print_versions, split_versions
from isamap.source import Source, SyntaxProblem, UsageProblem

WHOLE = {"K": (8, 8), "M": (1, 64)}


def shipped(name: str) -> Source:
    return Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8"))


def asked(sizes: dict[str, Size], hw: str = "generic-c", name: str = "gemm_f32") -> Request:
    return Request(shipped(name), hw, sizes, heuristic="greedy")


def sizes_of(made: Compilation) -> list[dict[str, int | str]]:
    return [dict(one.schedule.sizes) for one in made.versions if one.schedule]


# --- sizes ------------------------------------------------------------------------------------------------


def test_a_range_may_have_several_profile_values() -> None:
    assert read_profiles("1..8192@1,35,512") == (1, 8192, (1, 35, 512))
    assert has_versions({"M": "1..9@2,4", "N": 3})
    assert not has_versions({"M": "1..9@2", "N": 3})
    assert whole_sizes({"M": "1..9@2,4", "N": 3, "K": "1..4"}) == {"M": "1..9@4", "N": 3, "K": "1..4"}
    assert read_size("1..9@4") == Range(1, 9, 4)


def test_looking_for_one_schedule_takes_one_profile_value() -> None:
    with pytest.raises(UsageProblem, match="has 2 profile values, and this command searches one schedule"):
        read_size("1..9@2,4")


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((("M", 1), ("M", "2..64@9")), ""),
        ((("M", "1..64@9"),), ""),
        ((("M", 1), ("M", "3..64@9")), "some values have none: there are schedules for K = 8, M = 1; K = 8"),
        ((("M", "1..5"), ("M", "5..64@9")), "K = 8, M = 1..5 and K = 8, M = 5..64 have values in common"),
        ((("M", "1..99@9"),), "one is for K = 8, M = 1..99"),
        ((("N", "1..64"),), "one is for K = 8, N = 1..64"),
    ],
)
def test_schedules_share_out_all_sizes(parts: tuple[tuple[str, int | str], ...], said: str) -> None:
    found = check_versions([box_of([("K", 8), part]) for part in parts], WHOLE)
    assert [finding.code for finding in found] == (["schedule-mismatch"] if said else [])
    assert said in "\n".join(finding.message for finding in found)


# --- schedules --------------------------------------------------------------------------------------------


def test_each_profile_value_has_a_schedule_and_each_size_one_of_them() -> None:
    made = compile_request(asked({"M": "1..64@1,4,40", "N": 16, "K": 8}), "schedule")
    found = sizes_of(made)
    assert len(found) == 3
    boxes = [box_of(sizes.items()) for sizes in found]
    assert check_versions(boxes, {"K": (8, 8), "M": (1, 64), "N": (16, 16)}) == ()
    for box, profile in zip(boxes, (1, 4, 40), strict=True):
        assert box["M"][0] <= profile <= box["M"][1]


def test_profile_values_that_follow_each_other_leave_no_choice() -> None:
    made = compile_request(asked({"M": "1..64@1,2,3", "N": 16, "K": 8}), "schedule")
    assert [sizes["M"] for sizes in sizes_of(made)] == [1, 2, "3..64@3"]


@pytest.mark.parametrize(
    ("crossing", "profiles"), [(1, (1, 35)), (17, (1, 35)), (34, (1, 35)), (700, (35, 4096))]
)
def test_a_schedule_ends_where_the_next_one_is_cheaper(crossing: int, profiles: tuple[int, int]) -> None:
    asked_at: list[int] = []

    def costs(at: int) -> tuple[float, float]:
        asked_at.append(at)
        return float(at), crossing + 0.5

    end = end_of_first(costs, *profiles)
    assert end <= crossing < PRECISION * end + 1
    assert len(set(asked_at)) == len(asked_at) <= 6


def test_a_schedule_that_has_no_price_serves_no_size_beside_its_profile_value() -> None:
    assert end_of_first(lambda _: (inf, 1.0), 2, 9) == 2
    assert end_of_first(lambda _: (1.0, inf), 2, 9) == 8


def test_blocks_of_one_profile_value_have_a_price_at_smaller_sizes() -> None:
    """The schedule for 35 rows has blocks of more rows than a call between the two values has."""
    made = compile_request(asked({"M": "1..8192@2,35", "N": 512, "K": 512}, "x86-avx512"), "schedule")
    first, second = sizes_of(made)
    assert first["M"] != "1..34@2"
    assert second["M"] != "3..8192@35"


def test_several_sizes_multiply() -> None:
    made = compile_request(asked({"M": "1..2@1,2", "N": "1..9@8", "K": "4..5@4,5"}), "schedule")
    assert [(s["M"], s["N"], s["K"]) for s in sizes_of(made)] == [
        (m, "1..9@8", k) for m in (1, 2) for k in (4, 5)
    ]


@pytest.mark.parametrize("value", ["1..64@4,1", "1..64@4,4", "2..64@1,4", "1..64@4,65"])
def test_profile_values_increase_within_their_range(value: str) -> None:
    with pytest.raises(UsageProblem, match="profile values increase, and lie between"):
        compile_request(asked({"M": value, "N": 16, "K": 8}), "schedule")


# --- text -------------------------------------------------------------------------------------------------


def test_the_text_of_several_schedules_gives_the_same_program() -> None:
    request = asked({"M": "1..64@1,40", "N": 16, "K": 8})
    made = compile_request(request)
    text = print_versions(one.schedule for one in made.versions if one.schedule)
    assert text.count("isamap schedule 1\n") == 2
    replayed = Request(
        request.kernel, "generic-c", {**request.sizes, "M": "1..64"}, schedule=Source("s", text)
    )
    again = compile_request(replayed)
    assert isinstance(made.emitted, EmittedC)
    assert isinstance(again.emitted, EmittedC)
    assert again.emitted.source == made.emitted.source


def test_one_schedule_serves_all_sizes_whatever_else_is_named() -> None:
    one = compile_request(asked({"M": "1..64@40", "N": 16, "K": 8}))
    assert one.schedule
    text = Source("s", print_versions([one.schedule]))
    request = Request(shipped("gemm_f32"), "generic-c", {"M": "1..64@1,40", "N": 16, "K": 8}, schedule=text)
    again = compile_request(request)
    assert not again.versions
    assert again.emitted == one.emitted


def test_lines_keep_their_numbers() -> None:
    texts = split_versions(Source("s", "# it\nisamap schedule 1\nkernel k\n\nisamap schedule 1\nkernel k\nx"))
    assert len(texts) == 2
    with pytest.raises(SyntaxProblem) as caught:
        parse_schedule(texts[1])
    assert "s:7:1" in caught.value.diagnostics[0].render()


# --- programs ---------------------------------------------------------------------------------------------


def test_the_sizes_of_a_call_choose() -> None:
    made = compile_request(asked({"M": "1..64@1,2,40", "N": 16, "K": 8}), "lower")
    assert made.program
    assert made.program.symbols == (("M", 1, 64),)
    conditions: list[str] = []
    for node in made.program.body:
        assert isinstance(node, If)
        assert isinstance(node.body[0], Block)
        conditions.append(" and ".join(f"{a} {c} {b}" for a, c, b in node.conditions))
    first, second = conditions[:2]
    assert first == "M == 1"
    assert second.startswith(("M == 2", "2 <= M"))
    assert len(conditions) == 3
    assert conditions[2].endswith("<= M")


def test_all_that_is_said_of_a_program_names_its_versions() -> None:
    request = asked({"M": "1..64@1,40", "N": 16, "K": 8})
    outcome = describe(request, compile_request(request))
    assert outcome.summary["sizes"] == {"M": "1..64@1,40", "N": 16, "K": 8}
    parts = [box_of(version["sizes"].items())["M"] for version in outcome.summary["versions"]]
    assert (parts[0][0], parts[0][1] + 1, parts[1][1]) == (1, parts[1][0], 64)
    assert outcome.files["report.txt"].count("gemm_f32 on generic-c: K = 8, M = ") == 2
    assert outcome.files["gemm_f32.schedule"].count("nest 0 {") == 2
    assert not outcome.is_cut_short


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize(
    ("hw", "name", "sizes"),
    [
        ("generic-c", "gemm_f32", {"M": "1..12@1,9", "N": "2..7@2,5", "K": 3}),
        ("x86-amx", "gemm_bf16", {"M": "1..40@1,33", "N": 20, "K": 34}),
        (
            "generic-c",
            "depthwise_separable",
            {"N": 1, "C": 2, "K": 3, "H": "3..9@3,6", "W": 6, "R": 3, "S": 3},
        ),
    ],
)
def test_every_version_is_right(hw: str, name: str, sizes: dict[str, Size]) -> None:
    prepared = prepare(asked(sizes, hw, name))
    every = concrete_sizes(prepared)
    made = prepared.program.compilation.versions
    assert len(made) > 1
    assert len(every) >= len(made)
    assert profile_sizes(prepared) in every
    for given in every:
        case = verify_case(prepared, given, "integers")
        assert case.ok, (given, case.problems[0].render())


def test_sizes_of_a_range_that_break_where_are_moved_to_the_nearest_that_do_not() -> None:
    sizes: dict[str, Size] = {"M": "1..30@13", "N": 3, "K": 5, "P": 4}
    prepared = prepare(asked(sizes, "generic-c", "sell_f32"))
    assert [given["M"] for given in concrete_sizes(prepared)] == [8, 16, 24]


@pytest.mark.parametrize("hw", ["generic-c", "x86-avx2"])
@pytest.mark.parametrize("kernel", ["csr_f32", "sell_f32", "bsr_f32"])
def test_sparse_products_with_open_rows_are_right(hw: str, kernel: str) -> None:
    stored = {"csr_f32": ("NNZ", 20), "sell_f32": ("P", 4), "bsr_f32": ("NNZB", 5)}
    sizes: dict[str, Size] = {"M": "1..40@16", "N": 9, "K": 16, **dict([stored[kernel]])}
    prepared = prepare(asked(sizes, hw, kernel))
    for given in concrete_sizes(prepared):
        case = verify_case(prepared, given, "integers")
        assert case.ok, (given, case.problems[0].render())
