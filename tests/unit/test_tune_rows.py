"""What products say of beginning rows, and what a machine is with that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isamap.cli import main
from isamap.machine import Link, Machine, load_machine
from isamap.machine.processor import this_cpu
from isamap.run.runner import RunProblem, RunResult
from isamap.source import Diagnostic, Infeasible, Source
from isamap.tune.measured_parameters import RowFigure, RowReading, Unmeasured
from isamap.tune.overlay import lay_over
from isamap.tune.profile import Profile, parse_profile, print_profile
from isamap.tune.row_starts import (
    DEEP,
    FEW,
    LEAST_ROWS,
    MANY,
    MOST_ROWS,
    SWEPT,
    UNIT,
    RowTime,
    SecondMemoryTimes,
    TwoMemoryProduct,
    crowded_piece_ns,
    row_figure,
    row_figures,
    shape,
)

MACHINE = load_machine("x86-avx512")
N, K = 400, 2048
FIGURE = RowFigure("l3", 320, 40.0, None, 64, 0.75, (RowReading(16, 0, False, 70.0),), traffic_factor=0.25)


def profile(*rows: RowFigure) -> Profile:
    return Profile(
        MACHINE.name, MACHINE.digest, this_cpu(), "gcc 12", "2026-11-22T12:00:00+00:00", (), rows=rows
    )


def link(memory: str, *rows: RowFigure) -> Link:
    """Return the link from a memory into a cache, with these figures."""
    machine = lay_over(MACHINE, profile(*rows))
    cached = [x for x in machine.links if machine.memories[x.target_memory].kind == "cache"]
    return next(x for x in cached if x.source_memory == memory)


@pytest.mark.parametrize("size_bytes", [600 << 10, 6 << 20, 12 << 20, 96 << 20])
def test_a_matrix_takes_what_it_is_given_and_its_rows_begin_everywhere(size_bytes: int) -> None:
    n, k = shape(size_bytes)
    assert LEAST_ROWS <= k <= MOST_ROWS
    assert 0.7 * size_bytes < 4 * n * k <= size_bytes
    assert n % UNIT == 0
    assert n // UNIT % 2 == 1
    assert k % DEEP == 0
    assert k // DEEP % 2 == 1


def took(near: SecondMemoryTimes | None = None, /, **pieces_ns: float) -> RowFigure:
    """Return the figure of pieces that take so long; 20 ns where 16 rows go on, of which computing takes 12."""
    named = {f"r{n}": 20.0 for n in SWEPT} | {"column": 60.0} | pieces_ns
    found = {TwoMemoryProduct(MANY, N, K, n): RowTime(named[f"r{n}"], 16.0, 320) for n in SWEPT}
    found[TwoMemoryProduct(MANY, N, K, K)] = RowTime(named["column"], 16.0, 320)
    ahead = {n: named[f"ahead{n}"] for n in SWEPT if f"ahead{n}" in named}
    found |= {TwoMemoryProduct(MANY, N, K, n, hinted=True): RowTime(ns, 16.0, 320) for n, ns in ahead.items()}
    few, hinted = TwoMemoryProduct(FEW, N, K, SWEPT[0]), TwoMemoryProduct(FEW, N, K, K, hinted=True)
    less = {few: RowTime(named.get("few", 14.0), 4.0, 320)}
    if "hinted" in named:
        less[hinted] = RowTime(named["hinted"], 4.0, 320)
    ns_per_byte = named.get("lines", 0.0) / 320
    return row_figure("l3", found, TwoMemoryProduct(MANY, N, K, SWEPT[0]), less, ns_per_byte, near)


def near(piece_ns: float = 12.0, far_lines_ns: float = 4.0, piece_bytes: int = 320) -> SecondMemoryTimes:
    """Return what pieces take out of the second memory, an ns of which are their lines."""
    return SecondMemoryTimes(piece_bytes, dict.fromkeys(SWEPT, piece_ns), 1.0, far_lines_ns)


def test_what_columns_take_longer_is_what_beginning_a_piece_takes() -> None:
    assert took().start_ns == pytest.approx(40.0)
    assert took(column=15.0).start_ns == 0.0


def test_as_many_rows_are_followed_as_are_read_nearly_as_fast() -> None:
    assert took().swept_count == SWEPT[-1]
    slow = {f"r{n}": 35.0 for n in SWEPT if n > 32}
    assert took(**slow).swept_count == 32


def test_what_more_computing_adds_is_what_shows_of_it() -> None:
    assert took().computing_factor == pytest.approx(0.5)  # 6 ns of 12
    assert took(few=20.0).computing_factor == 0.0
    assert took(few=1.0).computing_factor == 1.0  # what is computed takes no longer than by itself


def test_what_few_rows_take_beside_what_they_compute_is_what_shows_of_traffic() -> None:
    assert took(few=14.0, lines=24.0).traffic_factor == pytest.approx(0.5)  # 14 ns less half of 4
    assert took(few=14.0, lines=10.0).traffic_factor == 1.0  # what is beyond it is late
    assert took(few=14.0).traffic_factor == 1.0  # what lines take is not known
    assert took(few=1.0, lines=10.0).traffic_factor == 0.0


def test_hints_take_no_longer_than_beginning_without_them() -> None:
    assert took().hinted_start_ns is None
    assert took(hinted=20.0).hinted_start_ns == pytest.approx(6.0)
    assert took(hinted=200.0).hinted_start_ns == pytest.approx(40.0)


def test_pieces_of_rows_that_are_followed_are_late_by_what_nothing_else_explains() -> None:
    assert took(near()).swept_ns == pytest.approx(8.0), (
        "half of what is computed shows, and hides these lines"
    )
    assert took(near(far_lines_ns=10.0)).swept_ns == pytest.approx(20.0 - 11.0 / 2 - 10.0)
    assert took(near(), r8=12.0, r16=15.0, r32=16.0, r64=17.0).swept_ns == pytest.approx(4.5), "the middle"
    assert took(near(), r8=19.0, **{f"r{n}": 60.0 for n in SWEPT if n > 8}).swept_ns == pytest.approx(7.0)


def test_pieces_that_are_hardly_late_are_in_time() -> None:
    for found in (took(near(19.5)), took(near(25.0)), took(), took(near(piece_bytes=64))):
        assert (found.swept_ns, found.hinted_swept_count, found.hinted_swept_ns) == (0.0, 0, 0.0)


def test_what_hints_save_of_late_pieces_is_measured() -> None:
    found = took(near(), ahead8=18.5, ahead16=12.0, ahead32=13.0, ahead64=14.0, ahead128=40.0)
    assert (found.swept_ns, found.hinted_swept_ns) == (pytest.approx(8.0), pytest.approx(2.0))
    assert found.hinted_swept_count == 64
    assert [r.hinted for r in found.readings].count(True) == 5
    assert took(near(), **{f"ahead{n}": 4.0 for n in SWEPT}).hinted_swept_ns == 0.0, "earlier than in time"


def test_what_hinted_pieces_take_beside_computing_is_what_shows_of_their_traffic() -> None:
    ahead = {f"ahead{n}": 7.5 for n in SWEPT}
    assert took(near(), **ahead).hinted_traffic_factor == pytest.approx(0.5)  # 7.5 ns less half of 11, of 4
    uneven = ahead | {"ahead8": 40.0, "ahead16": 6.5, "ahead32": 8.5}
    assert took(near(), **uneven).hinted_traffic_factor == pytest.approx(0.5), "the middle of those in time"
    assert took(near(), lines=48.0, **ahead).hinted_traffic_factor == pytest.approx(0.25), (
        "no more than of pieces without hints"
    )
    assert took(near(), **{f"ahead{n}": 5.0 for n in SWEPT}).hinted_traffic_factor == 0.0
    for unknown in (took(**ahead), took(near()), took(near(piece_bytes=64), **ahead)):
        assert unknown.hinted_traffic_factor is None


def test_hints_that_save_next_to_nothing_save_nothing() -> None:
    for found in (took(near()), took(near(), ahead16=19.5), took(near(), ahead16=30.0)):
        assert (found.swept_ns, found.hinted_swept_count) == (pytest.approx(8.0), 0)
    assert took(near(), ahead16=18.5).hinted_swept_count == 16


def test_where_more_computing_takes_no_longer_nothing_says_how_much_of_it_shows() -> None:
    one, column = TwoMemoryProduct(MANY, N, K, SWEPT[0]), TwoMemoryProduct(MANY, N, K, K)
    found = {one: RowTime(20.0, 4.0, 320), column: RowTime(60.0, 4.0, 320)}
    with pytest.raises(Infeasible, match="16 rows take the processor no longer than 4"):
        row_figure("l3", found, one, {replace(one, m=FEW): RowTime(20.0, 4.0, 320)})


SIZES = {"l1": 32 << 10, "l2": 512 << 10, "l3": 8 << 20, "mem": 16 << 20}


def measured(machine: Machine = MACHINE) -> tuple[list[RowFigure | Unmeasured], list[str]]:
    """Return what products say of rows, and what is said meanwhile."""
    said: list[str] = []
    took = {name: 0.01 * (number + 1) for number, name in enumerate(SIZES)}
    return list(row_figures(machine, SIZES, took, said.append, np.random.default_rng(1))), said


def given(
    monkeypatch: pytest.MonkeyPatch, made: Callable[[TwoMemoryProduct], Callable[[object], RowTime]]
) -> None:
    """Products take what they are made to take, and nothing is compiled."""

    def program(one: TwoMemoryProduct, machine: Machine) -> Callable[[object], RowTime]:
        del machine
        return made(one)

    monkeypatch.setattr("isamap.tune.row_starts._program", program)


def timed(one: TwoMemoryProduct) -> RowTime:
    """Columns take 60 ns, and all else 20."""
    return RowTime(60.0 if one.in_columns else 20.0, float(one.m), 320)


def test_a_product_that_crashes_or_takes_too_long_costs_the_figure_of_its_memory_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    far = shape(SIZES["l3"])
    why = "the emitted `rows` was stopped after 60 s"

    def made(one: TwoMemoryProduct) -> Callable[[object], RowTime]:
        def run(arrays: object) -> RowTime:
            del arrays
            if (one.n, one.k) == far and one.together == SWEPT[2]:
                raise RunProblem(Diagnostic("program-timeout", why))
            return timed(one)

        return run

    given(monkeypatch, made)
    (near, lost, last), said = measured()
    assert lost == Unmeasured("l3", why)
    assert f"rows out of l3 are not measured: {why}" in said
    for memory, found in (("l2", near), ("mem", last)):
        assert isinstance(found, RowFigure)
        assert (found.memory, found.start_ns, found.swept_count) == (memory, 40.0, SWEPT[-1])


def test_a_product_of_few_rows_that_cannot_be_performed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(one: TwoMemoryProduct) -> Callable[[object], RowTime]:
        if one.m == FEW:
            raise Infeasible(Diagnostic("no-room", "four rows find no room"))
        return lambda _: timed(one)

    given(monkeypatch, made)
    assert measured()[0] == [Unmeasured(m, "four rows find no room") for m in ("l2", "l3", "mem")]


def test_where_nothing_can_be_hinted_all_else_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(one: TwoMemoryProduct) -> Callable[[object], RowTime]:
        if one.hinted and one.n < N:
            raise Infeasible(Diagnostic("no-hints", "nothing is hinted"))
        return lambda _: timed(one)

    given(monkeypatch, made)
    found = [r.hinted_start_ns if isinstance(r, RowFigure) else "" for r in measured()[0]]
    assert found == [None if shape(SIZES[m])[0] < N else 40.0 for m in ("l2", "l3", "mem")]
    assert {None, 40.0} == set(found)


def test_a_machine_without_a_product_of_its_own_says_so() -> None:
    found, _ = measured(replace(MACHINE, instructions={}))
    assert [type(r) for r in found] == [Unmeasured] * 3
    assert all(isinstance(r, Unmeasured) and r.said for r in found)


def test_issues_of_more_rows_than_a_product_of_few_has_are_said() -> None:
    found, _ = measured(load_machine("matmul-16x16x16"))
    said = "instructions multiply 16 rows or more, not 4"
    assert found == [Unmeasured(m, said) for m in ("l2", "l3", "mem")]


def test_a_product_that_refuses_its_operands_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    result = RunResult({}, (), status=2)

    def run(*words: Any, **options: Any) -> RunResult:
        del words, options
        return result

    monkeypatch.setattr("isamap.tune.clocked.compile_library", run)
    monkeypatch.setattr("isamap.tune.clocked.run_program", run)
    found, _ = measured(load_machine("generic-c"))
    said = f"the emitted `rows` returned: {result.meaning}"
    assert found == [Unmeasured(m, said) for m in ("l2", "l3", "mem")]


def test_what_is_not_measured_is_kept_and_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = replace(profile(FIGURE), unmeasured_rows=(Unmeasured("mem", "stopped after 60 s"),))
    assert parse_profile(Source("p", print_profile(made))) == made
    assert link("mem", *made.rows) == link("mem")

    def calibrate(*words: object) -> Profile:
        del words
        return made

    monkeypatch.setattr("isamap.tune.calibrate.calibrate", calibrate)
    assert main(["hw", "calibrate", MACHINE.name, "-o", str(tmp_path / "p.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    (row,) = [line for line in lines if line.startswith("mem ")]
    assert row.split() == ["mem", *["–"] * 13, "stopped", "after", "60", "s"]


def test_a_profile_keeps_rows_and_lays_them_over_the_link_into_the_cache() -> None:
    again = parse_profile(Source("p", print_profile(profile(FIGURE))))
    assert again.rows == (FIGURE,)
    rows = link("l3", *again.rows).rows
    assert (rows.start_ns, rows.start_bytes, rows.computing_factor) == (40.0, 320, 0.75)
    assert rows.traffic_factor == FIGURE.traffic_factor == 0.25
    assert rows.again_ns == link("l3").rows.again_ns > 0
    assert link("l2", FIGURE) == link("l2")


def test_no_more_rows_are_followed_than_half_of_the_pages_that_are_translated_at_once() -> None:
    assert link("l3", FIGURE).rows.swept_count == MACHINE.tlb.count // 2 == 32
    assert link("l3", replace(FIGURE, swept_count=16)).rows.swept_count == 16


def test_a_profile_keeps_what_late_pieces_take() -> None:
    figure = replace(FIGURE, swept_ns=7.5, hinted_swept_count=256, hinted_swept_ns=2.5)
    figure = replace(figure, hinted_traffic_factor=0.125)
    (again,) = parse_profile(Source("p", print_profile(profile(figure)))).rows
    assert again == figure
    rows = link("l3", again).rows
    assert (rows.swept_ns, rows.hinted_swept_count, rows.hinted_swept_ns) == (7.5, 256, 2.5)
    assert rows.hinted_traffic_factor == 0.125
    unhinted = replace(FIGURE, swept_ns=7.5)
    assert parse_profile(Source("p", print_profile(profile(unhinted)))).rows == (unhinted,)
    assert "hinted_swept" not in print_profile(profile(unhinted))
    assert "hinted_traffic" not in print_profile(profile(unhinted))
    assert "swept_ns" not in print_profile(profile(FIGURE))
    assert link("l3", FIGURE).rows.hinted_swept_count == 0


def test_measured_hints_are_no_dearer_than_a_row_without_one() -> None:
    far = replace(FIGURE, memory="mem", hinted_start_ns=500.0, start_ns=600.0)
    streams, stated = link("mem", far).streams, link("mem").streams
    assert streams is not None
    assert stated is not None
    assert streams.hinted_start_ns == stated.row_start_ns
    assert link("mem", replace(far, hinted_start_ns=None)).streams == stated


def test_short_rows_out_of_memory_are_begun_as_measured() -> None:
    assert link("mem").rows.short_bytes > 0
    assert link("mem", replace(FIGURE, memory="mem")).rows.short_bytes == 0


def test_a_profile_without_rows_is_read_and_changes_none() -> None:
    text = print_profile(profile())
    assert '"rows"' not in text
    assert parse_profile(Source("p", text)).rows == ()
    assert link("l3") == next(x for x in MACHINE.links if x.source_memory == "l3")


def test_pieces_of_one_set_take_at_least_what_each_register_block_takes_for_a_further_one() -> None:
    """Ten a piece of 32 rows and eight of 128: blocks begin with 85 ns, and 7.33 come with each row."""
    few, many, free = RowTime(10.0, 2.0, 64), RowTime(8.0, 2.0, 64), RowTime(3.2, 2.0, 64)
    further_ns = (128 * 8.0 - 32 * 10.0) / 96
    taken = {32: (few, free), 128: (many, free)}
    assert crowded_piece_ns(taken, 32, 128) == pytest.approx(further_ns * FEW / MANY)
    near = {**taken, 128: (RowTime(3.3, 2.0, 64), free)}
    assert crowded_piece_ns(near, 32, 128) == 0.0, "they are as good as anywhere"
    assert crowded_piece_ns({**taken, 128: (many, RowTime(3.2, 2.0, 32))}, 32, 128) is None
    assert crowded_piece_ns({**taken, 32: (RowTime(10.0, 2.0, 32), free)}, 32, 128) is None
    noisy = {**taken, 32: (RowTime(40.0, 2.0, 64), free)}
    assert crowded_piece_ns(noisy, 32, 128) == 0.0, "never below nothing"


def test_what_pieces_of_one_set_take_is_kept_and_laid_over_the_link() -> None:
    (again,) = parse_profile(Source("p", print_profile(profile(replace(FIGURE, crowded_piece_ns=2.0))))).rows
    assert again.crowded_piece_ns == link("l3", again).rows.crowded_piece_ns == 2.0
    assert link("l3", FIGURE).rows.crowded_piece_ns == link("l3").rows.crowded_piece_ns
