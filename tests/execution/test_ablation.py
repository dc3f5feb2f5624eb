"""An instruction taken out of a description: mappings and code do without it, and results stay right."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.driver.api import find_mappings, source_of
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases

SIZES = {"M": 9, "N": 21, "K": 17}


def smaller(folder: Path, machine: str, *removed: str) -> str:
    path = folder / "smaller.yaml"
    path.write_text(
        f"isamap: 1\nname: smaller\nsummary: less\nextends: {machine}\nremove: [{', '.join(removed)}]\n"
    )
    return str(path)


@pytest.mark.parametrize(
    ("machine", "removed"),
    [
        ("generic-c", ("mac_f32",)),
        ("x86-avx2", ("fma_ymm_f32",)),
        ("x86-avx512", ("fma_zmm_f32",)),
        ("x86-avx512", ("maskload_zmm_f32", "maskload_ymm_f32", "maskstore_zmm_f32", "maskstore_ymm_f32")),
    ],
)
def test_mappings_and_code_do_without_what_is_removed(
    tmp_path: Path, machine: str, removed: tuple[str, ...]
) -> None:
    hw = smaller(tmp_path, machine, *removed)
    before = {m.instruction for m in find_mappings("gemm_f32", machine, SIZES)}
    after = {m.instruction for m in find_mappings("gemm_f32", hw, SIZES)}
    assert after == before - set(removed)
    prepared = prepare(Request(source_of("gemm_f32"), hw, SIZES, heuristic="greedy"))
    program = prepared.program.outcome.files["report.txt"]
    assert not any(name in program for name in removed)
    assert all(case.ok for case in all_cases(prepared, ("integers", "random"), guard=True))
