"""Schedules as text: printed, read back, and refused in people's words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isamap.plan.schedule import CountedLoop, NestSchedule, Schedule, Stage, UnrolledLoop
from isamap.plan.text import parse_schedule, print_schedule
from isamap.source import Source, SyntaxProblem

NEST = NestSchedule(
    0,
    "tdp { m: m, n: n } (a = A, b = B[k, n], c = C)",
    (("N", 16), ("R", 16)),
    (CountedLoop("n", 256), CountedLoop("m.p", 32), CountedLoop("k", 32), UnrolledLoop("m.p", 16)),
    (Stage("b", 1), Stage("a", 2)),
    2,
)
SCHEDULE = Schedule(
    "gemm_bf16",
    "./my machine.yaml",
    (("K", 64), ("M", "1..8192@512")),
    (NEST,),
    "analytic",
    1234.5,
    1200.25,
    "FEASIBLE",
    reproducible=False,
)
TEXT = """\
isamap schedule 1
kernel gemm_bf16
machine ./my machine.yaml
sizes K = 64, M = 1..8192@512
model analytic
cost 1234.5 ns
bound 1200.25 ns
status FEASIBLE
reproducible no
digest dfeda0809531

nest 0 {
  map tdp { m: m, n: n } (a = A, b = B[k, n], c = C);
  choose N = 16, R = 16;
  for n by 256 {
    stage b;
    for m.p by 32 {
      stage a;
      hold;
      for k by 32 {
        unroll m.p by 16 {
          issue;
        }
      }
    }
  }
}
"""


def test_a_schedule_prints_canonically() -> None:
    assert print_schedule(SCHEDULE) == TEXT


def test_a_printed_schedule_is_read_back() -> None:
    assert parse_schedule(Source("s", TEXT)) == SCHEDULE


def test_layout_and_comments_do_not_matter() -> None:
    squeezed = TEXT.replace(";\n", ";").replace("{\n", "{  # why\n\n").replace("status", "# a note\nstatus")
    assert parse_schedule(Source("s", squeezed)) == SCHEDULE


def test_a_hand_written_schedule_needs_no_costs() -> None:
    text = "isamap schedule 1\nkernel k\nmachine m\nnest 3 { map f; for i by 4 { hold; issue; } }"
    nest = NestSchedule(3, "f", (), (CountedLoop("i", 4),), (), 1)
    assert parse_schedule(Source("s", text)) == Schedule("k", "m", (), (nest,))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            "",
            "1:1: error[schedule-syntax]: this is not a schedule that this version reads",
        ),
        (TEXT.replace("for m.p", "fro m.p"), "did you mean `for`?"),
        (TEXT.replace("kernel", "kernl"), "did you mean `kernel`?"),
        (TEXT.replace("machine ./my machine.yaml\n", ""), "the schedule does not say its machine"),
        (TEXT.replace("      hold;\n", ""), "no `hold` is around this issue"),
        (TEXT.replace("hold;", "hold; hold;"), "a nest has one `hold`"),
        (TEXT.replace("256 {", "0 {"), "15:12: error[schedule-syntax]: a step is at least 1"),
        (TEXT.replace("256 {", "99999999999999999999 {"), "this number is too large"),
        (TEXT.replace("256 {", "many {"), "`many` is not allowed here: expected a number"),
        (TEXT.replace("stage b;", "stage ;"), "`;` is not allowed here: expected an operand"),
        (TEXT.replace("stage b;", "stage b by columns;"), "`columns` is not allowed here: expected `rows`"),
        (TEXT.replace("stage b;", "stage b in ;"), "`;` is not allowed here: expected a scratchpad"),
        (TEXT.replace("stage b;", "stage b in spad at ;"), "`;` is not allowed here: expected a number"),
        (
            TEXT.replace("stage b;", "stage b at 0;"),
            "`at` is not allowed here: expected `ahead`, `by`, `in`, `packed` or `;`",
        ),
        (TEXT.rstrip()[:-1], "the text ends too early: expected `}`"),
        (TEXT.replace("1234.5 ns", "1234.5 ms"), "`1234.5 ms` is not a time"),
        (TEXT.replace("1234.5", "nan"), "`nan ns` is not a time"),
        (TEXT.replace("digest d", "digest D"), "`Dfeda0809531` is not a digest"),
        (TEXT.replace("digest", "fixed m = 2, n = x\ndigest"), "`m = 2, n = x` fixes no decisions"),
        (TEXT.replace("K = 64", "K: 64"), "`K: 64` is not a size"),
        (TEXT.replace("FEASIBLE", "FEASABLE"), "did you mean `FEASIBLE`?"),
        (TEXT.replace("able no", "able maybe").replace("ible no", "ible maybe"), "expected `yes` or `no`"),
        (TEXT.replace("status FEASIBLE", "found greedy"), "`greedy` names no engine"),
        (TEXT.replace("status FEASIBLE", "proved by"), "`by` names no engine"),
        (TEXT.replace("status FEASIBLE", "model x"), "`model` is given twice"),
        (TEXT.replace("model analytic", "model"), "`model` needs a value on this line"),
        (TEXT + TEXT[TEXT.index("nest") :], "there are two nests 0"),
        (TEXT[: TEXT.index("nest")], "a schedule has at least one `nest`"),
        (TEXT.replace("C);", "C)").replace(";", ""), "`;` is missing behind this"),
        (TEXT.replace("for n", "unroll x by 1 { " * 201 + "for n"), "more than 200 loops"),
        ("#" * 1_000_001, "the limit is 1000000"),
    ],
)
def test_a_wrong_text_is_refused(wrong: str, said: str) -> None:
    with pytest.raises(SyntaxProblem) as refused:
        parse_schedule(Source("s", wrong))
    assert said in refused.value.render()


CHANGES = [
    ("for n by 256", "for n by 512"),
    ("cost 1234.5", "cost 1200.25"),
    ("bound 1200.25", "bound 1234.5"),
    ("status FEASIBLE", "status OPTIMAL"),
    ("reproducible no\n", ""),
    ("digest dfeda0809531\n", ""),
    ("digest d", "digest e"),
    ("K = 64", "K = 65"),
    ("machine .", "machine "),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_nothing_that_a_changed_text_claims_is_believed(before: str, after: str) -> None:
    assert before in TEXT
    found = parse_schedule(Source("s", TEXT.replace(before, after)))
    assert (found.status, found.cost_ns, found.lower_bound_ns, found.model) == ("MANUAL", None, None, "")
    assert found.reproducible


def test_what_was_fixed_and_asked_stands_in_the_text() -> None:
    schedule = replace(
        SCHEDULE, fixed=(("nest0.block.k", 64), ("nest0.unroll.m", 2)), question="0123456789ab"
    )
    text = print_schedule(schedule)
    assert "\nfixed nest0.block.k = 64, nest0.unroll.m = 2\nquestion 0123456789ab\ndigest " in text
    assert parse_schedule(Source("s", text)) == schedule
    freed = parse_schedule(Source("s", text.replace("fixed nest0.block.k = 64, nest0.unroll.m = 2\n", "")))
    assert freed.status == "MANUAL"


def test_the_engines_that_found_and_proved_stand_in_the_text() -> None:
    schedule = replace(SCHEDULE, found_by="greedy, CP-SAT", proved_by="lower bounds")
    text = print_schedule(schedule)
    assert "\nfound by greedy, CP-SAT\nproved by lower bounds\n" in text
    assert parse_schedule(Source("s", text)) == schedule
    changed = parse_schedule(Source("s", text.replace("proved by lower bounds", "proved by CP-SAT")))
    assert (changed.found_by, changed.proved_by) == ("", "")


def test_statements_that_are_taken_along_stand_beside_hold() -> None:
    schedule = replace(SCHEDULE, nests=(replace(NEST, fused=(1, 3)),))
    text = TEXT.replace("      hold;\n", "      hold;\n      fuse 1, 3;\n").replace(
        "dfeda0809531", "26f022fc5a59"
    )
    assert print_schedule(schedule) == text
    assert parse_schedule(Source("s", text)) == schedule
    with pytest.raises(SyntaxProblem, match="a nest has one `fuse`"):
        parse_schedule(Source("s", text.replace("fuse 1, 3;", "fuse 1; fuse 3;")))


def test_an_operand_that_is_passed_packed_is_read_back() -> None:
    packed = replace(SCHEDULE, nests=(replace(NEST, stages=(Stage("b", 0, packed=True), Stage("a", 2))),))
    text = print_schedule(packed)
    assert "  stage b packed;\n  for n by 256 {" in text
    assert parse_schedule(Source("x", text)) == packed


def test_copies_for_products_in_flight_are_read_back() -> None:
    for stage in (Stage("b", 2, 1, 1), Stage("b", 2, 1, 1, into="k"), Stage("b", 2, 2, 1, memory="spad")):
        staged = replace(SCHEDULE, nests=(replace(NEST, stages=(stage,)),))
        assert parse_schedule(Source("x", print_schedule(staged))) == staged


def test_what_is_packed_before_is_neither_early_nor_in_a_scratchpad() -> None:
    for more in ("ahead 1", "in spad"):
        with pytest.raises(SyntaxProblem):
            parse_schedule(Source("x", TEXT.replace("stage b;", f"stage b packed {more};")))


def test_blocks_stand_in_the_header() -> None:
    schedule = replace(SCHEDULE, blocks=(("n", 1), ("p", 64)))
    text = print_schedule(schedule)
    assert text.splitlines()[4] == "blocks n by 1, p by 64"
    assert parse_schedule(Source("s", text)) == schedule
