"""What products say of rows that stream along a sum, and what a machine is with that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isamap.cli import main
from isamap.formulate.hierarchy import Memories
from isamap.machine import Machine, load_machine
from isamap.machine.processor import this_cpu
from isamap.run.runner import RunProblem
from isamap.run.toolchain import CompilerRefused
from isamap.source import Diagnostic, Infeasible, IsamapError, Source
from isamap.tune.measured_parameters import StreamFigure, Unmeasured
from isamap.tune.overlay import lay_over
from isamap.tune.profile import Profile, parse_profile, print_profile
from isamap.tune.row_streams import FEW, MORE, ProductTime, figure_of, piece_figure, stream_figure

MACHINE = load_machine("x86-avx512")
STATED = Memories.of(MACHINE).beyond_streams
ROWS = 1000
FIGURE = StreamFigure("mem", 1.25, 40.0, 2.5, 90.0)


def took(factor: float, start_ns: float, rows_of_a: int) -> ProductTime:
    """Return what a product takes by these figures, as the model adds them up."""
    assert STATED is not None
    traffic_ns, computing_ns = 1e6, 5e4 * rows_of_a
    ns = STATED.traffic_factor * traffic_ns + factor * computing_ns + start_ns * ROWS
    return ProductTime(ns, traffic_ns, computing_ns)


def found(plain: tuple[float, float], hinted: tuple[float, float]) -> StreamFigure:
    assert STATED is not None
    readings = {(m, h): took(*(hinted if h else plain), m) for m in (FEW, MORE[0]) for h in (False, True)}
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
    same = {(m, h): took(1.0, 10.0, FEW) for m in (FEW, MORE[0]) for h in (False, True)}
    with pytest.raises(Infeasible):
        figure_of("mem", STATED, ROWS, same)


def profile(streams: StreamFigure | None) -> Profile:
    when = "2026-11-22T12:00:00+00:00"
    return Profile(MACHINE.name, MACHINE.digest, this_cpu(), "gcc 12", when, (), streams=streams)


SIZES = {"l1": 32 << 10, "mem": 64 << 20}


def measured(machine: Machine) -> tuple[StreamFigure | Unmeasured | None, list[str]]:
    """Return what products say of rows that stream, and what is said meanwhile."""
    said: list[str] = []
    return stream_figure(machine, SIZES, said.append, np.random.default_rng(1)), said


def raising(problem: Exception) -> Callable[..., Any]:
    def raise_it(*words: object, **options: object) -> None:
        del words, options
        raise problem

    return raise_it


def test_a_machine_without_a_product_of_its_own_says_so() -> None:
    lost, said = measured(replace(MACHINE, instructions={}))
    assert isinstance(lost, Unmeasured)
    assert lost.memory == "mem"
    assert said[-1] == f"rows that stream are not measured: {lost.said}"


@pytest.mark.parametrize("figure", [stream_figure, piece_figure])
def test_why_nothing_streams_is_told_apart(figure: Callable[..., Any]) -> None:
    cases = {
        "it was not measured how fast mem is read": (MACHINE, {"l3": 8 << 20}),
        "a cache holds them, or they take longer to compute than to load": (MACHINE, {"mem": 8 << 20}),
        "no hints exist for them": (replace(MACHINE, hints={}), SIZES),
    }
    said: list[str] = []
    for why, (machine, sizes) in cases.items():
        assert figure(machine, sizes, said.append, np.random.default_rng(1)) == Unmeasured("mem", why)


def test_where_nothing_streams_there_is_nothing_to_say() -> None:
    links = tuple(replace(link, streams=None) for link in MACHINE.links)
    assert measured(replace(MACHINE, links=links)) == (None, [])


@pytest.mark.parametrize("kind", [RunProblem, CompilerRefused])
def test_products_that_cannot_be_timed_cost_this_figure_alone(
    monkeypatch: pytest.MonkeyPatch, kind: type[IsamapError]
) -> None:
    monkeypatch.setattr("isamap.tune.clocked.compile_library", raising(kind(Diagnostic("x", "no way"))))
    lost, said = measured(MACHINE)
    assert lost == Unmeasured("mem", "no way")
    assert said == ["rows that stream", "rows that stream are not measured: no way"]


def test_fewer_rows_stream_where_computing_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    faster = tuple(
        replace(link, bandwidth_bytes_per_ns=2 * link.bandwidth_bytes_per_ns) for link in MACHINE.links
    )

    def compiled(*words: object) -> None:
        del words

    asked: dict[str, list[int]] = {}
    for what, machine in (("as stated", MACHINE), ("memory twice as fast", replace(MACHINE, links=faster))):
        rows = asked.setdefault(what, [])

        def call_ns(
            _: object, __: object, arrays: dict[str, Any], *___: object, rows: list[int] = rows
        ) -> list[float]:
            rows.append(len(arrays["A"]))
            return [1e6 * len(arrays["A"])]

        monkeypatch.setattr("isamap.tune.clocked.ClockedKernel.calls_ns", call_ns)
        monkeypatch.setattr("isamap.tune.clocked.ClockedKernel.compiled", compiled)
        assert isinstance(measured(machine)[0], StreamFigure)
    assert {what: set(rows) for what, rows in asked.items()} == {
        "as stated": {4, 16},
        "memory twice as fast": {4, 8},
    }


def test_why_there_is_no_figure_is_kept_and_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = replace(profile(None), unmeasured_streams=Unmeasured("mem", "stopped after 60 s"))
    assert parse_profile(Source("p", print_profile(made))) == made
    assert Memories.of(lay_over(MACHINE, made)).beyond_streams == STATED

    def calibrate(*words: object) -> Profile:
        del words
        return made

    monkeypatch.setattr("isamap.tune.calibrate.calibrate", calibrate)
    assert main(["hw", "calibrate", MACHINE.name, "-o", str(tmp_path / "p.json")]) == 0
    head, line = capsys.readouterr().out.split("rows that stream")[1].splitlines()[:2]
    assert head.split() == ["computing", "shows", "start", "ns"]
    assert line.split() == ["mem", "–", "–", "stopped", "after", "60", "s"]


def test_a_figure_of_nothing_is_a_figure() -> None:
    laid = Memories.of(lay_over(MACHINE, profile(StreamFigure("mem", 0.0, 0.0, 0.0, 0.0)))).beyond_streams
    assert laid is not None
    assert (laid.row_computing_factor, laid.hinted_row_start_ns) == (0.0, 0.0)
    assert STATED is not None
    assert STATED.row_computing_factor is None, "as pieces take it"


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
