"""Predicted beside measured times of benchmark rows: rank correlations, errors, the chart."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from isamap.bench.charts import prediction_chart
from isamap.bench.kept_rows import Row
from isamap.bench.predictions import agreements, pairs, predicted_ns, spearman
from isamap.bench.summary import rows_csv, rows_table, summarise, summary_text
from isamap.driver.api import source_of
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.machine import load_machine
from isamap.machine.processor import this_cpu
from isamap.source.numbers import Spread
from isamap.tune.measured_parameters import InstructionFigure
from isamap.tune.profile import Profile

ROW = Row(
    0, "training", "product", "8x4x2 NN", "n <= 4", {"m": 8, "n": 4, "k": 2}, "f32", 128, beta=1,
    seconds={"isamap": (3e-6, 2e-6, 4e-6)}, verified={"isamap": True}, attainable_seconds=1e-6,
)  # fmt: skip


def rows(*predicted_and_measured_ns: tuple[float, float]) -> list[Row]:
    return [
        replace(ROW, predicted_ns={"stated": p}, seconds={"isamap": (2e-9 * m, 1e-9 * m)})
        for p, m in predicted_and_measured_ns
    ]


def test_rank_correlation_is_that_of_the_definition() -> None:
    rng = random.Random(0)
    for _ in range(20):
        left, right = rng.sample(range(100), 12), rng.sample(range(100), 12)
        d = [sorted(left).index(a) - sorted(right).index(b) for a, b in zip(left, right, strict=True)]
        by_hand = 1 - 6 * sum(x * x for x in d) / (12 * (12**2 - 1))
        assert spearman(list(zip(map(float, left), map(float, right), strict=True))) == pytest.approx(by_hand)


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    # Ranks 1.5, 1.5, 3, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5.
    assert spearman([(1.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0)]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert spearman([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]) is None


def test_an_agreement_says_order_error_and_direction() -> None:
    (found,) = agreements(rows((50, 100), (150, 200), (400, 400), (1000, 800)))
    assert found.figures == "stated"
    assert found.rows == 4
    assert found.spearman == found.kendall == pytest.approx(1.0)
    assert found.median_relative_error == pytest.approx(0.25)
    assert found.predicted_over_measured == pytest.approx((0.5 * 0.75 * 1 * 1.25) ** 0.25)
    (wrong,) = agreements(rows((3, 100), (2, 200), (1, 400)))
    assert wrong.spearman == wrong.kendall == pytest.approx(-1.0)


def test_measured_is_the_least_time_of_all_rounds() -> None:
    assert ROW.measured_ns == pytest.approx(2000)
    assert pairs([replace(ROW, predicted_ns={"stated": 7.0})], "stated") == [(7.0, pytest.approx(2000))]


def test_rows_that_did_not_run_and_few_rows_have_no_agreement() -> None:
    assert agreements(rows((1, 1), (2, 2))) == ()
    gone = replace(ROW, predicted_ns={"stated": 1.0}, seconds={})
    assert pairs([gone], "stated") == []
    assert gone.measured_ns is None


def test_tables_and_summary_hold_predictions_of_both_figures() -> None:
    both = [
        replace(
            row,
            predicted_ns={"stated": 1000.0 * i, "calibrated": 1500.0 * i},
            seconds={"isamap": (2e-6 * i,)},
        )
        for i, row in enumerate([ROW] * 4, 1)
    ]
    assert "0.50 / 0.75" in rows_table(both, "m x n x k")
    lines = list(csv.DictReader(io.StringIO(rows_csv(both))))
    assert [line["predicted_stated_ns"] for line in lines] == ["1000.0", "2000.0", "3000.0", "4000.0"]
    assert lines[0]["predicted_calibrated_ns"] == "1500.0"
    text = summary_text(summarise(both))
    assert (
        "cost model by stated figures, 4 rows: Spearman 1.000, Kendall tau 1.000, median error 50%, "
        "predicted / measured 0.50"
    ) in text
    assert (
        "cost model by calibrated figures, 4 rows: Spearman 1.000, Kendall tau 1.000, median error 25%"
        in text
    )
    said = json.loads(json.dumps(summarise(both)[0].as_json()["predictions"]))
    assert [a["figures"] for a in said] == ["stated", "calibrated"]


def test_the_chart_has_a_dot_per_row_and_figures_on_or_off_the_diagonal() -> None:
    shown = rows((100, 100), (1000, 10_000), (10_000, 1000))
    shown[0] = replace(shown[0], predicted_ns={"stated": 100.0, "calibrated": 90.0})
    root = ElementTree.fromstring(prediction_chart(shown, "a & b"))
    dots = [
        (float(c.get("cx", 0)), float(c.get("cy", 0)))
        for c in root.iter("{http://www.w3.org/2000/svg}circle")
    ]
    assert len(dots) == 4
    sums = [x + y for x, y in dots]
    assert sums[0] < sums[1], "a smaller prediction stands lower"
    assert dots[2][0] > dots[0][0], "a longer time stands further right"
    assert sums[2] > sums[0] > sums[3], "below the diagonal the model promises too much"
    ElementTree.fromstring(prediction_chart([], "nothing ran"))


def test_the_schedule_that_ran_is_priced_by_both_figures() -> None:
    machine = load_machine("generic-c")
    slow = Spread(100.0, 100.0, 100.0, 100.0, 1)
    figures = tuple(InstructionFigure(name, (), slow, slow) for name in machine.instructions)
    profile = Profile(machine.name, machine.digest, this_cpu(), "gcc", "2026-11-21T00:00:00+00:00", figures)
    request = Request(source_of("gemm_f32"), "generic-c", {"M": 8, "N": 8, "K": 8}, cache=False)
    plain = prepare(request)
    found = predicted_ns(plain)
    schedule = plain.program.compilation.schedule
    assert schedule is not None
    assert found == {"stated": pytest.approx(schedule.cost_ns)}
    both = predicted_ns(prepare(replace(request, profile=profile)))
    assert list(both) == ["stated", "calibrated"]
    assert both["calibrated"] > 10 * both["stated"]
