"""`gather`: new samples at every visit, all in the log, and none twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from isamap_learned import gathering
from isamap_learned.features import FEATURES
from isamap_learned.gathering import Plan, gather, samples_of
from isamap_learned.samples import SampleRow, read_sample_rows
from isamap_learned.training import samples_in

from isamap.tune.evaluating import Log

ROW = SampleRow("gemm_f32", (("M", 4), ("N", 6), ("K", 5)))
NOWHERE = SampleRow("gemm_f32", (("M", 0), ("N", 6), ("K", 5)))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(gathering, "TOGETHER", 3)
    return Log.open()


@pytest.mark.exhaustive
def test_each_visit_adds_samples_and_a_later_run_goes_on(log: Log) -> None:
    plan = Plan((ROW,), "generic-c", None, 1.0)
    for visit in (1, 2):
        before = samples_of(plan, log)
        found = next(gather(plan, before, time.monotonic() + 1e6))
        assert (found.row, found.failed, found.refused) == (ROW, 0, "")
        assert len(samples_of(plan, log)[ROW]) == len(before[ROW]) + found.count == 3 * visit
    records = list(log.records())
    assert {record.evaluator for record in records} == {"processor-time"}
    assert all(record.features.keys() == set(FEATURES) for record in records)
    assert all(record.cost_ns and record.cost_ns > 0 for record in records)
    assert len({record.schedule for record in records}) == len(records)
    assert len({sample.row for sample in samples_in(records)}) == 1


def test_a_row_that_cannot_be_compiled_is_named_and_left_out(log: Log) -> None:
    plan = Plan((NOWHERE,), "generic-c", None, 1.0)
    found = list(gather(plan, samples_of(plan, log), time.monotonic() + 1e6))
    assert [(one.row, one.count) for one in found] == [(NOWHERE, 0)]
    assert found[0].refused


def test_no_row_is_visited_when_the_time_is_over(log: Log) -> None:
    plan = Plan((ROW,), "generic-c", None, 1.0)
    assert list(gather(plan, samples_of(plan, log), time.monotonic())) == []


def test_the_shipped_rows_are_of_many_families_in_turn() -> None:
    rows = read_sample_rows()
    assert len(set(rows)) == len(rows) == 48
    assert len({row.kernel.partition("_")[0] for row in rows[:10]}) >= 8
    assert str(rows[0]) == "gemm_f32 M=16 N=1024 K=512"
