"""Recurrent layers of DeepBench: rows, what libraries compute, what counts as right, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from isamap.bench.campaign import Campaign, run_campaign
from isamap.bench.cases import FORMS
from isamap.bench.cells import CellCase, cell_cases, cell_kernel, cell_values, is_right
from isamap.bench.kept_rows import Row
from isamap.bench.kinds import CELLS, prepare_onnxruntime_cell, prepare_torch_cell
from isamap.bench.ring import Mapped, Shared, Task
from isamap.bench.summary import rows_table, summarise, summary_text
from isamap.ir import interpret

SMALL = {
    cell: replace(cell_cases(cell, None)[0], hidden=12, batch=3, steps=5, of_steps=9)
    for cell in ("gru", "lstm", "rnn")
}
LIBRARIES = {"torch": prepare_torch_cell, "onnxruntime": prepare_onnxruntime_cell}


def test_all_rows_of_the_suites_are_there() -> None:
    assert [len(cell_cases(cell, None)) for cell in SMALL] == [73, 38, 14]
    assert len(cell_cases("gru", None, ("training",))) == 19


def test_long_sequences_are_cut_and_say_so() -> None:
    first, *_ = cell_cases("gru", 8)
    assert first.label == "2816x32, 8 of 1500 steps"
    assert first.operations == 4 * 3 * 2816**2 * 32 * 8
    assert cell_cases("gru", 8)[16].label == "512x32, all 1 steps"


def right(cell: str, form: str) -> tuple[Any, dict[str, tuple[str, Any]], Any]:
    """Return the kernel of a small row, its arrays, and what Y should be."""
    kernel = cell_kernel(SMALL[cell], FORMS[form])
    values = cell_values(SMALL[cell], FORMS[form])
    given = {n: a for n, (_, a) in values.items() if kernel.operand(n).role == "in"}
    return kernel, values, interpret(kernel, given, {})["Y"]


@pytest.mark.parametrize("form", ["f32", "bf16"])
@pytest.mark.parametrize("cell", SMALL)
@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_compute_what_the_kernels_do(library: str, cell: str, form: str) -> None:
    pytest.importorskip(library)
    if (library, form) == ("onnxruntime", "bf16"):
        pytest.skip("onnxruntime has no layers of bf16")
    _, values, expected = right(cell, form)
    task = Task(CELLS.name, SMALL[cell], form, {}, "")
    mapped = Mapped(task, {name: [a.copy()] for name, (_, a) in values.items()})
    LIBRARIES[library](mapped, 1).time(1, 0)
    gap = np.abs(mapped.arrays["Y"][0].astype(np.float64) - expected.astype(np.float64)).max()
    assert gap < (1e-5 if form == "f32" else 0.05)


class Writer:
    """A contender that writes what it is told to."""

    def __init__(self, shared: Shared, result: Any, name: str = "isamap") -> None:
        self.shared, self.result, self.name = shared, result, name

    def time(self, calls: int, first: int = 0) -> int:
        self.shared.arrays["Y"][0][...] = self.result
        return 1


@pytest.mark.parametrize("form", ["f32", "bf16"])
@pytest.mark.parametrize("cell", SMALL)
def test_one_wrong_element_of_one_step_is_seen(cell: str, form: str) -> None:
    _, values, expected = right(cell, form)
    spoilt = expected.copy()
    spoilt[3, 1, 2] += 0.5
    with Shared(values, "Y", 1) as shared:
        for result, fine in ((expected, True), (spoilt, False), (np.nan * expected, False)):
            assert is_right(Writer(shared, result), SMALL[cell], FORMS[form], 0, shared) == fine
        of_a_library = Writer(shared, spoilt, "torch")
        assert not is_right(of_a_library, SMALL[cell], FORMS[form], 0, shared)


@pytest.mark.exhaustive
@pytest.mark.parametrize("packed", [False, True])
def test_a_row_of_a_layer_is_measured(packed: bool) -> None:
    asked: Campaign[CellCase] = Campaign(
        CELLS, (SMALL["gru"],), CELLS.forms["f32"], "generic-c", (), seconds=0, packed=packed
    )
    (row,), where = run_campaign(asked)
    assert row.packed == packed
    assert row.verified == {"isamap": True}
    assert row.bound_by in ("arithmetic", "reading")
    assert where["machine"] == "generic-c"


def test_rows_are_told_with_what_bounds_them_and_what_is_wrong() -> None:
    case = SMALL["gru"]
    row = Row(
        0, case.suite, CELLS.name, case.label, case.class_name, case.sizes, "f32", case.operations,
        seconds={"isamap": (1e-3, 1.1e-3), "torch": (2e-3, 2.2e-3)},
        verified={"isamap": True, "torch": True, "onnxruntime": False},
        ratio={"torch": {"value": 2.0, "low": 1.99, "high": 2.01}}, attainable_seconds=5.25e-4,
        bound_by="reading",
    )  # fmt: skip
    gone = replace(row, case=1, seconds={}, verified={}, left_out="no mapping")
    said = rows_table([row, gone], CELLS.heading)
    assert "12x3, 5 of 9 steps" in said
    assert "2.00 (1.99..2.01)  50%          reading" in said
    assert "   1  12x3, 5 of 9 steps f32: no mapping\n" in said
    assert said.endswith("\n   0  12x3, 5 of 9 steps f32: the result of onnxruntime is wrong")
    assert "up to 4 sequences" in summary_text(summarise([row]))
