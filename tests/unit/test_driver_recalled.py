"""Problems and schedules from the cache: recalled without a solver, never trusted, and only what recurs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import isamap.driver.formulation
import isamap.driver.pipeline
from isamap.driver.api import source_of
from isamap.driver.cached_schedules import PROBLEMS, SCHEDULES, schedule_key
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import BEST_FORM, Request
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_schedule
from isamap.source.cache import Cache

REQUEST = Request(source_of("gemm_f32"), "x86-avx512", {"M": 24, "N": 48, "K": 40}, heuristic="greedy")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what was built and solved since, in order."""
    done: list[str] = []
    for module, name in ((isamap.driver.formulation, "problem_in"), (isamap.driver.pipeline, "solve")):
        original: Any = getattr(module, name)

        def noted(*words: Any, name: str = name, original: Any = original, **named: Any) -> Any:
            done.append(name)
            return original(*words, **named)

        monkeypatch.setattr(module, name, noted)
    return done


def scheduled(request: Request) -> Schedule:
    found = compiled(request).schedule
    assert found is not None
    return found


def compiled(request: Request) -> Compilation:
    return compile_kernel(request, "schedule")


def only_object(kind: str) -> Path:
    (found,) = (Cache.open(kind).folder / "objects").iterdir()
    return found


def test_a_schedule_is_recalled_as_it_was(worked: list[str]) -> None:
    first, again = compiled(REQUEST), compiled(REQUEST)
    assert worked == ["problem_in", "solve"]
    assert again.schedule == first.schedule
    assert again.problem == first.problem


def test_a_problem_serves_every_limit(worked: list[str]) -> None:
    scheduled(REQUEST)
    scheduled(replace(REQUEST, limit_s=9.0))
    assert worked == ["problem_in", "solve", "solve"]


def test_a_first_schedule_and_the_best_one_look_at_problems_of_their_own(worked: list[str]) -> None:
    scheduled(REQUEST)
    scheduled(replace(REQUEST, heuristic="annealing"))
    assert worked == ["problem_in", "solve"] * 2


def test_without_the_cache_nothing_is_recalled_or_kept(worked: list[str], empty_cache: Path) -> None:
    scheduled(replace(REQUEST, cache=False))
    kept = {path.name for path in empty_cache.iterdir()} if empty_cache.exists() else set[str]()
    assert not kept & {SCHEDULES, PROBLEMS}  # of machines, what was read and checked is kept all the same
    scheduled(REQUEST)
    assert (empty_cache / SCHEDULES).exists()
    scheduled(replace(REQUEST, cache=False))
    assert worked == ["problem_in", "solve"] * 3


@pytest.mark.parametrize(
    ("kernel", "machine", "forms"), [("gemm_f32", "x86-avx512", 1), ("gemm_s8s8", "x86-avx512-vnni", 3)]
)
def test_the_problem_of_every_form_is_built_once(
    worked: list[str], kernel: str, machine: str, forms: int
) -> None:
    request = Request(source_of(kernel), machine, {"M": 8, "N": 48, "K": 40}, transform=BEST_FORM)
    first = compiled(request)
    assert worked == ["problem_in"] * forms + ["solve"]
    again = compiled(request)
    assert len(worked) == forms + 1
    assert (again.rewrite, again.schedule) == (first.rewrite, first.schedule)


@pytest.mark.parametrize(
    "other",
    [
        {"limit_s": 11.0},
        {"fixed": {"nest0.block.k": 8}},
        {"sizes": {"M": 24, "N": 48, "K": 41}},
        {"machine": "x86-avx2"},
        {"kernel": source_of("gemm_nt_f32")},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_question_is_another_schedule(worked: list[str], other: dict[str, Any]) -> None:
    first = scheduled(REQUEST)
    assert worked.count("solve") == 1
    found = scheduled(replace(REQUEST, **other))
    assert worked.count("solve") == 2
    assert found == first or print_schedule(found) != print_schedule(first)


def test_words_that_mean_nothing_do_not_matter(worked: list[str]) -> None:
    scheduled(REQUEST)
    text = "# another comment\n" + REQUEST.kernel.text
    scheduled(replace(REQUEST, kernel=replace(REQUEST.kernel, text=text)))
    assert worked == ["problem_in", "solve"]


@pytest.mark.parametrize("kind", [PROBLEMS, SCHEDULES])
def test_a_damaged_entry_is_made_again(worked: list[str], kind: str) -> None:
    first = scheduled(REQUEST)
    path = only_object(kind)
    path.write_bytes(path.read_bytes().replace(b"gemm", b"gemn"))
    assert scheduled(REQUEST) == first
    assert worked == ["problem_in", "solve", "problem_in" if kind == PROBLEMS else "solve"]


def test_an_entry_that_breaks_a_rule_is_solved_again(worked: list[str]) -> None:
    first = compiled(REQUEST)
    assert first.problem is not None
    key = schedule_key(REQUEST, first.problem, {})
    assert key is not None
    wrong = only_object(SCHEDULES).read_text(encoding="utf-8").replace("unroll m by 1", "unroll m by 3")
    Cache.open(SCHEDULES).keep(key, wrong.encode())
    assert scheduled(REQUEST) == first.schedule
    assert worked == ["problem_in", "solve", "solve"]


@pytest.mark.parametrize("kind", [PROBLEMS, SCHEDULES])
def test_an_entry_of_nonsense_is_no_entry(worked: list[str], kind: str) -> None:
    first = scheduled(REQUEST)
    (key,) = (Cache.open(kind).folder / "keys").iterdir()
    Cache.open(kind).keep(key.name, b'{"classes": [], "objects": [[7]], "root": {"is": 0}}')
    assert scheduled(REQUEST) == first
    assert len(worked) == 3


def test_what_the_clock_cut_short_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    solve: Any = isamap.driver.pipeline.solve

    def stopped(*words: Any, **named: Any) -> Schedule:
        return replace(solve(*words, **named), reproducible=False)

    monkeypatch.setattr(isamap.driver.pipeline, "solve", stopped)
    scheduled(REQUEST)
    assert not (Cache.open(SCHEDULES).folder / "keys").exists() or not list(
        (Cache.open(SCHEDULES).folder / "keys").iterdir()
    )


def test_what_a_plug_in_finds_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = compiled(REQUEST).problem
    assert problem is not None
    assert schedule_key(REQUEST, problem, {}) is not None
    monkeypatch.setattr(
        "isamap.driver.cached_schedules.plugin_package", str
    )  # any text: the package that it is from
    assert schedule_key(REQUEST, problem, {}) is None


def test_a_schedule_of_an_expression_longer_than_a_line_is_recalled(
    tmp_path: Path, worked: list[str]
) -> None:
    terms = " + ".join(f"sigmoid(first_operand[row] * {n} + second_operand[row])" for n in range(4))
    path = tmp_path / "long.ir"
    path.write_text(
        f"""kernel long(N) {{
          in first_operand: f32[N]; in second_operand: f32[N]; out y: f32[N];
          for row in N {{ y[row] = tanh({terms}); }} }}"""
    )
    request = Request(source_of(str(path)), "generic-c", {"N": 5}, heuristic="greedy")
    first = scheduled(request)
    assert max(len(nest.mapping) for nest in first.nests) > 100
    worked.clear()
    assert scheduled(request) == first
    assert worked == []
