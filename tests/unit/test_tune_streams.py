"""What products say of rows that stream along a sum, and what a machine is with that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isamap.machine import load_machine
from isamap.machine.cpu import this_cpu
from isamap.plan.caches import Memories
from isamap.source import Infeasible, Source
from isamap.tune.overlay import lay_over
from isamap.tune.profile import Profile, StreamFigure, parse_profile, print_profile
from isamap.tune.streams import FEW, MANY, Took, figure_of

MACHINE = load_machine("x86-avx512")
STATED = Memories.of(MACHINE).beyond_streams
ROWS = 1000
FIGURE = StreamFigure("mem", 1.25, 40.0, 2.5, 90.0)


def took(factor: float, start_ns: float, rows_of_a: int) -> Took:
    """What a product takes by these figures, as the model adds them up."""
    assert STATED is not None
    traffic_ns, computing_ns = 1e6, 5e4 * rows_of_a
    ns = STATED.traffic_factor * traffic_ns + factor * computing_ns + start_ns * ROWS
    return Took(ns, traffic_ns, computing_ns)


def found(plain: tuple[float, float], hinted: tuple[float, float]) -> StreamFigure:
    assert STATED is not None
    readings = {(m, h): took(*(hinted if h else plain), m) for m in (FEW, MANY) for h in (False, True)}
    return figure_of("mem", STATED, ROWS, readings)


def test_four_products_say_what_computing_and_rows_take_with_and_without_hints() -> None:
    figure = found((1.25, 40.0), (2.5, 90.0))
    assert figure.memory == "mem"
    assert (figure.computing_factor, figure.start_ns) == pytest.approx((1.25, 40.0))
    assert (figure.hinted_computing_factor, figure.hinted_start_ns) == pytest.approx((2.5, 90.0))


def test_nothing_is_less_than_nothing() -> None:
    figure = found((-0.5, 40.0), (1.0, -50.0))
    assert figure.computing_factor == 0.0
    assert figure.hinted_start_ns == 0.0


def test_products_that_compute_no_more_say_nothing() -> None:
    assert STATED is not None
    same = {(m, h): took(1.0, 10.0, FEW) for m in (FEW, MANY) for h in (False, True)}
    with pytest.raises(Infeasible):
        figure_of("mem", STATED, ROWS, same)


def profile(streams: StreamFigure | None) -> Profile:
    when = "2026-11-22T12:00:00+00:00"
    return Profile(MACHINE.name, MACHINE.digest, this_cpu(), "gcc 12", when, (), streams=streams)


@pytest.mark.parametrize("streams", [None, FIGURE])
def test_a_profile_holds_the_figure_or_does_not_name_it(streams: StreamFigure | None) -> None:
    text = print_profile(profile(streams))
    assert ('"streams"' in text) == (streams is not None), "a profile from before keeps its digest"
    assert parse_profile(Source("p", text)) == profile(streams)


def test_a_machine_with_the_figure_takes_rows_along_sums_by_it_and_pieces_as_before() -> None:
    laid = Memories.of(lay_over(MACHINE, profile(FIGURE))).beyond_streams
    assert STATED is not None
    assert laid == replace(
        STATED,
        row_start_ns=40.0,
        row_computing_factor=1.25,
        hinted_row_start_ns=90.0,
        hinted_row_computing_factor=2.5,
    )
    elsewhere = Memories.of(lay_over(MACHINE, profile(replace(FIGURE, memory="l3")))).beyond_streams
    assert elsewhere == STATED
