"""The benchmark's own arithmetic: rows, forms, ratios, checks, files that are resumed."""

from __future__ import annotations

import ctypes
import json
import os
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest

from isamap.bench.campaign import SIZES_BYTES, Bandwidths, Campaign, attainable, run_campaign
from isamap.bench.cases import FORMS, pick_rows
from isamap.bench.charts import ratio_chart
from isamap.bench.contender import Contender, ContenderLost
from isamap.bench.kept_rows import Row
from isamap.bench.kinds import PRODUCTS
from isamap.bench.paired_timing import Ratio, count_trimmed, geometric_mean, ratio
from isamap.bench.product_cases import (
    FORMS_OF_DTYPE,
    GemmCase,
    gemm_cases,
    kernel_text,
    shapes,
    transformer_cases,
)
from isamap.bench.product_check import check_product
from isamap.bench.ring import Task, random_values
from isamap.bench.summary import rows_csv, rows_table, summarise, summary_text
from isamap.bench.timed_loops import READS, build_loops, load_loops
from isamap.driver.request import Request
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.ir import bind
from isamap.ir.interpret import interpret
from isamap.machine import detect_features
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel

CASES = gemm_cases()


def test_all_rows_of_the_suites_are_there() -> None:
    assert len(CASES) == 248
    assert [len(gemm_cases((suite,))) for suite in ("training", "inference_server", "inference_device")] == [
        160,
        75,
        13,
    ]
    assert (CASES[0].m, CASES[0].n, CASES[0].k) == (1760, 16, 1760)


def test_rows_are_picked_by_position_and_stride() -> None:
    assert [case.position for case in pick_rows(CASES, "3,0,10..20/5")] == [3, 0, 10, 15, 20]
    assert len(pick_rows(CASES, None)) == 248


@pytest.mark.parametrize("words", ["248", "5..2", "x", "1..", "0..9/0", "-1", ""])
def test_rows_that_do_not_exist_are_refused(words: str) -> None:
    with pytest.raises(UsageProblem, match="rows"):
        pick_rows(CASES, words)


def test_each_row_belongs_to_one_class() -> None:
    by_class = {name: [c for c in CASES if c.class_name == name] for name in {c.class_name for c in CASES}}
    assert all(case.k > 176 and case.m != 35 for case in by_class["n <= 4"])
    assert sum(map(len, by_class.values())) == 248


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("beta", [0, 1])
@pytest.mark.parametrize("stored", [(False, False), (True, False), (False, True)])
def test_the_kernel_of_a_row_computes_the_product(form: str, beta: int, stored: tuple[bool, bool]) -> None:
    chosen = FORMS[form]
    case = replace(CASES[0], m=5, n=3, k=7, a_transposed=stored[0], b_transposed=stored[1])
    kernel = bind(parse_kernel(Source("k.ir", kernel_text(case, chosen, beta))), {"M": 3, "N": 5, "K": 7})
    held = shapes(case)
    a, b, c = (
        random_values(held[name], dtype, (0, number))
        for number, (name, dtype) in enumerate((("A", chosen.a), ("B", chosen.b), ("C", chosen.c)))
    )
    result = interpret(kernel, {"A": a, "B": b, **({"C": c} if beta else {})}, {})["C"]
    left, right = (a.T if case.b_transposed else a), (b.T if case.a_transposed else b)
    assert check_product(chosen, left, right, c if beta else None, np.asarray(result).astype(c.dtype)).ok


@pytest.mark.parametrize("form", FORMS)
def test_one_wrong_element_is_found_wherever_it_is(form: str) -> None:
    chosen = FORMS[form]
    a, b = random_values((64, 40), chosen.a, (0, 0)), random_values((40, 90), chosen.b, (0, 1))
    kind = np.int64 if not chosen.is_float else np.float64
    exact = a.astype(kind) @ b.astype(kind)
    c = exact.astype(random_values((1, 1), chosen.c, (0, 0)).dtype)
    assert check_product(chosen, a, b, None, c).ok
    for place in ((0, 0), (63, 89), (31, 44)):
        wrong = c.copy()
        wrong[place] += 40
        assert not check_product(chosen, a, b, None, wrong).ok


def product(form: str, rows: int, columns: int, inner: int) -> tuple[np.ndarray, ...]:
    """Return a, B, what C held before, and C as a library computes it in f32."""
    chosen = FORMS[form]
    a, b = random_values((rows, inner), chosen.a, (0, 0)), random_values((inner, columns), chosen.b, (0, 1))
    before = random_values((rows, columns), chosen.c, (0, 2))
    exact = a.astype(np.float32) @ b.astype(np.float32) + before.astype(np.float32)
    return a, b, before, exact.astype(before.dtype)


@pytest.mark.parametrize(("rows", "columns", "inner"), [(128, 1760, 1760), (1, 2048, 2048), (700, 35, 2560)])
def test_one_element_that_is_another_product_is_found_at_real_sizes(
    rows: int, columns: int, inner: int
) -> None:
    a, b, before, c = product("f32", rows, columns, inner)
    assert check_product(FORMS["f32"], a, b, before, c).worst < 0.5
    for place in ((0, columns - 1), (rows // 2, 1)):
        wrong = c.copy()
        wrong[place] = c[rows - 1, columns // 2]
        assert not check_product(FORMS["f32"], a, b, before, wrong).ok


def test_in_bf16_most_of_single_wrong_elements_are_found_and_several_always() -> None:
    a, b, before, c = product("bf16", 128, 1760, 1760)
    assert check_product(FORMS["bf16"], a, b, before, c).worst < 0.6
    rng, found = np.random.default_rng(1), 0
    for _ in range(10):
        wrong = c.copy()
        wrong[rng.integers(128), rng.integers(1760)] = c[rng.integers(128), rng.integers(1760)]
        found += not check_product(FORMS["bf16"], a, b, before, wrong).ok
    assert found >= 6
    several = c.copy()
    several[70:86, 960:976] = c[6:22, 960:976]
    assert not check_product(FORMS["bf16"], a, b, before, several).ok


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_element_that_is_no_number_is_found(value: float) -> None:
    a, b, before, c = product("f32", 128, 200, 64)
    c[77, 133] = value
    assert not check_product(FORMS["f32"], a, b, before, c).ok


def test_a_roof_is_that_of_the_level_where_the_working_set_lives_or_of_a_faster_one() -> None:
    measured = Bandwidths(((1024, 100.0), (2048, 90.0), (4096, 30.0), (8192, 40.0), (16384, 10.0)))
    assert measured.at(100) == 100.0
    assert measured.at(2048) == 90.0
    assert measured.at(4095) == 90.0  # between two sizes: not that of the next larger one
    assert measured.at(4096) == 40.0  # what a larger size has reached, a smaller one reaches
    assert measured.at(1 << 30) == 10.0
    roofs = {"arithmetic": 1e-9, "reading": 100e-9}
    assert attainable(1, 1.0, 9000, 4095, measured, 1) == pytest.approx(roofs)


def test_both_ways_of_reading_read_each_line_once() -> None:
    library = load_loops(build_loops())
    for size in (512, 512 * 9):
        lines = np.arange(size // 8 + 8, dtype=np.int64) ** 2
        skipped = -(-lines.ctypes.data // 64) * 8 - lines.ctypes.data // 8
        data = lines[skipped : skipped + size // 8]
        expected = int(np.bitwise_xor.reduce(data))
        for name in READS:
            sink = ctypes.c_int64(0)
            assert getattr(library, name)(data.ctypes.data, size, 1, ctypes.addressof(sink)) >= 0
            assert sink.value == expected
    assert all(size % 512 == 0 for size in SIZES_BYTES)
    assert list(SIZES_BYTES) == sorted(set(SIZES_BYTES))


def test_the_interval_of_a_median_is_that_of_order_statistics() -> None:
    assert [count_trimmed(n) for n in (7, 8, 9, 11, 20)] == [0, 0, 1, 1, 5]
    found = ratio([1.0] * 9, [1.5, 1.1, 1.2, 1.3, 1.25, 1.4, 0.5, 1.35, 9.0])
    assert (found.value, found.low, found.high) == (1.3, 1.1, 1.5)
    assert not found.is_slower
    assert ratio([2.0] * 7, [1.0] * 7).is_slower


def test_an_interval_is_wide_where_it_says_little_about_some_per_cent() -> None:
    assert not Ratio(1.0, 0.98, 1.02).is_wide
    assert Ratio(1.0, 0.96, 1.01).is_wide
    assert Ratio(1.0, 0.99, 1.04).is_wide
    narrow = replace(ROW, ratio={"torch": {"value": 0.8, "low": 0.79, "high": 0.81}})
    wide = replace(ROW, label="wide", ratio={"torch": {"value": 0.8, "low": 0.7, "high": 0.92}})
    (summary,) = summarise([narrow, wide])
    assert (summary.slower, summary.much_slower, summary.wide) == (2, (ROW.label,), ("wide",))
    assert "intervals wider than 3% either way: 1 (wide)" in summary_text([summary])
    assert rows_table([narrow, wide], "m x n x k").count(") wide") == 1


def test_the_geometric_mean_of_nothing_is_none() -> None:
    assert geometric_mean([]) is None
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


ROW = Row(
    0, "training", "product", "1760x16x1760 NN", "8 <= n <= 64", {"m": 1760, "n": 16, "k": 1760}, "f32",
    99_123_200, beta=1, bound_by="arithmetic",
    seconds={"isamap": (1e-3,) * 7, "torch": (2e-3,) * 7, "mkl": (5e-4,) * 7},
    verified={"isamap": True, "torch": True, "mkl": False},
    ratio={"torch": {"value": 2.0, "low": 1.9, "high": 2.1}, "mkl": {"value": 0.5, "low": 0.5, "high": 0.5}},
    attainable_seconds=5e-4, predicted_ns={"stated": 8e5, "calibrated": 1.1e6},
)  # fmt: skip


def test_a_baseline_whose_result_is_wrong_is_not_the_best() -> None:
    assert ROW.best_baseline == "torch"
    (summary,) = summarise([ROW])
    assert summary.overall["best"] == pytest.approx(2.0)
    assert summary.slower == 0


def test_rows_go_through_json_and_back() -> None:
    assert Row.from_json(json.loads(json.dumps(ROW.as_json()))) == ROW


def test_what_is_left_out_is_named() -> None:
    gone = replace(ROW, seconds={}, ratio={}, left_out="9.0 GB of operands; 1.0 GB may be used")
    assert "9.0 GB of operands" in rows_table([ROW, gone], "m x n x k")
    assert "9.0 GB of operands" in rows_csv([ROW, gone])
    assert "f32, all" in summary_text(summarise([ROW, gone]))
    assert ratio_chart([ROW, gone], "title").count("<circle") == 1


def campaign(
    folder: Path, *, resume: bool = False, threads: int = 1, cache: str = "warm"
) -> Campaign[GemmCase]:
    cases = pick_rows(gemm_cases(("inference_device",)), "6")
    return Campaign(
        PRODUCTS,
        cases,
        FORMS_OF_DTYPE["f32"],
        "generic-c",
        ("openblas",),
        threads,
        seconds=0,
        folder=folder,
        resume=resume,
        cache=cache,
    )


@pytest.mark.exhaustive
def test_a_rotating_row_is_compiled_for_cold_operands_beside_reading_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[bool] = []

    def prepared(request: Request) -> PreparedKernel:
        asked.append(request.cold)
        return prepare(request)

    monkeypatch.setattr("isamap.bench.campaign.prepare", prepared)
    (row,), _ = run_campaign(campaign(tmp_path / "rows", cache="rotate"))
    assert asked == [True]
    assert row.ring > 1
    assert set(row.seconds) == {"isamap", "openblas"}, "reading takes turns, and is not a contender"
    assert row.reading_bytes_per_ns > 0
    weights_bytes = 4 * row.sizes["m"] * row.sizes["k"]
    assert row.attainable_seconds >= weights_bytes / row.reading_bytes_per_ns * 1e-9


@pytest.mark.exhaustive
def test_a_row_is_measured_kept_and_not_measured_again(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    (row,), where = run_campaign(campaign(folder))
    assert row.verified == {"isamap": True, "openblas": True}
    assert len(row.seconds["isamap"]) == len(row.seconds["openblas"]) == 7
    assert row.ratio["openblas"]["low"] <= row.ratio["openblas"]["value"] <= row.ratio["openblas"]["high"]
    assert where["cores"]
    with pytest.raises(UsageProblem, match="exists already"):
        run_campaign(campaign(folder))
    with (folder / "rows.jsonl").open("a") as file:
        file.write('{"case": 1, "suite": "tr')  # as a kill leaves it
    (again,), _ = run_campaign(campaign(folder, resume=True))
    assert again == row
    assert list(row.predicted_ns) == ["stated"]
    assert row.predicted_ns["stated"] > 0


@pytest.mark.exhaustive
def test_rows_behind_the_time_limit_are_named_and_not_kept(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    asked = replace(campaign(folder), cases=pick_rows(gemm_cases(("inference_device",)), "6,7"))
    rows, _ = run_campaign(replace(asked, minutes=1e-9))
    assert [row.left_out for row in rows] == ["not reached within 1e-09 minutes"] * 2
    rows, _ = run_campaign(replace(asked, minutes=5, resume=True))
    assert [row.left_out for row in rows] == ["", ""]
    again, _ = run_campaign(replace(asked, minutes=1e-9, resume=True))
    assert again == rows, "rows that are known cost no time"


def is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


@pytest.mark.exhaustive
def test_packed_is_compared_with_packed_only() -> None:
    stored = (CASES[6], next(c for c in CASES if c.a_transposed), next(c for c in CASES if c.b_transposed))
    cases = tuple(replace(c, position=n, m=48, n=20, k=70) for n, c in enumerate(stored))
    forms = tuple(FORMS[name] for name in ("f32", "bf16", "bf16_f32", "u8s8"))
    rows, _ = run_campaign(
        Campaign(PRODUCTS, cases, forms, "generic-c", ("torch", "mkl", "openblas"), seconds=0, packed=True)
    )
    assert len(rows) == len(cases) * len(forms)
    for row in rows:
        assert row.packed
        assert row.key.endswith(" packed")
        assert row.verified["isamap"]
        assert set(row.verified.values()) == {True}
        assert "openblas" not in row.verified
        if is_installed("mkl") and row.form != "bf16":
            assert "compute" in row.implementation["mkl"]
        # oneDNN packs bf16 only where the processor has instructions for it.
        packs_bf16 = {"avx512bw", "avx512vl", "avx512dq"} <= set(detect_features())
        if is_installed("torch") and (row.form == "f32" or (row.form == "bf16" and packs_bf16)):
            assert "oneDNN" in row.implementation["torch"]


@pytest.mark.exhaustive
def test_what_packs_its_weights_but_adds_nothing_is_absent_where_c_is_added_to() -> None:
    small = replace(CASES[0], m=48, n=20, k=70)
    asked = Campaign(
        PRODUCTS, (small,), (FORMS["f32"],), "generic-c", ("torch",), beta=1, seconds=0, packed=True
    )
    (row,), _ = run_campaign(asked)
    assert list(row.seconds) == ["isamap"]


def test_packed_rows_stand_apart_from_others() -> None:
    assert replace(ROW, packed=True).key != ROW.key
    assert Row.from_json(json.loads(json.dumps(replace(ROW, packed=True).as_json()))).packed


def test_a_contender_that_dies_is_told_of_and_its_successor_works() -> None:
    cores = frozenset(os.sched_getaffinity(0))
    for _ in range(2):
        with Contender("openblas", 1, {}, cores) as contender, pytest.raises(ContenderLost, match="ended"):
            contender.time(1)  # without a task: its process fails


def test_a_contender_that_was_lost_begins_anew_with_the_next_row() -> None:
    """Once a library that ended in one row left all later rows without any contender."""
    not_offered = Task("product", CASES[0], "f32", {}, "", packed=True)
    with Contender("openblas", 1, {}, frozenset(os.sched_getaffinity(0))) as contender:
        for _ in range(2):
            with pytest.raises(ContenderLost, match="ended"):
                contender.time(1)  # without a task: its process fails
            assert not contender.prepare(not_offered)


def test_more_threads_than_cores_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cores may be used"):
        run_campaign(campaign(tmp_path, threads=1 << 20))


def test_rows_of_one_shape_are_told_apart_by_their_place() -> None:
    assert replace(ROW, case=ROW.case + 1).key != ROW.key
    cases = transformer_cases()
    alike = [c for c in cases if (c.suite, c.label) == (cases[0].suite, cases[0].label)]
    assert len(alike) > 1, "a layer has several products of one shape"
