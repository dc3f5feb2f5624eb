from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import isamap
from isamap.driver.api import machine_of, schedule_of, source_of
from isamap.kernels import kernel_path

SIZES = {"M": 6, "N": 5, "K": 7}
HAND = "isamap schedule 1\nkernel gemm_f32\nmachine generic-c\nsizes K = 7, M = 6, N = 5\nnest 0 {\n  map mac_f32 (a = A[m, k], b = B[k, n]);\n  for n by 1 { for m by 3 { hold; for k by 1 { unroll m by 1 { issue; } } } }\n}\n"  # noqa: E501 - a file's text


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    shapes = {"A": (6, 7), "B": (7, 5), "C": (6, 5)}
    return {name: rng.integers(-9, 9, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def gemm() -> isamap.CompiledKernel:
    return isamap.compile("gemm_f32", "generic-c", SIZES)


def said(raised: pytest.ExceptionInfo[isamap.IsamapError]) -> str:
    return str(raised.value)


def test_a_kernel_is_a_name_a_path_or_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = kernel_path("gemm_f32").read_text(encoding="utf-8")
    (tmp_path / "mine.ir").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    given = ("gemm_f32", "mine.ir", "./mine.ir", Path("mine.ir"), text)
    assert {source_of(kernel).text for kernel in given} == {text}
    assert {m.instruction for m in isamap.find_mappings(Path("mine.ir"), "generic-c")} >= {"mac_f32"}


@pytest.mark.parametrize("kernel", ["gemm_f33", "-", ""])
def test_what_is_no_kernel_is_no_text_either(kernel: str) -> None:
    with pytest.raises(isamap.IsamapError) as raised:
        isamap.compile(kernel, "generic-c", SIZES)
    assert said(raised).startswith(f"error[unknown-kernel]: there is no kernel called `{kernel}`\n")
    assert "gemm_f32" in said(raised)


def test_a_kernel_file_that_is_not_there_is_said_to_be_none() -> None:
    for kernel in ("no-such.ir", Path("no-such.ir")):
        with pytest.raises(isamap.IsamapError, match=r"no-such\.ir cannot be read"):
            isamap.compile(kernel, "generic-c", SIZES)


def test_a_machine_may_be_a_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert machine_of(path) == str(path)


def test_a_schedule_is_replayed(gemm: isamap.CompiledKernel, tmp_path: Path) -> None:
    path = tmp_path / "gemm.schedule"
    path.write_text(HAND, encoding="utf-8")
    assert "for m by 3" not in gemm.files["gemm_f32.schedule"]
    for schedule in (HAND, path, str(path)):
        kernel = isamap.compile("gemm_f32", "generic-c", SIZES, schedule=schedule)
        assert "for m by 3" in kernel.files["gemm_f32.schedule"]
        given = arrays()
        expected = given["C"] + given["A"] @ given["B"]
        assert np.array_equal(kernel(**given)["C"], expected)
    assert all(case.ok for case in isamap.verify("gemm_f32", "generic-c", SIZES, schedule=HAND))
    assert schedule_of(None) is None


def test_decisions_are_kept_as_a_schedule_has_them() -> None:
    kept = isamap.compile("gemm_f32", "generic-c", SIZES, schedule=HAND, fix={"unroll": None})
    assert "unroll m by 1" in kept.files["gemm_f32.schedule"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "no-such.schedule"}, "no-such.schedule cannot be read"),
        ({"schedule": HAND, "tune": 4}, "`schedule` and `tune` both say which schedule to take"),
        ({"schedule": HAND, "tuned": True}, "`schedule` and `tuned` both say which schedule to take"),
        ({"fix": {"block": None}}, "`fix` keeps `block` as the schedule has it, and there is no `schedule`"),
        ({"threads": 0}, "`threads` takes a whole number from 1 to 256, not 0"),
        ({"tune": 1}, "`tune` takes a whole number from 2 to 100, not 1"),
    ],
)
def test_options_that_contradict_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(isamap.IsamapError) as raised:
        isamap.compile("gemm_f32", "generic-c", SIZES, **options)
    assert message in said(raised)


def test_an_output_that_lies_in_an_input_is_refused() -> None:
    square = isamap.compile("gemm_f32", "generic-c", {"M": 6, "N": 6, "K": 6})
    a, b = np.ones((6, 6), np.float32), np.ones((6, 6), np.float32)
    with pytest.raises(isamap.IsamapError) as raised:
        square(A=a, B=b, C=a)
    assert "`C` is written, and shares memory with `A`" in said(raised)
    assert (a == 1).all()
    square(A=a, B=a, C=b)  # inputs may be one array
    assert (b == 7).all()


def test_rows_of_an_output_may_lie_between_rows_of_an_input() -> None:
    square = isamap.compile("gemm_f32", "generic-c", {"M": 6, "N": 6, "K": 6})
    both = np.ones((6, 12), np.float32)
    square(A=both[:, :6], B=np.ones((6, 6), np.float32), C=both[:, 6:])
    assert (both[:, :6] == 1).all()
    assert (both[:, 6:] == 7).all()


def test_what_is_no_array_is_named(gemm: isamap.CompiledKernel) -> None:
    given = arrays()
    with pytest.raises(isamap.IsamapError) as raised:
        gemm(**given | {"A": given["A"].tolist()})
    assert "`A` is an array of f32, and a list is given" in said(raised)
    assert "pass an array of numpy, of type float32" in said(raised)


def test_sizes_and_scalars_are_numbers() -> None:
    kernel = isamap.compile("gemm_f32", "generic-c", SIZES | {"M": "1..64@8"})
    with pytest.raises(isamap.IsamapError, match="`M` is a whole number, and a str is given"):
        kernel(cast("Any", {"M": "6"}), **arrays())
    scaled = "kernel scaled(N, scalar s: f32) { inout X: f32[N]; for n in N { X[n] = X[n] * s; } }"
    with pytest.raises(isamap.IsamapError, match="`s` is a number, and a list is given"):
        isamap.compile(scaled, "generic-c", {"N": 4})(X=np.ones(4, np.float32), s=[2])
