"""What a product says of long pieces of rows that stream, and what a machine is with that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isamap.cli import main
from isamap.formulate.hierarchy import Memories
from isamap.machine import Machine, load_machine
from isamap.machine.processor import this_cpu
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.run.runner import RunProblem
from isamap.source import Diagnostic, Infeasible, Source
from isamap.tune.measured_parameters import PieceFigure, Unmeasured
from isamap.tune.overlay import lay_over
from isamap.tune.profile import Profile, parse_profile, print_profile
from isamap.tune.row_streams import best_in_place, piece_figure

MACHINE = load_machine("x86-avx512")
STATED = Memories.of(MACHINE).beyond_streams
FIGURE = PieceFigure("mem", 40.0)
SIZES = {"l1": 32 << 10, "mem": 64 << 20}


def measured(machine: Machine = MACHINE) -> tuple[PieceFigure | Unmeasured | None, list[str]]:
    """Return what products say of long pieces, and what is said meanwhile."""
    said: list[str] = []
    return piece_figure(machine, SIZES, said.append, np.random.default_rng(1)), said


def timed(
    monkeypatch: pytest.MonkeyPatch,
    plain_ns: float,
    hinted_ns: float,
    swept_ns: float = 4e6,
    both_ns: float = 4e6,
) -> None:
    """Return how long calls take, by whether schedules have hints and loops in blocks; nothing is compiled."""

    def compiled(_: object, chosen: Any) -> float:
        (nest,) = chosen.nests
        swept = all(loop.is_unrolled for loop in nest.loops[nest.hold :])
        if nest.prefetches:
            return both_ns if swept else hinted_ns
        return swept_ns if swept else plain_ns

    def calls_ns(_: object, took_ns: float, *words: object) -> list[float]:
        del words
        return [3e9, took_ns]

    monkeypatch.setattr("isamap.tune.clocked.ClockedKernel.compiled", compiled)
    monkeypatch.setattr("isamap.tune.clocked.ClockedKernel.calls_ns", calls_ns)


def test_what_takes_longer_than_by_the_model_is_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[PieceFigure] = []
    for more_ns in (1e6, 2e6, 3e6):
        timed(monkeypatch, *(4e6 + more_ns,) * 4)
        figure, said = measured()
        assert isinstance(figure, PieceFigure)
        assert (figure.memory, said) == ("mem", ["long pieces that stream"])
        found.append(figure)
    names = ("long_start_ns", "hinted_start_ns", "swept_start_ns", "hinted_swept_start_ns")
    for first, second, third in ([getattr(one, name) for one in found] for name in names):
        assert third - second == pytest.approx(second - first)
    # 1 ms more of 2048 rows, each read in one go; a quarter of that and less where it is read in pieces.
    assert found[1].swept_start_ns == pytest.approx((found[0].swept_start_ns or 0.0) + 1e6 / 2048)
    both = [one.hinted_swept_start_ns or 0.0 for one in found]
    assert both[1] == pytest.approx(both[0] + 1e6 / 2048)
    assert 10.0 < found[1].long_start_ns - found[0].long_start_ns < 1e6 / 2048 / 4


def test_what_takes_no_longer_begins_in_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, 1e6, 1e6, 1e6, 1e6)
    assert measured()[0] == PieceFigure("mem", 0.0, 0.0, 0.0, 0.0)


def test_each_way_is_told_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, 1e6, 1e6, 1e6, 9e6)
    figure, _ = measured()
    assert isinstance(figure, PieceFigure)
    assert (figure.long_start_ns, figure.hinted_start_ns, figure.swept_start_ns) == (0.0, 0.0, 0.0)
    assert (figure.hinted_swept_start_ns or 0.0) > 1e6 / 2048


def test_a_machine_without_room_for_a_sweep_says_nothing_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, 4e6, 4e6)

    def none(
        problem: Problem, along_sum: bool, hinted: bool, fixed: dict[str, int] | None = None
    ) -> Schedule:
        if fixed:
            raise Infeasible(Diagnostic("no-schedule", "there is no room"))
        return best_in_place(problem, along_sum, hinted)

    monkeypatch.setattr("isamap.tune.row_streams.best_in_place", none)
    figure, _ = measured()
    assert isinstance(figure, PieceFigure)
    assert (figure.swept_start_ns, figure.hinted_start_ns is None) == (None, False)
    assert figure.hinted_swept_start_ns is None


def test_where_nothing_streams_there_is_nothing_to_say() -> None:
    links = tuple(replace(link, streams=None) for link in MACHINE.links)
    assert measured(replace(MACHINE, links=links)) == (None, [])


def test_pieces_shorter_than_long_ones_have_taken_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, 6e6, 4e6)
    found: list[float] = []
    for long_bytes in (512, 1 << 12, 1 << 13):
        assert STATED is not None
        streams = replace(STATED, long_bytes=long_bytes)
        links = tuple(replace(link, streams=streams if link.streams else None) for link in MACHINE.links)
        figure, _ = measured(replace(MACHINE, links=links))
        assert isinstance(figure, PieceFigure)
        found.append(figure.long_start_ns)
    assert found[2] == pytest.approx(2 * found[1])
    assert found[1] > found[0]


def test_what_cannot_be_performed_or_timed_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, said = measured(replace(MACHINE, instructions={}))
    assert isinstance(lost, Unmeasured)
    assert said[-1] == f"long pieces that stream are not measured: {lost.said}"

    def compiled(*words: object) -> None:
        del words
        raise RunProblem(Diagnostic("program-crashed", "it crashed"))

    monkeypatch.setattr("isamap.tune.clocked.ClockedKernel.compiled", compiled)
    assert measured()[0] == Unmeasured("mem", "it crashed")


def profile(**found: Any) -> Profile:
    when = "2026-11-23T03:00:00+00:00"
    return Profile(MACHINE.name, MACHINE.digest, this_cpu(), "gcc 12", when, (), **found)


def test_a_machine_with_the_figure_begins_long_pieces_by_it() -> None:
    made = profile(pieces=FIGURE)
    assert parse_profile(Source("p", print_profile(made))) == made
    assert STATED is not None
    assert Memories.of(lay_over(MACHINE, made)).beyond_streams == replace(STATED, long_start_ns=40.0)
    more = profile(pieces=PieceFigure("mem", 40.0, 3.0, 0.0, 5.0))
    assert parse_profile(Source("p", print_profile(more))) == more
    known = replace(
        STATED, long_start_ns=40.0, hinted_long_start_ns=3.0, swept_start_ns=0.0, hinted_swept_start_ns=5.0
    )
    assert Memories.of(lay_over(MACHINE, more)).beyond_streams == known
    elsewhere = profile(pieces=replace(FIGURE, memory="l3"))
    assert Memories.of(lay_over(MACHINE, elsewhere)).beyond_streams == STATED


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"pieces": FIGURE}, ["mem", "40"]),
        ({"unmeasured_pieces": Unmeasured("mem", "it crashed")}, ["mem", "–", "it", "crashed"]),
    ],
)
def test_what_was_found_is_kept_and_shown(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    found: dict[str, Any],
    words: list[str],
) -> None:
    made = profile(**found)
    assert parse_profile(Source("p", print_profile(made))) == made

    def calibrate(*given: object) -> Profile:
        del given
        return made

    monkeypatch.setattr("isamap.tune.calibrate.calibrate", calibrate)
    assert main(["hw", "calibrate", MACHINE.name, "-o", str(tmp_path / "p.json")]) == 0
    line = capsys.readouterr().out.split("long pieces that stream")[1].splitlines()[1]
    assert line.split() == words
