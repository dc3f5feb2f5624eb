"""Timings generated from descriptions: compiled, run for a moment, and read. No time is asserted."""

from __future__ import annotations

import json
import re
from ctypes import CDLL, CFUNCTYPE, POINTER, c_int64, c_void_p
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns
from typing import Any

import numpy as np
import pytest

from isamap.cli import main
from isamap.emit.conformance_source import EncodedForm
from isamap.emit.timing_source import Kind, Timing, find_chain, highest, timing_source
from isamap.ir.domains import check_domain
from isamap.machine import EmitCall, Machine, caches_from_nearest, load_machine, missing_features
from isamap.machine.processor import SystemCache, system_caches
from isamap.run.clocking import PAGE, TimingPlan, time_all
from isamap.run.runner import RunProblem
from isamap.run.toolchain import build, find_compiler
from isamap.source import Diagnostic, MissingTool, UsageProblem
from isamap.source.numbers import Spread
from isamap.tune.bandwidth import stream_source, streams
from isamap.tune.calibrate import (
    MISSED,
    SAMPLER,
    WAITS_NS,
    caches_here,
    calibrate,
    kept_calls,
    kept_streams,
    packing_figures,
    reported_caches,
)
from isamap.tune.clocked import ClockedKernel, Copy, copies, in_whole_blocks, time_copy
from isamap.tune.instruction_times import NO_CHAIN, ask, time_operands
from isamap.tune.measured_parameters import PackingFigure, UnmeasuredPacking

HERE = [m for m in ("generic-c", "x86-avx2", "x86-avx512") if not missing_features(load_machine(m))]
BUDGET_S = 0.05


def form(machine: Machine, name: str) -> EncodedForm:
    return EncodedForm(0, machine.instructions[name], ())


def body(machine: Machine, name: str, kind: Kind, issues: int) -> list[str]:
    """Return the issues in the loop of one timing."""
    text = timing_source(machine, (Timing(0, form(machine, name), kind, issues),))
    loop = text[text.index("trip < trips") :]
    return re.findall(r"^  (\w+ = _mm\w+\(.*\));$", loop, re.MULTILINE)


def test_a_chain_goes_through_the_operand_that_is_read_and_written() -> None:
    assert body(load_machine("x86-avx512"), "fma_zmm_f32", "chain", 2) == [
        "c_0 = _mm512_fmadd_ps(a_0, b_0, c_0)",
        "c_0 = _mm512_fmadd_ps(a_0, b_0, c_0)",
    ]


def test_a_chain_goes_through_a_pair_of_one_type() -> None:
    assert body(load_machine("x86-avx512"), "add_zmm_f32", "chain", 1) == ["z_0 = _mm512_add_ps(z_0, b_0)"]


def test_sums_that_wait_for_nothing_have_registers_of_their_own() -> None:
    issues = body(load_machine("x86-avx512"), "fma_zmm_f32", "apart", 4)
    assert [issue.split(" = ")[0] for issue in issues] == ["c_0", "c_1", "c_2", "c_3"]


def test_results_that_are_overwritten_take_turns_in_two_registers() -> None:
    issues = body(load_machine("x86-avx512"), "add_zmm_f32", "apart", 4)
    assert [issue.split(" = ")[0] for issue in issues] == ["z_0", "z_1", "z_0", "z_1"]


@pytest.mark.parametrize("name", ["broadcast_ymm_f32", "fma_ymm_f32"])
def test_each_result_is_hidden_directly_behind_its_issue(name: str) -> None:
    """Else gcc makes it later, and reads the number of a broadcast by an instruction of its own."""
    machine = load_machine("x86-avx2")
    text = timing_source(machine, (Timing(0, form(machine, name), "apart", 4),))
    lines = [line.strip() for line in text[text.index("trip < trips") :].splitlines()]
    issued = [n for n, line in enumerate(lines) if "_mm256" in line]
    results = [lines[n].split(" = ")[0] for n in issued]
    assert len(results) == 4
    assert [lines[n + 1] for n in issued] == [f"HIDE_V({result});" for result in results]


def test_what_only_loads_has_no_chain() -> None:
    machine = load_machine("x86-avx512")
    assert find_chain(form(machine, "load_zmm_f32"), machine) is None


def test_tiles_are_configured_filled_and_released() -> None:
    machine = load_machine("x86-amx")
    entry = next(
        e for e in machine.instructions.values() if e.cost.unit == "tile" and len(e.instruction.operands) == 3
    )
    made = EncodedForm(0, entry, tuple((p.name, 16) for p in entry.instruction.params))
    text = timing_source(machine, (Timing(0, made, "apart", 4),))
    loop = text.index("trip < trips")
    assert text.index("_tile_loadconfig") < text.index("_tile_loadd") < loop < text.index("_tile_release")
    numbers = re.findall(r"_tile_\w+\((\d), (\d), (\d)\)", text[loop:])
    assert len({c for c, _, _ in numbers}) == 4, "each sum has a tile of its own"


@pytest.mark.exhaustive(fast=1)
@pytest.mark.hardware
@pytest.mark.parametrize("name", HERE)
def test_every_instruction_of_a_machine_can_be_timed(name: str) -> None:
    machine = load_machine(name)
    own = [n for n, e in machine.instructions.items() if e.source][:: 1 if name == "generic-c" else 9]
    found = calibrate(machine, own, BUDGET_S)
    assert {f.instruction for f in found.instructions} == set(own)
    for figure in found.instructions:
        assert (figure.interval is None) <= bool(figure.said), figure
        for measured in (figure.interval, figure.latency):
            assert measured is None or 0 < measured.least <= measured.low <= measured.middle <= measured.high
        if figure.latency is None:
            assert figure.said


@pytest.mark.parametrize("name", ["generic-c", "x86-avx2", "x86-avx512"])
def test_operands_that_are_timed_fit_into_a_cache_and_hold_what_is_declared(name: str) -> None:
    """A table of up to 2147483647 elements took 128 GB, and codes pointed outside of it."""
    machine, rng = load_machine(name), np.random.default_rng(3)
    for asked in ask(machine, list(machine.instructions.values())):
        for timing in asked.timings[:1]:
            sizes = dict(highest(timing.form))
            made = [d for d in time_operands(machine, timing, 0, rng).data if isinstance(d, bytes)]
            assert sum(map(len, made)) <= 1 << 20, asked.entry.name
            for o, data in zip(timing.form.passed, made, strict=False):
                if o.domain is not None:
                    check_domain(o.name, o.domain, np.frombuffer(data, o.dtype.numpy()), sizes)


@pytest.mark.hardware
def test_an_instruction_that_ends_its_process_is_said_and_the_others_are_measured() -> None:
    machine = load_machine("x86-avx2")
    if missing_features(machine):
        pytest.skip(f"this computer lacks {', '.join(missing_features(machine))}")
    entry = machine.instructions["fma_ymm_f32"]
    assert isinstance(entry.emit, EmitCall)
    crash = replace(entry, emit=replace(entry.emit, function="*(volatile __m256 *)0 = _mm256_fmadd_ps"))
    broken = replace(machine, instructions={**machine.instructions, entry.name: crash})
    found = calibrate(broken, [entry.name, "add_ymm_f32", "load_ymm_f32"], BUDGET_S)
    by_name = {f.instruction: f for f in found.instructions}
    assert by_name[entry.name].interval is None
    assert by_name[entry.name].said == "accessed memory that it was not given (SIGSEGV)"
    assert by_name["add_ymm_f32"].interval is not None
    assert by_name["load_ymm_f32"].said == NO_CHAIN


def test_a_machine_that_this_processor_lacks_is_refused_with_what_is_missing() -> None:
    machine = load_machine("x86-avx512")
    lacking = replace(machine, target=replace(machine.target, features=("avx9",)))
    with pytest.raises(MissingTool) as found:
        calibrate(lacking, None, BUDGET_S)
    problem = found.value.diagnostics[0]
    assert problem.message == "x86-avx512 cannot be measured here: this processor lacks avx9"
    assert found.value.exit_code == 5


def test_an_unknown_instruction_gets_the_nearest_name() -> None:
    machine = load_machine("generic-c")
    with pytest.raises(UsageProblem) as found:
        calibrate(machine, ["load_f23"], BUDGET_S)
    problem = found.value.diagnostics[0]
    assert (problem.code, problem.message) == (
        "unknown-instruction",
        "generic-c has no instruction `load_f23`",
    )
    assert problem.help == "did you mean `load_f32`?"


def test_a_busy_computer_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    from isamap.cli.calibrate_command import busy

    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 9.0, 9.0))
    assert busy() == ()
    monkeypatch.setattr("os.getloadavg", lambda: (7.25, 0.0, 0.0))
    (found,) = busy()
    assert found.json["code"] == "calibrate-busy"
    assert found.json["message"] == "this computer is busy: 7.2 programs are ready to run on 2 processors"


@pytest.mark.hardware
def test_packing_is_timed_as_the_planner_would_pack() -> None:
    rng = np.random.default_rng(0)
    machine = load_machine("generic-c")
    listed = list(copies())
    assert {c.way for c in listed} == {"rows", "transposed", "pairs of rows", "fours of rows"}
    found = time_copy(listed[-1], machine, rng)
    assert found is not None
    assert (found.way, found.element_bytes) == ("fours of rows", 1)
    assert found.ns_per_element.least > 0
    assert time_copy(listed[0], replace(machine, instructions={}), rng) is None


def test_packing_is_timed_in_blocks_that_rows_fill() -> None:
    (fours,) = (c for c in copies() if (c.way, c.dtype) == ("fours of rows", "bf16"))
    asked = ClockedKernel.of("packing", fours.text, load_machine("x86-avx512-bf16")).problem
    (before,), (after,) = asked.nests, in_whole_blocks(asked).nests
    assert any(axis.extent < axis.tile for option in before.options for axis in option.axes)
    assert after.options
    assert all(axis.extent >= axis.tile for option in after.options for axis in option.axes)


@pytest.mark.exhaustive
@pytest.mark.hardware
def test_the_command_writes_a_profile_that_compile_then_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ISAMAP_PROFILE", "default")  # other tests see none
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(tmp_path / "data"))
    assert main(["hw", "calibrate", "generic-c", "--budget", "0.1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "isamap.hw.calibrate/1"
    assert Path(answer["files"][0]).is_file()
    assert answer["bandwidths"][0]["bandwidth_bytes_per_ns"] > 0
    assert answer["packing"][0]["ns_per_element"]["min"] > 0
    # Further memories than the nearest: each has rows that were begun, or a reason why there are none.
    behind = dict.fromkeys(b["memory"] for b in answer["bandwidths"]).keys() - {"l1"}
    unmeasured = {row["memory"]: row["said"] for row in answer.get("unmeasured_rows", ())}
    assert {row["memory"] for row in answer["rows"]} | unmeasured.keys() == behind
    assert all(row["readings"] and row["start_ns"] >= 0 for row in answer["rows"])
    assert all("was stopped after" in said for said in unmeasured.values()), "nothing else keeps them from it"
    assert answer["thread_start_ns"] is None or answer["thread_start_ns"]["min"] > 0
    words = ["schedule", "gemm_f32", "--hw", "generic-c", "-D", "M=8", "N=8", "K=8", "--heuristic", "greedy"]
    assert main(words) == 0
    assert f"\nprofile {answer['digest'][:12]}\n" in capsys.readouterr().out
    assert main([*words, "--profile", "none"]) == 0
    assert "\nprofile" not in capsys.readouterr().out


@pytest.mark.hardware
def test_caches_are_those_that_the_system_reports_and_the_last_one_no_larger() -> None:
    machine = load_machine(HERE[-1])
    system = system_caches()
    compiler = find_compiler(machine.target.flags, machine.target.toolchains, None)
    found = caches_here(machine, compiler, BUDGET_S, np.random.default_rng(1), lambda _: None)
    assert [c.memory for c in found] == list(caches_from_nearest(machine))
    for figure, cache in zip(found, system, strict=False):
        assert figure.reported_bytes == cache.size_bytes
        assert figure.size_bytes is not None
        assert figure.size_bytes == cache.size_bytes or cache is system[-1]
        assert 0 < figure.size_bytes <= cache.size_bytes
    for figure in found[len(system) :]:
        assert (figure.size_bytes, figure.ways) == (None, None)


def all_end(plan: TimingPlan, *_: object) -> list[str]:
    return ["ended"] * len(plan.timed)


def test_the_least_that_reading_the_last_cache_took_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("generic-c")
    system = (SystemCache(32 << 10, 8, 64), SystemCache(1 << 20, 16, 64))
    compiler = find_compiler(machine.target.flags, machine.target.toolchains, None)
    monkeypatch.setattr("isamap.tune.calibrate.system_caches", lambda: system)
    for least, usable in ((0.97 * MISSED * 0.03, 1 << 20), (1.03 * MISSED * 0.03, 3 << 18)):

        def quick(plan: TimingPlan, *_: object, least: float = least) -> list[Spread]:
            near = Spread(0.03, 0.03, 0.05, 0.09, 9)
            return [near] * (len(plan.timed) - 1) + [Spread(least, 0.09, 0.09, 0.09, 9)]

        monkeypatch.setattr("isamap.tune.calibrate.time_all", quick)
        found = caches_here(machine, compiler, BUDGET_S, np.random.default_rng(1), lambda _: None)
        assert found[1].size_bytes == usable


def test_a_cache_whose_reads_fail_stays_as_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("generic-c")
    system = (SystemCache(32 << 10, 8, 64), SystemCache(1 << 20, 16, 64))
    compiler = find_compiler(machine.target.flags, machine.target.toolchains, None)
    monkeypatch.setattr("isamap.tune.calibrate.system_caches", lambda: system)
    monkeypatch.setattr("isamap.tune.calibrate.time_all", all_end)
    found = caches_here(machine, compiler, BUDGET_S, np.random.default_rng(1), lambda _: None)
    assert found == reported_caches(machine, system)


def test_waiting_is_no_part_of_what_a_cache_takes_after_it() -> None:
    machine = load_machine("generic-c")
    tried = kept_streams(machine, streams(machine))[:1]
    compiler = find_compiler(machine.target.flags, machine.target.toolchains, None)
    source = stream_source(machine, tried, SAMPLER)
    library = CDLL(str(build(compiler, machine.target.flags, {"timing.c": source}, "timing.c")))
    called: list[tuple[int, int]] = []

    def read(_: object, numbers: Any, trips: int) -> None:
        called.append((numbers[0], trips))

    blocks, trips = 1000, 7
    for wait_ns in (0, 20_000_000):
        called.clear()
        took = (c_int64 * 1)()
        start = monotonic_ns()
        timed = CFUNCTYPE(None, c_void_p, POINTER(c_int64), c_int64)(read)
        library.sample(timed, None, (c_int64 * 2)(blocks, wait_ns), c_int64(trips), c_int64(1), took)
        elapsed_ns = monotonic_ns() - start
        assert (called[0], called[-1]) == ((blocks, 2), (blocks, trips)), (
            "once to bring it near, then by the clock"
        )
        assert set(called[1:-1]) <= {(1, 1)}, "the nearest block alone while nothing else is touched"
        assert bool(called[1:-1]) == (wait_ns > 0)
        assert 0 < took[0] <= elapsed_ns - wait_ns


@pytest.mark.hardware
@pytest.mark.parametrize("name", HERE)
def test_every_wait_has_samples(name: str) -> None:
    machine = load_machine(name)
    tried = kept_streams(machine, streams(machine))[:1]
    compiler = find_compiler(machine.target.flags, machine.target.toolchains, None)
    source = stream_source(machine, tried, SAMPLER)
    library = build(compiler, machine.target.flags, {"timing.c": source}, "timing.c")
    plan = TimingPlan(name, (library,), compiler, tuple(kept_calls(tried, 0)), (), tried[0].size_bytes, 0.0)
    results = time_all(plan, bytes(PAGE))
    assert len(results) == 1 + len(WAITS_NS)
    assert all(isinstance(r, Spread) and r.count > 1 and r.least > 0 for r in results), results


def test_a_copy_that_crashes_costs_its_own_figure_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("generic-c")
    timed = PackingFigure("rows", 4, Spread(0.1, 0.1, 0.1, 0.1, 1))

    def time_one(copy: Copy, *_: object) -> PackingFigure | None:
        if copy.dtype == "bf16":
            raise RunProblem(Diagnostic("program-crashed", "it crashed"))
        return None if copy.dtype == "i8" else replace(timed, way=copy.way)

    monkeypatch.setattr("isamap.tune.calibrate.time_copy", time_one)
    said: list[str] = []
    found = list(packing_figures(machine, np.random.default_rng(0), said.append))
    ways = ["rows", "transposed", "pairs of rows", "fours of rows"]
    assert [f.way for f in found if isinstance(f, PackingFigure)] == ways
    lost = [f for f in found if isinstance(f, UnmeasuredPacking)]
    assert lost == [UnmeasuredPacking(way, "bf16", "it crashed") for way in ways]
    assert said[:2] == ["packing: rows of f32", "packing: rows of bf16"]
