"""Learned cost models: trained on a made-up log, kept as data, and judged on what they did not see."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from isamap_learned.features import FEATURES, FEATURES_VERSION, OF_PRICE
from isamap_learned.learned import Learned, ModelUnusable, Trained, parse_trained, print_trained
from isamap_learned.regression_trees import Forest, Tree
from isamap_learned.training import (
    SETTINGS,
    TREES,
    Judgement,
    Sample,
    centre_residuals,
    judged,
    matrix,
    samples_in,
    train,
)

from isamap.driver.api import source_of
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.plan.protocols import Trial
from isamap.tune.evaluating import Log, Record


def samples() -> list[Sample]:
    """Of three families; the model has packing take half of what it takes, and each row has a factor."""
    rng = random.Random(0)
    found: list[Sample] = []
    for kernel in ("gemm_f32", "gemm_bf16", "conv_f32", "gru"):
        for row in range(4):
            factor = rng.uniform(0.5, 2)
            for _ in range(12):
                share, model_ns = rng.uniform(0, 0.5), rng.uniform(1000, 1500)
                features = dict.fromkeys(FEATURES, 0.0) | {"packing": share, "issues": rng.random()}
                measured_ns = factor * model_ns * (1 + share)
                found.append(Sample(kernel, f"{kernel} {row}", features, model_ns, measured_ns, "m", "p"))
    return found


@pytest.fixture(scope="module")
def trained() -> Trained:
    pytest.importorskip("lightgbm")
    return train(samples())


def test_what_the_model_misses_is_learned(trained: Trained) -> None:
    analytic, learned = judged(samples(), list(trained.forest.values(matrix(samples(), trained.names))))
    assert analytic is not None
    assert learned is not None
    assert learned.tau > 0.9 > analytic.tau
    assert learned.first_over_best < 1.02 < analytic.first_over_best


def test_the_card_says_on_what_and_how_good_on_families_left_out(trained: Trained) -> None:
    card = trained.card
    assert (card["samples"], card["rows"], card["machines"], card["features"]) == (
        192,
        16,
        {"m": 192},
        "price",
    )
    assert trained.names == OF_PRICE
    assert card["kernels"] == {"conv_f32": 48, "gemm_bf16": 48, "gemm_f32": 48, "gru": 48}
    assert [(held["family"], held["rows"]) for held in card["held_out"]] == [
        ("conv", 4),
        ("gemm", 8),
        ("gru", 4),
        ("all", 16),
    ]
    for held in card["held_out"]:
        assert held["learned"]["tau"] > held["analytic"]["tau"]
        assert held["learned"]["first_over_best"] < held["analytic"]["first_over_best"]


def test_a_trained_model_is_read_as_it_was_written(trained: Trained) -> None:
    again = parse_trained("m.json", print_trained(trained))
    assert again == trained
    assert train(samples()).forest == trained.forest  # the same samples give the same trees


def test_trees_say_what_the_library_says(trained: Trained) -> None:
    lightgbm: Any = pytest.importorskip("lightgbm")
    data = lightgbm.Dataset(
        matrix(samples(), OF_PRICE), centre_residuals(samples()), params={"verbosity": -1}
    )
    booster = lightgbm.train(dict(SETTINGS), data, num_boost_round=TREES)
    said = np.asarray(booster.predict(matrix(samples(), OF_PRICE)))
    assert np.abs(said - trained.forest.values(matrix(samples(), OF_PRICE))).max() < 1e-4


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ModelUnusable) as refused:
        train(samples()[:49])
    assert str(refused.value) == (
        "the log has 49 samples of these features, and training takes 50: "
        "`python -m isamap_learned gather` collects them"
    )


def test_without_the_library_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ModelUnusable) as refused:
        train(samples())
    assert str(refused.value) == "lightgbm trains models, and is not installed: pip install lightgbm"


# --- the log ----------------------------------------------------------------------------------------------


def record(
    evaluator: str = "processor-time", version: int = FEATURES_VERSION, cost_ns: float | None = 2.0
) -> Record:
    features: Mapping[str, float] = dict.fromkeys(FEATURES, 0.0)
    return Record(
        key="k",
        kernel="gemm_f32",
        kernel_sha256="0",
        machine="m",
        machine_sha256="1",
        profile="",
        sizes={"M": 4},
        schedule="",
        decisions={},
        model="analytic",
        model_cost_ns=1.0,
        features=features,
        evaluator=evaluator,
        cost_ns=cost_ns,
        facts={},
        versions={"features": str(version), "processor": "p"},
        time="2026-11-21T00:00:00+00:00",
    )


def test_only_what_ran_and_has_these_features_is_learned_from() -> None:
    older, failed = record(version=FEATURES_VERSION - 1), record(cost_ns=None)
    told = (record("simulated"), record("learned"), older, failed)
    assert samples_in(told) == ()
    (sample,) = samples_in((*told, record()))
    assert (sample.family, sample.model_ns, sample.measured_ns, sample.processor) == ("gemm", 1.0, 2.0, "p")
    other = samples_in((record("measured"), record()))
    assert other[0].row != other[1].row  # clocks are not compared


# --- in use -----------------------------------------------------------------------------------------------


def dislikes_packing(path: Path) -> Path:
    """Return a model by which what packs takes e³ times as long as the analytic one says."""
    tree = Tree((0, -1, -1), (0.0, 0, 0), (1, 0, 0), (2, 0, 0), (0.0, 0.0, 3.0))
    path.write_text(print_trained(Trained(("packing",), Forest(0.0, (tree,)), {})))
    return path


def test_a_trained_model_corrects_the_analytic_cost(tmp_path: Path) -> None:
    fixed: dict[str, int | None] = {"nest0.stage.b": 1}
    found: list[tuple[float, float]] = []
    learned = Learned(str(dislikes_packing(tmp_path / "m.json")))
    for decided in ({}, fixed):
        sizes: dict[str, int | str] = {"M": 16, "N": 64, "K": 32}
        request = Request(source_of("gemm_f32"), "x86-avx512", sizes, heuristic="greedy", fixed=decided)
        made = compile_kernel(request, "schedule")
        assert made.canonical
        assert made.machine
        assert made.problem
        assert made.schedule
        assert made.schedule.cost_ns
        trial = Trial(made.canonical, made.machine, made.problem, made.schedule, {"M": 16, "N": 64, "K": 32})
        found.append((learned.evaluate(trial), made.schedule.cost_ns))
    assert found[0][0] == pytest.approx(found[0][1])
    assert found[1][0] == pytest.approx(found[1][1] * exp(3))


def test_what_it_says_depends_on_the_file(tmp_path: Path) -> None:
    path = dislikes_packing(tmp_path / "m.json")
    one = Learned(str(path))
    path.write_text(path.read_text().replace("3.0", "2.0"))
    machine = compile_kernel(
        Request(source_of("gemm_f32"), "generic-c", {"M": 4, "N": 4, "K": 4}), "formulate"
    ).machine
    assert machine is not None
    assert one.depends_on(machine) != Learned(str(path)).depends_on(machine)


# --- judging ----------------------------------------------------------------------------------------------


def test_means_are_geometric_of_losses_and_arithmetic_of_tau() -> None:
    found = Judgement.of([([1, 2, 3], [10, 20, 30]), ([3, 2, 1], [10, 20, 40])])
    assert found is not None
    assert (found.rows, found.worst, found.tau) == (2, 4.0, 0.0)
    assert found.first_over_best == pytest.approx(2.0)
    assert Judgement.of([]) is None


def test_the_log_gives_samples(tmp_path: Path) -> None:
    log = Log(tmp_path / "evaluations.sqlite")
    log.add(record())
    assert len(samples_in(log.records())) == 1
