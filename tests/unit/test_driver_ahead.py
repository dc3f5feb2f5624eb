"""Kernels compiled ahead by other processes: found in the cache, each compiled once, and never missed."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import numpy as np
import pytest

import isamap
import isamap.driver.length_versions
from isamap.driver import ahead
from isamap.driver.api import _request  # pyright: ignore[reportPrivateUsage] - what a call asks for
from isamap.driver.cached_compilations import key_of, recall_emitted
from isamap.driver.model_rewrites import form_of
from isamap.graph import model_library
from isamap.graph.model_library import ModelOptions, compile_program_of, requests_of
from isamap.graph.model_program import KernelCall, ModelProgram
from isamap.graph.thresholds import AHEAD_KERNELS

compile_those_ahead = model_library._compile_ahead  # pyright: ignore[reportPrivateUsage] - a step of its own


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))


def is_kept(kernel: str, machine: str, **given: Any) -> bool:
    """Return whether `compile` would find its answer in the cache."""
    return recall_emitted(key_of(_request(kernel, machine, **given))) is not None


def asked(number: int, of: str = "") -> dict[str, Any]:
    text = f"kernel k{number}() {{\n  out y: f32[4];\n  for n in 4 {{ y[n] = {number}{of}; }}\n}}\n"
    return {"kernel": text, "machine": "generic-c", "heuristic": "greedy"}


def test_what_was_compiled_ahead_is_recalled(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = [asked(1), asked(2)], asked(3, of=" + nothing")
    ahead.compile_ahead([*good, bad], jobs=2)
    assert [is_kept(**one) for one in (*good, asked(4))] == [True, True, False]

    def refuse(*_: object, **__: object) -> NoReturn:
        pytest.fail("compiled again")

    monkeypatch.setattr(isamap.driver.length_versions, "compile_request", refuse)
    y = np.zeros(4, np.float32)
    isamap.compile(**good[1])(y=y)
    assert y.tolist() == [2] * 4


def test_a_process_that_fails_costs_nothing_but_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    every = [asked(number) for number in range(4)]
    ahead.compile_ahead(every, jobs=2)
    assert sum(is_kept(**one) for one in every) >= 3  # one may have been given to the other
    assert all(isamap.compile(**one).files for one in every)


def test_other_processes_compile_while_this_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    every, own = [asked(number) for number in range(4)], list[ahead.Asked]()
    both = Event()

    def slowly(one: ahead.Asked) -> None:
        own.append(one)
        both.wait(120)  # the other process does the rest meanwhile

    def given(left: deque[ahead.Asked], process: subprocess.Popen[str], told: Any) -> None:
        give(left, process, told)
        both.set()

    give = ahead._send_work  # pyright: ignore[reportPrivateUsage] - what is given is not shown otherwise
    monkeypatch.setattr(ahead, "_compile", slowly)
    monkeypatch.setattr(ahead, "_send_work", given)
    ahead.compile_ahead(every, jobs=2)
    assert own == every[-1:]
    assert [is_kept(**one) for one in every] == [True, True, True, False]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the texts that were to be compiled ahead since."""
    found: list[list[str]] = []

    def noted(requests: Sequence[ahead.Asked], jobs: int, _watch: Any) -> None:
        assert jobs == 2
        found.append([one["kernel"] for one in requests])

    monkeypatch.setattr(model_library, "compile_ahead", noted)
    return found


def program(texts: Sequence[str], *, is_searched: bool = False) -> ModelProgram:
    """Return a program that calls kernels, each twice."""
    kernels = {f"k{number}": text for number, text in enumerate(texts)}
    calls = tuple(KernelCall(name, {}, {}, is_searched) for name in kernels)
    return ModelProgram("model", (), (), {}, kernels, (*calls, *calls))


def test_each_kernel_of_a_graph_that_is_new_is_compiled_ahead_once(given: list[list[str]]) -> None:
    texts = [asked(number)["kernel"] for number in range(6)]
    isamap.compile(texts[0], "generic-c", heuristic="greedy")
    compile_those_ahead(program(texts), ModelOptions("generic-c"), 2)
    assert given == [texts[1:]]


def test_for_a_few_kernels_no_process_is_started(given: list[list[str]]) -> None:
    texts = [asked(number)["kernel"] for number in range(AHEAD_KERNELS - 1)]
    compile_those_ahead(program(texts), ModelOptions("generic-c"), 2)
    assert given == []


def test_a_machine_that_is_none_is_said_where_a_kernel_is_asked_for(given: list[list[str]]) -> None:
    made = program([asked(number)["kernel"] for number in range(6)])
    compile_those_ahead(made, ModelOptions("nowhere"), 2)
    assert given == []
    with pytest.raises(isamap.IsamapError, match="no machine called `nowhere`"):
        compile_program_of(made, ModelOptions("nowhere"))


def test_a_heuristic_that_is_named_counts_and_else_what_is_worth_a_search_gets_one() -> None:
    texts = [asked(0)["kernel"]]
    found = [
        requests_of(program(texts, is_searched=searched), ModelOptions("generic-c", named), runs=False)[0].heuristic
        for named in ("", "greedy") for searched in (False, True)
    ]  # fmt: skip
    assert found == ["greedy", "cpsat", "greedy", "greedy"]


SOFTMAX = """kernel softmax() {
  in x: f32[64, 20000];
  out y: f32[64, 20000];
  temp most: f32[64];
  temp sums: f32[64];
  for m in 64 { most[m] = -inf; }
  for m in 64, n in 20000 { most[m] max= x[m, n]; }
  for m in 64, n in 20000 { y[m, n] = exp(x[m, n] - most[m]); }
  for m in 64 { sums[m] = 0; }
  for m in 64, n in 20000 { sums[m] += y[m, n]; }
  for m in 64, n in 20000 { y[m, n] = y[m, n] / sums[m]; }
}
"""


def test_kernels_of_models_that_keep_values_are_compiled_in_blocks() -> None:
    (request,) = requests_of(program([SOFTMAX]), ModelOptions("x86-avx512"), runs=False)
    assert request.transform == form_of(SOFTMAX) != form_of(asked(0)["kernel"])
    found = isamap.compile(SOFTMAX, "x86-avx512", heuristic="greedy", transform=True)
    assert "\nblocks m by " in found.files["softmax.schedule"]
    assert is_kept(SOFTMAX, "x86-avx512", heuristic="greedy", transform=True)
    assert not is_kept(SOFTMAX, "x86-avx512", heuristic="greedy")


def test_kernels_of_whole_models_have_another_form_where_they_sum_rows_again() -> None:
    assert form_of(SOFTMAX) == "best"
    assert form_of(SOFTMAX.replace("for m in 64 { most", "seq m in 64 { most")) is None
    assert form_of(asked(1)["kernel"]) is None
    sums = "for m in 8 { s[m] = 0; } for m in 8, k in 8 { s[m] += a[m, k] * b[k]; }"
    product = "kernel p() { in a: f32[8, 8]; in b: f32[8]; out s: f32[8]; out t: f32[8]; " + sums
    assert form_of(f"{product} {sums.replace('s[', 't[')} }}") is None
