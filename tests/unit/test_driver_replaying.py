"""What is said of a schedule that is replayed: its price, and what was proven only while that still holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isamap.driver.compiling import describe
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.kernels import kernel_path
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_schedule
from isamap.source import Source

KERNEL = Source("gemm_f32.ir", kernel_path("gemm_f32").read_text(encoding="utf-8"))
ASKED = Request(KERNEL, "generic-c", {"M": 16, "N": 16, "K": 16})


def found_by(request: Request) -> Schedule:
    found = compile_kernel(request, "schedule").schedule
    assert found
    return found


def again(schedule: Schedule, request: Request = ASKED, edit: tuple[str, str] = ("", "")) -> Schedule:
    """Return what a file with a schedule's text, perhaps edited, is said to be."""
    text = print_schedule(schedule)
    assert edit[0] in text
    return found_by(replace(request, schedule=Source("s", text.replace(*edit) if edit[0] else text)))


SOLVED = found_by(ASKED)


def test_what_the_solver_wrote_is_what_it_was() -> None:
    assert SOLVED.status == "OPTIMAL"
    assert again(SOLVED) == SOLVED


def test_an_edited_schedule_costs_what_the_model_says_of_it_and_proves_nothing() -> None:
    step = next(loop.step for loop in SOLVED.nests[0].loops if loop.axis == "n")
    assert step > 3
    fixed = found_by(replace(ASKED, fixed={"unroll.n": 3}))
    found = again(SOLVED, edit=(f"for n by {step}", "for n by 3"))
    assert found.cost_ns is not None
    assert SOLVED.cost_ns is not None
    assert fixed.lower_bound_ns is not None
    assert found.cost_ns > SOLVED.cost_ns
    assert found.cost_ns >= fixed.lower_bound_ns
    assert (found.status, found.lower_bound_ns, found.gap) == ("MANUAL", None, None)


def test_a_text_without_a_digest_is_read_and_priced() -> None:
    text = "\n".join(line for line in print_schedule(SOLVED).splitlines() if not line.startswith("digest"))
    found = found_by(replace(ASKED, schedule=Source("s", text)))
    assert (found.status, found.cost_ns, found.lower_bound_ns) == ("MANUAL", SOLVED.cost_ns, None)


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, threads=2),
        replace(ASKED, cold=True),
        replace(ASKED, kernel=Source("gemm_f32.ir", KERNEL.text + "\n# more\n")),
    ],
    ids=["threads", "cold", "kernel"],
)
def test_what_is_proven_is_proven_for_the_question_that_was_asked(other: Request) -> None:
    found = again(SOLVED, other)
    assert (found.status, found.lower_bound_ns) == ("MANUAL", None)


def test_a_price_that_the_model_does_not_say_is_not_believed() -> None:
    assert SOLVED.cost_ns is not None
    cheaper = replace(SOLVED, cost_ns=SOLVED.cost_ns / 2, lower_bound_ns=SOLVED.cost_ns / 2)
    found = again(cheaper)
    assert (found.status, found.cost_ns, found.lower_bound_ns) == ("MANUAL", SOLVED.cost_ns, None)


def test_a_schedule_without_a_price_is_replayed() -> None:
    step = next(loop.step for loop in SOLVED.nests[0].loops if loop.axis == "m")
    text = print_schedule(SOLVED).replace(f"for m by {step}", f"for m by 12 {{ for m by 8 {{ for m by {step}")
    found = found_by(replace(ASKED, schedule=Source("s", text + "}}")))
    assert (found.status, found.cost_ns, found.model) == ("MANUAL", None, "")


def test_an_optimum_among_what_a_person_left_open_says_so() -> None:
    request = replace(ASKED, fixed={"unroll.m": 1})
    found = found_by(request)
    assert (found.status, found.fixed) == ("OPTIMAL", (("nest0.unroll.m", 1),))
    assert again(found) == found
    report = describe(request, compile_kernel(request)).files["report.txt"]
    line = next(line for line in report.splitlines() if line.startswith("schedule: "))
    assert line.startswith("schedule: OPTIMAL among those with nest0.unroll.m = 1, ")
    assert line.endswith(", at most 0.0 % above the model's optimum of these")


def test_a_range_without_a_typical_value_is_replayed_at_its_highest() -> None:
    request = replace(ASKED, sizes={**ASKED.sizes, "M": "1..40"}, heuristic="greedy")
    found = found_by(request)
    text = print_schedule(found)
    assert "M = 1..40@40" in text
    assert found_by(replace(request, schedule=Source("s", text))) == found
