"""Profiles: their text, where they are kept, what they are refused for, and what they do to a machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isamap.cli import main
from isamap.driver.inputs import ENVIRONMENT, find_profile, with_profile
from isamap.formulate.build import build_problem
from isamap.machine import cost_value, load_machine
from isamap.machine.processor import Cpu, this_cpu
from isamap.source import Source, UsageProblem
from isamap.source.numbers import Spread
from isamap.tune.measured_parameters import BandwidthFigure, InstructionFigure
from isamap.tune.overlay import ParameterDifference, warnings
from isamap.tune.profile import Profile, parse_profile, print_profile
from isamap.tune.store import keep_profile, newest_profile, read_profile

MACHINE = load_machine("x86-avx512")
FMA = "fma_zmm_f32"


def spread(value: float) -> Spread:
    low, middle, high = (round(value * factor, 6) for factor in (1.01, 1.02, 1.1))
    return Spread(value, low, middle, high, 40)


def profile(**changes: object) -> Profile:
    made = Profile(
        MACHINE.name,
        MACHINE.digest,
        this_cpu(),
        "gcc 12",
        "2026-11-21T12:00:00+00:00",
        (
            InstructionFigure(FMA, (), spread(0.1), spread(0.5)),
            InstructionFigure("load_zmm_f32", (), spread(0.25), None, "no chain"),
        ),
        (BandwidthFigure("l2", "read", "load_zmm_f32", 524288, spread(0.005)),),
        thread_start=spread(4000.0),
    )
    given: Any = changes
    return replace(made, **given)


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(folder))
    monkeypatch.delenv(ENVIRONMENT)
    return folder


def refusal(text: str) -> tuple[str, str]:
    with pytest.raises(UsageProblem) as found:
        parse_profile(Source("p.json", text))
    return found.value.diagnostics[0].code, found.value.diagnostics[0].message


def test_a_profile_is_read_as_it_was_written() -> None:
    text = print_profile(profile())
    again = parse_profile(Source("p", text))
    assert again == profile()
    assert print_profile(again) == text
    assert again.digest == profile().digest


def test_a_changed_digit_is_found() -> None:
    text = print_profile(profile())
    changed = text.replace('"min": 0.1,', '"min": 0.2,', 1)
    assert changed != text
    assert refusal(changed) == ("profile-damaged", "p.json is not as it was written: its sha256 differs")


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (
            "",
            "profile-unreadable",
            "p.json is not a profile: Expecting value: line 1 column 1 (char 0)",
        ),
        ("[]", "profile-unreadable", "p.json is not a profile: it has no `isamap_profile`"),
        (
            '{"isamap_profile": 9}',
            "profile-version",
            "p.json has format 9; this version of isamap reads 1",
        ),
    ],
)
def test_what_is_no_profile_is_refused_with_the_reason(text: str, code: str, said: str) -> None:
    assert refusal(text) == (code, said)


def test_the_newest_profile_of_this_machine_and_processor_is_taken() -> None:
    other = replace(this_cpu(), microcode="another")
    keep_profile(profile(when="2026-11-21T12:00:00+00:00"))
    keep_profile(profile(when="2026-11-22T12:00:00+00:00"))
    keep_profile(profile(when="2026-11-23T12:00:00+00:00", cpu=other))
    keep_profile(profile(when="2026-11-24T12:00:00+00:00", machine_digest="0" * 64))
    found = newest_profile(MACHINE.digest)
    assert found is not None
    assert found.when == "2026-11-22T12:00:00+00:00"
    assert find_profile("default", MACHINE.name) == found
    assert find_profile("none", MACHINE.name) is None


def test_without_measurements_there_is_no_profile() -> None:
    assert newest_profile(MACHINE.digest) is None


def test_a_profile_of_another_processor_is_refused_with_what_differs(tmp_path: Path) -> None:
    other = Cpu("Other", (("model", "1"),), "0x1", this_cpu().features)
    path = keep_profile(profile(cpu=other), tmp_path / "p.json")
    with pytest.raises(UsageProblem) as found:
        read_profile(path, MACHINE.digest)
    problem = found.value.diagnostics[0]
    assert problem.code == "profile-other-cpu"
    assert problem.message == f"{path} was measured on another processor: Other (model 1)"
    assert problem.notes[0] == f"processor: Other (model 1); here {this_cpu().describe()}"
    assert problem.help == "measure here with `isamap hw calibrate x86-avx512`, or say `--profile none`"


def test_a_profile_of_another_description_is_refused(tmp_path: Path) -> None:
    path = keep_profile(profile(), tmp_path / "p.json")
    with pytest.raises(UsageProblem) as found:
        find_profile(str(path), "x86-avx2")
    problem = found.value.diagnostics[0]
    assert problem.code == "profile-other-machine"
    said = "was measured of another machine, or of another version of its description"
    assert problem.message == f"{path} {said}"


def test_a_folder_that_others_may_write_to_is_refused(own_data: Path) -> None:
    own_data.mkdir()
    own_data.chmod(0o777)
    with pytest.raises(UsageProblem) as found:
        keep_profile(profile())
    assert found.value.diagnostics[0].code == "data-not-private"


def test_a_process_killed_while_it_writes_leaves_no_half_profile(own_data: Path) -> None:
    """Killed at the rename, which is the last moment: the old profile is still the one that is found."""
    keep_profile(profile())
    code = (
        "import os, signal, sys; sys.path[:0] = ['.', 'tests/unit']\n"
        "put = os.replace\n"
        "def replace(a, b):\n"
        "    put(a, b) if 'profiles' not in str(b) else os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.replace = replace\n"
        "from test_tune_profile import profile, keep_profile\n"
        "keep_profile(profile(when='2027-01-01T00:00:00+00:00'))\n"
    )
    root = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", code], cwd=root, env=dict(os.environ), check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(list((own_data / "profiles").iterdir())) == 2, "what was begun is still there"
    found = newest_profile(MACHINE.digest)
    assert found is not None
    assert found.when == profile().when


def test_measured_figures_replace_stated_ones_for_all_units_together() -> None:
    laid = with_profile(MACHINE, profile())
    entry = laid.instructions[FMA]
    assert laid.units[entry.cost.unit].count == 2
    assert cost_value(entry.cost.interval_ns, {}) == pytest.approx(0.2)
    assert cost_value(entry.cost.latency_ns, {}) == pytest.approx(0.5)
    kept = laid.instructions["add_zmm_f32"].cost
    assert kept == MACHINE.instructions["add_zmm_f32"].cost
    without = laid.instructions["load_zmm_f32"].cost
    assert without.latency_ns == MACHINE.instructions["load_zmm_f32"].cost.latency_ns


def test_measured_bandwidths_reach_the_problem() -> None:
    from isamap.ir import bind
    from isamap.kernels import kernel_path
    from isamap.syntax import parse_kernel

    path = kernel_path("gemm_f32")
    sizes = {"M": 64, "N": 64, "K": 64}
    kernel = bind(parse_kernel(Source(path.name, path.read_text())), sizes)
    problem = build_problem(kernel, with_profile(MACHINE, profile()), dict(sizes))
    speeds = {cache.name: cache.bandwidth_bytes_per_ns for cache in problem.caches}
    assert speeds["l2"] == pytest.approx(200.0)


def test_a_cost_that_depends_on_parameters_passes_through_both_measured_points() -> None:
    machine = load_machine("x86-amx")
    name = next(
        n for n, e in machine.instructions.items() if e.instruction.params and "load" in n and "tile" in n
    )
    low, high = (("R", 1), ("N", 1)), (("R", 16), ("N", 16))
    figures = (
        InstructionFigure(name, low, spread(1.0), None),
        InstructionFigure(name, high, spread(2.5), None),
    )
    laid = with_profile(machine, profile(instructions=figures, bandwidths=()))
    entry = laid.instructions[name]
    units = laid.units[entry.cost.unit].count
    for params, value in ((low, 1.0), (high, 2.5)):
        assert cost_value(entry.cost.interval_ns, dict(params)) == pytest.approx(units * value)
    middle = cost_value(entry.cost.interval_ns, {"R": 8, "N": 16})
    assert units * 1.0 < middle < units * 2.5


def test_a_check_warns_where_stated_and_measured_figures_are_far_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    slow = (InstructionFigure(FMA, (), spread(0.4), spread(1.0)),)
    keep_profile(profile(instructions=slow, bandwidths=()))
    assert main(["hw", "check", MACHINE.name, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert (found["code"], found["severity"]) == ("cost-differs", "warning")
    said = "fma_zmm_f32 interval: 0.14 ns stated, 0.4 ns measured, 2.9 times apart on this processor"
    assert found["message"] == said
    assert found["line"] == MACHINE.instructions[FMA].span.line  # pyright: ignore[reportOptionalMemberAccess] - it has one


def test_a_check_is_silent_where_figures_agree_or_nothing_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["hw", "check", MACHINE.name]) == 0
    assert capsys.readouterr().err == ""
    near = (InstructionFigure(FMA, (), spread(0.12), spread(0.96)),)
    keep_profile(profile(instructions=near, bandwidths=()))
    assert main(["hw", "check", MACHINE.name]) == 0
    assert capsys.readouterr().err == ""


def test_what_is_free_is_said_in_words() -> None:
    assert str(ParameterDifference("rows of l2", "start", 0.7, 0.0)).endswith(
        "0.7 ns stated, 0 ns measured, measured as free"
    )
    assert str(ParameterDifference("rows of l2", "start", 0.0, 0.7)).endswith(
        "0 ns stated, 0.7 ns measured, stated as free"
    )
    assert str(ParameterDifference("rows of l2", "start", 0.5, 1.0)).endswith(
        "0.5 ns stated, 1 ns measured, 2.0 times apart"
    )


def test_bandwidths_are_compared_as_well() -> None:
    fast = BandwidthFigure("l2", "read", "load_zmm_f32", 524288, spread(0.002))
    found = warnings(MACHINE, profile(instructions=(), bandwidths=(fast,)))
    stated = next(link.bandwidth_bytes_per_ns for link in MACHINE.links if link.source_memory == "l2")
    numbers = f"{stated:.3g} bytes/ns stated, 500 bytes/ns measured, {500 / stated:.1f} times apart"
    assert [d.message for d in found] == [f"l2 → l1 bandwidth: {numbers} on this processor"]


def test_what_is_shown_has_the_measured_figures_beside_the_stated_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keep_profile(profile())
    assert main(["hw", "show", MACHINE.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith(FMA))
    assert row.split()[:6] == [FMA, "fma", "0.28,", "1.1", "0.1,", "0.5"]
