"""Progress of long work: log records without a terminal, and a bar with names and times on one."""

from __future__ import annotations

import io
import logging
import re
import sys
import time

import pytest

from isamap.cli import main
from isamap.cli.model_files import refuse_of_kernel
from isamap.cli.option_parser import CommandOptions
from isamap.driver import ahead
from isamap.source import progress
from isamap.source.progress import Limited, Progress

CONV = """kernel conv_relu_0a1b2c3d() {
  in a0: f32[1, 56, 56, 64];
  in a1: f32[3, 3, 64, 64];
  in a2: f32[64];
  temp y0: f32[1, 56, 56, 64];
  out y1: f32[1, 56, 56, 64];
}
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def wait_for(self, text: str) -> None:
        """Wait until a text is shown, for a minute at most: a computer may have other work."""
        until = time.monotonic() + 60
        while text not in self.getvalue() and time.monotonic() < until:
            time.sleep(0.01)


def test_a_kernel_is_named_by_its_words_and_sizes() -> None:
    assert ahead.label_of(CONV) == "conv relu 1×56×56×64, 3×3×64×64 → 1×56×56×64"


def test_a_kernel_is_named_by_its_largest_inputs() -> None:
    declared = "in a0: f32[1]; in a1: u8[32, 384]; in a2: i8[384, N]; out y: f32[32, N];"
    text = f"kernel matmulinteger_0a1b2c3d() {{ {declared} }}"
    assert ahead.label_of(text) == "matmulinteger 32×384, 384×N → 32×N"


def test_without_a_terminal_each_piece_is_a_log_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="isamap")
    with Progress() as watch:
        watch("import")
        for done in range(1, 4):
            watch("conv 3×3", done, 3)
    assert caplog.messages == ["import", *(f"conv 3×3, {done} of 3" for done in range(1, 4))]


def test_a_terminal_has_a_bar_and_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    clock = iter(range(0, 10_000, 10))
    with monkeypatch.context() as patched, Progress() as watch:
        patched.setattr(time, "monotonic", lambda: next(clock))
        watch("conv 3×3", 1, 31)
        watch("conv 3×3", 12, 31)
        patched.undo()
        terminal.wait_for(bar := "[=====       ] conv 3×3, 12 of 31, about 16 s left")
    assert bar in terminal.getvalue()
    assert terminal.getvalue().endswith(progress.CLEAR)


@pytest.mark.parametrize(("flag", "shows"), [("--quiet", False), ("-v", False), ("--json", True)])
def test_a_bar_is_not_mixed_with_records(flag: str, shows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    with progress.log_progress(quiet=flag == "--quiet", verbose=flag == "-v"), Progress() as watch:
        watch("conv 3×3", 1, 31)
        if shows:
            terminal.wait_for(progress.CLEAR)
        else:
            time.sleep(0.1)
    assert (progress.CLEAR in terminal.getvalue()) == shows
    assert (
        re.search(r"^\d\d:\d\d:\d\d conv 3×3, 1 of 31$", terminal.getvalue(), re.MULTILINE) is None
        or flag == "-v"
    )
    assert bool(terminal.getvalue()) == (flag != "--quiet")


@pytest.mark.parametrize("flag", ["-q", "-v"])
def test_commands_take_how_much_they_write(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "compile",
        "gemm_f32",
        "--hw",
        "generic-c",
        "-D",
        "M=8",
        "N=8",
        "K=8",
        "--stop-after",
        "schedule",
    ]
    assert main([*words, "--no-cache", "--heuristic", "greedy", flag]) == 0
    written = capsys.readouterr()
    assert "gemm_f32" in written.out
    assert bool(re.search(r"^\d\d:\d\d:\d\d schedule", written.err, re.MULTILINE)) == (flag == "-v")
    assert flag == "-v" or not written.err


def test_a_model_takes_the_options_of_every_command() -> None:
    refuse_of_kernel(CommandOptions(as_json=True, quiet=True, verbose=True), (), "")


def test_kernels_compiled_ahead_are_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int, int]] = []

    def nothing(asked: ahead.Asked) -> None:
        """Compile nothing."""

    def watch(label: str, done: int = 0, count: int = 0) -> None:
        told.append((label, done, count))

    monkeypatch.setattr(ahead, "_compile", nothing)
    ahead.compile_ahead([{"kernel": CONV}] * 3, 1, watch)
    assert [(done, count) for _, done, count in told] == [(1, 3), (2, 3), (3, 3)]
    assert told[0][0].startswith("conv relu")


def test_work_with_a_limit_shows_the_time_that_is_left_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    with Progress() as watch:
        watch(Limited("schedule", 3.4))
        terminal.wait_for("schedule, at most")
    assert re.search(r"\[=*\s*\] schedule, at most 3 s left … [01] s", terminal.getvalue())


def test_a_commands_own_progress_replaces_that_of_all_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    with Progress("doctor"):
        terminal.wait_for("doctor … 0 s")
        with Progress("match"):
            terminal.wait_for("match … 0 s")
        time.sleep(0.3)
    said = terminal.getvalue()
    assert "doctor … 0 s" in said
    assert said.rindex("doctor") < said.index("match … 0 s")
    assert said.endswith(progress.CLEAR)


def test_each_command_shows_that_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()

    def nothing_is_damaged() -> tuple[str, ...]:
        terminal.wait_for("cache verify")
        return ()

    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr("isamap.cli.cache_command.list_damaged", nothing_is_damaged)
    assert main(["cache", "verify"]) == 0
    assert "cache verify … 0 s" in terminal.getvalue()
