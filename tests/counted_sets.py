"""Instruction sets that a run has tried: recorded by its tests, said at its end, in one process."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

INSTRUCTION_SET = "instruction set"


def summary(reports: Iterable[object]) -> str:
    """Return one line: how many sets were tried, and of each how many instructions were right; "" for none."""
    sets = {
        str(value)
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == INSTRUCTION_SET
    }
    return f"{len(sets)} instruction sets: {', '.join(sorted(sets))}" if sets else ""
