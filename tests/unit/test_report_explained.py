"""What is to be seen of a schedule: every view as text, as JSON, and the roofline as a picture.

`pytest --snapshot-update` writes tests/data/explained.txt and .svg anew.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from plan_problems import gemm, tiled_gemm

from isamap.cli import main
from isamap.driver.api import source_of
from isamap.driver.explaining import explain
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.machine import load_machine
from isamap.plan.problem import Problem, chosen_options
from isamap.plan.schedule import CountedLoop, Stage, UnrolledLoop
from isamap.report.columns import bytes_text, percent_text
from isamap.report.explained import Explained, bound_sentence, differences, explained_json, explained_text
from isamap.report.nest_tree import nest_tree
from isamap.report.roofline import Roofline, Slope, roofline_picture, rooflines
from isamap.scheduler import AnalyticModel, k_best, schedule
from isamap.scheduler.effects.time_parts import where_time_goes

DATA = Path(__file__).parents[1] / "data"
MODEL = AnalyticModel()


def explained(kernel: str = "gemm_f32", machine: str = "x86-avx512", **sizes: int) -> Explained:
    request = Request(source_of(kernel), machine, sizes, heuristic="greedy")
    made = compile_kernel(request, "schedule")
    assert made.schedule is not None
    assert made.problem is not None
    assert made.machine is not None
    ranked = k_best(made.problem, MODEL, 3).schedules if kernel == "gemm_f32" else ()
    return explain(made.schedule, made.problem, made.machine, "analytic", ranked)


@pytest.mark.parametrize("suffix", ["txt", "svg", "json"])
def test_all_views_of_a_product_look_like_this(suffix: str, pytestconfig: pytest.Config) -> None:
    found = explained(M=100, N=200, K=300)
    views = {
        "txt": explained_text(found) + "\n",
        "svg": found.svg(),
        "json": json.dumps(explained_json(found), indent=1) + "\n",
    }
    path = DATA / f"explained.{suffix}"
    if pytestconfig.getoption("update_snapshots"):
        path.write_text(views[suffix], encoding="utf-8")
    assert views[suffix] == path.read_text(encoding="utf-8")


def test_the_first_sentence_names_what_bounds_and_what_is_next() -> None:
    found = explained(M=1024, N=1024, K=1024)
    assert found.sentence.startswith("bound by the fma units: ")
    assert "; next: " in found.sentence
    assert explained_text(found).splitlines()[0] == found.sentence


def test_of_several_statements_the_longest_is_named() -> None:
    found = explained("gru", T=3, N=4, C=16, H=32)
    longest = max(found.spent, key=lambda s: s.total_ns)
    assert found.sentence.startswith(f"statement {longest.statement} takes ")


def test_a_product_that_streams_is_bound_by_memory() -> None:
    found = explained("gemv_f32", M=4096, K=8192)
    assert found.sentence.startswith("bound by traffic from memory of a")  # or of a factor of it


def test_a_model_without_parts_says_so() -> None:
    assert bound_sentence(()) == "the model does not split its cost into parts"


# --- the tree ---------------------------------------------------------------------------------------------


def test_each_loop_says_what_a_turn_of_it_touches() -> None:
    question = gemm(64, 64, 64)
    nest = schedule(question, heuristic="greedy").nests[0]
    loops = (
        CountedLoop("n", 32),
        CountedLoop("k", 16),
        CountedLoop("m", 4),
        CountedLoop("n", 16),
        CountedLoop("k", 1),
        UnrolledLoop("m", 1),
    )
    made = replace(nest, loops=loops, stages=(), hold=4)
    tree = nest_tree(made, question.nests[0].options[0], question)
    seen = {level.text: level for level in tree.levels if level.trips is not None}
    assert [level.trips for level in seen.values()] == [0, 2, 4, 16, 2, 16, 4]
    assert dict(seen["all"].touched_bytes) == {"a": 16384, "b": 16384, "c": 16384}
    assert dict(seen["for n by 32"].touched_bytes) == {"a": 64 * 64 * 4, "b": 64 * 32 * 4, "c": 64 * 32 * 4}
    assert dict(seen["for k by 16"].touched_bytes) == {"a": 64 * 16 * 4, "b": 16 * 32 * 4, "c": 64 * 32 * 4}
    assert dict(seen["for m by 4"].touched_bytes) == {"a": 4 * 16 * 4, "b": 16 * 32 * 4, "c": 4 * 32 * 4}
    assert seen["all"].fits == "l1"
    assert [level.text for level in tree.levels if level.trips is None] == ["hold", "issue"]


def test_bytes_are_those_of_the_buffer_once_an_operand_is_staged() -> None:
    question = tiled_gemm(64, 64, 64)
    found = schedule(question, heuristic="greedy")
    made = replace(found.nests[0], stages=(Stage("c", 1),))
    tree = nest_tree(made, question.nests[0].options[0], question)
    whole, outer, *inner = [
        dict(level.touched_bytes)["c"] for level in tree.levels if level.trips is not None
    ]
    assert whole == 64 * 64 * 2
    assert outer % (256 * 4) == 0
    assert inner[-1] == 256 * 4


def test_windows_overlap() -> None:
    found = explained("conv2d_nchw", "x86-avx2", N=1, C=3, K=8, H=20, W=20, R=3, S=3)
    whole = dict(found.trees[0].levels[0].touched_bytes)
    assert whole["a"] == 3 * 20 * 20 * 4
    assert whole["c"] == 8 * 18 * 18 * 4


# --- the roofline -----------------------------------------------------------------------------------------


def test_a_point_lies_where_the_model_sees_it() -> None:
    question = gemm(512, 512, 512)
    found = schedule(question, heuristic="greedy")
    times = where_time_goes(found, question, MODEL)
    (roof,) = rooflines(found, question, times)
    assert roof.operations == 2 * 512**3
    assert roof.peak_per_ns == pytest.approx(2 * 16 / 0.14)
    assert found.cost_ns is not None
    assert roof.reached_per_ns == pytest.approx(roof.operations / found.cost_ns)
    assert roof.reached_per_ns <= roof.peak_per_ns
    (time,) = times
    assert time is not None
    for slope in roof.slopes:
        ns = time.sums().get(f"from {slope.level}", 0.0)
        assert slope.moved_bytes == pytest.approx(ns * slope.bandwidth_bytes_per_ns)
        # No level allows less than the model says is reached.
        assert roof.allowed_per_ns(slope) >= roof.reached_per_ns * (1 - 1e-9)


def test_the_roofs_of_parts_that_run_at_the_same_time_are_those_of_all_their_cores() -> None:
    one = gemm(512, 512, 512)
    made = [(schedule(each, heuristic="greedy"), each) for each in (one, replace(one, threads=4))]
    alone, roof = (rooflines(found, each, where_time_goes(found, each, MODEL))[0] for found, each in made)
    assert roof.peak_per_ns == pytest.approx(4 * alone.peak_per_ns)
    assert alone.peak_per_ns < roof.reached_per_ns <= roof.peak_per_ns
    for slope in roof.slopes:
        assert roof.allowed_per_ns(slope) >= roof.reached_per_ns * (1 - 1e-9)


def test_a_statement_is_explained_by_the_option_with_its_own_parameters() -> None:
    """The reports took the first option of a mapping: one warp a block instead of four."""
    question = gemm(512, 512, 512)
    found, (nest,) = schedule(question, heuristic="greedy"), question.nests
    times = where_time_goes(found, question, MODEL)
    (own,) = nest.options
    options = (
        replace(own, choose=(("warp", 1),), interval_ns=4 * own.interval_ns),
        replace(own, choose=(("warp", 4),)),
    )
    several = replace(question, nests=(replace(nest, options=options),))
    chosen = replace(found, nests=(replace(found.nests[0], choose=(("warp", 4),)),))
    assert chosen_options(chosen, several) == ((chosen.nests[0], options[1]),)
    assert rooflines(chosen, several, times) == rooflines(found, question, times)


def test_the_picture_is_labelled_with_units_and_drawn_the_same_each_time() -> None:
    slopes = (Slope("l2", 168.0, 4.0e6), Slope("<far> & away", 10.0, 0.0))
    roofs = [Roofline(0, "fma", 10**7, 150.0, 229.0, slopes)]
    picture = roofline_picture("one & two", roofs).svg()
    assert picture == roofline_picture("one & two", roofs).svg()
    root = ElementTree.fromstring(picture)
    words = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {
        "operations per byte",
        "GOP/s (operations per ns)",
        "peak 229 GOP/s",
        "model 150 GOP/s",
        "a: l2 168 B/ns",
        "b: <far> & away 10 B/ns, unused",
        "one & two, statement 0: 150 of 229 GOP/s of fma, 66 %",
    } <= words


def test_a_picture_of_nothing_is_still_one() -> None:
    root = ElementTree.fromstring(roofline_picture("none", []).svg())
    assert "the model names no traffic" in "".join(root.itertext())


# --- runners-up, words, and the commands ------------------------------------------------------------------


def test_runners_up_say_which_decisions_differ() -> None:
    question: Problem = gemm(100, 200, 300)
    ranked = k_best(question, MODEL, 2).schedules
    first, second = explain(ranked[0], question, load_machine("x86-avx512"), "analytic", ranked).runners
    words = differences(first, second)
    assert words
    assert all(" to " in word and not word.startswith("nest0") for word in words)
    assert differences(first, first) == []


@pytest.mark.parametrize("machine", ["generic-c", "x86-avx2", "edge-npu"])
@pytest.mark.parametrize(
    "kernel", ["gemm_f32 M=17 N=48 K=20", "gemv_f32 M=40 K=64", "gemm_u8s8 M=32 N=48 K=64"]
)
@pytest.mark.parametrize("heuristic", ["greedy", "cpsat"])
def test_no_runner_up_is_cheaper_without_a_reason(
    kernel: str, machine: str, heuristic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *sizes = kernel.split()
    words = ["schedule", name, "--hw", machine, "-D", *sizes, "--heuristic", heuristic, "--limit", "0.5"]
    code = main([*words, "--report", "--json"])
    answer = json.loads(capsys.readouterr().out)
    if code == 3:
        assert answer["diagnostics"][0]["code"].startswith("no-")
        return
    assert code == 0
    costs = [runner["cost_ns"] for runner in answer["report"]["runners_up"]]
    is_cheaper = bool(costs) and min(costs) < costs[0] * (1 - 1e-6)
    assert bool(answer["report"]["runners_up_note"]) == is_cheaper


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("FEASIBLE", "the solver was stopped"),
        ("HEURISTIC", "a heuristic made the choice"),
        ("OPTIMAL", "within the tolerance"),
        ("MANUAL", "a file or a measurement made the choice"),
    ],
)
def test_a_cheaper_runner_up_is_explained(status: str, reason: str) -> None:
    question: Problem = gemm(100, 200, 300)
    ranked = k_best(question, MODEL, 4).schedules
    assert ranked[0].cost_ns is not None
    choice = replace(ranked[-1], status=status, cost_ns=1.1 * ranked[0].cost_ns)
    shown = explain(choice, question, load_machine("x86-avx512"), "analytic", ranked)
    assert shown.runners[0].cost_ns == choice.cost_ns
    assert shown.cheaper_note.startswith("number 2 costs less by the model than number 1, the choice: ")
    assert reason in shown.cheaper_note
    assert shown.cheaper_note in explained_text(shown)
    assert explained_json(shown)["runners_up_note"] == shown.cheaper_note


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (48, "48 B"), (1536, "1.5 KiB"), (128 << 20, "128 MiB"), (3 << 30, "3 GiB")],
)
def test_bytes_are_written_in_a_unit_that_leaves_them_readable(size: int, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(("share", "text"), [(0, "0 %"), (0.004, "0.4 %"), (0.873, "87 %"), (1, "100 %")])
def test_shares_have_as_many_digits_as_help(share: float, text: str) -> None:
    assert percent_text(share) == text


def test_the_command_shows_the_report_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    drawn = tmp_path / "roof.svg"
    words = "schedule gemm_f32 --hw x86-avx512 -D M=17 N=48 K=20 --heuristic greedy --report --roofline"
    assert main([*words.split(), str(drawn)]) == 0
    said = capsys.readouterr().out
    assert "\nbound by " in said
    assert "\nrunners-up\n" in said
    assert said.endswith(f"wrote {drawn}\n")
    assert ElementTree.parse(drawn).getroot().tag.endswith("svg")
    assert main([*words.split(), str(drawn)]) == 2
    assert "output-exists" in capsys.readouterr().err
    assert main([*words.split(), str(drawn), "--overwrite", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert report["bound"] in said
    assert len(report["runners_up"]) >= 5


def test_compile_writes_the_views(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", "gemm_f32", "--hw", "generic-c", "-D", "M=8", "N=8", "K=8", "-o", str(tmp_path)]
    assert main(words) == 0
    sentence = (tmp_path / "views.txt").read_text().splitlines()[0]
    assert (tmp_path / "report.txt").read_text().splitlines()[-1] == sentence
    assert sentence in capsys.readouterr().out
    assert json.loads((tmp_path / "views.json").read_text())["bound"] == sentence
    assert {"roofline.svg", "views.txt", "views.json"} <= set(
        json.loads((tmp_path / "manifest.json").read_text())["files"]
    )


def test_names_are_the_machine_s_own() -> None:
    question = gemm(64, 64, 64)
    found = schedule(question, heuristic="greedy")
    shown = explain(found, question, load_machine("x86-avx512"), "analytic")
    assert "issues" in shown.sentence  # this mapping's instruction is not of the machine
