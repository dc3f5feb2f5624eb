from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import isamap
from isamap.driver import api
from isamap.driver.api import source_of
from isamap.driver.inputs import machine_of
from isamap.driver.request import given_schedule
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
    # One word is close to a shipped kernel, and the others are told how to list them.
    assert ("gemm_f32" if kernel == "gemm_f33" else "isamap match kernels") in said(raised)


def test_a_kernel_file_that_is_not_there_is_said_to_be_none() -> None:
    for kernel in ("no-such.ir", Path("no-such.ir")):
        with pytest.raises(isamap.IsamapError, match=r"no-such\.ir cannot be read"):
            isamap.compile(kernel, "generic-c", SIZES)


def test_a_folder_is_no_kernel_and_not_proposed_instead_of_itself(tmp_path: Path) -> None:
    folder = tmp_path / "alone"
    folder.mkdir()
    with pytest.raises(isamap.IsamapError) as raised:
        isamap.compile(folder, "generic-c", SIZES)
    assert said(raised) == f"error[file-unreadable]: {folder} cannot be read: it is not a regular file"


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
    assert given_schedule("schedule", None) is None


def test_decisions_are_kept_as_a_schedule_has_them() -> None:
    kept = isamap.compile("gemm_f32", "generic-c", SIZES, schedule=HAND, fix={"unroll": None})
    assert "unroll m by 1" in kept.files["gemm_f32.schedule"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "no-such.schedule"}, "no-such.schedule cannot be read"),
        ({"schedule": HAND, "tune": 4}, "`schedule` and `tune` both select the schedule"),
        ({"schedule": HAND, "tuned": True}, "`schedule` and `tuned` both select the schedule"),
        ({"fix": {"block": None}}, "`fix` keeps `block` as the schedule has it, and there is no `schedule`"),
        (
            {"cold": True, "tune": 4},
            "`cold` states that operands are in no cache, and what `tune` measures finds",
        ),
        ({"cold": True, "tuned": True}, "what `tuned` measures finds them in caches"),
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


# --- what is given is looked at before anything begins ----------------------------------------------------


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling anything fails the test."""

    def prepared(_: object) -> None:
        raise AssertionError("work began")

    monkeypatch.setattr(api, "prepare", prepared)


def refusal(**given: Any) -> str:
    """Return what `compile` says of options, or of `kernel`, `machine` and `sizes`."""
    what: dict[str, Any] = {"kernel": "gemm_f32", "machine": "generic-c", "sizes": SIZES, **given}
    with pytest.raises(isamap.IsamapError) as raised:
        isamap.compile(what.pop("kernel"), what.pop("machine"), what.pop("sizes"), **what)
    return said(raised)


@pytest.mark.parametrize("number", [np.int64(6), np.int32(6), np.uint8(6), np.array(6)])
def test_sizes_may_be_numbers_of_numpy(number: int) -> None:
    made = isamap.compile("gemm_f32", "generic-c", SIZES | {"M": number})
    assert "sizes K = 7, M = 6, N = 5" in made.files["gemm_f32.schedule"]
    assert isamap.verify("gemm_f32", "generic-c", SIZES | {"M": number})[0].sizes == SIZES
    found = isamap.find_mappings("gemm_f32", "generic-c", SIZES | {"M": number})
    assert found == isamap.find_mappings("gemm_f32", "generic-c", SIZES)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("value", "shown", "advice"),
    [
        ("6", "'6'", 'write {"M": 6}'),
        (6.0, "6.0", 'write {"M": 6}'),
        (np.float32(6), "np.float32(6.0)", 'write {"M": 6}'),
        (6.5, "6.5", None),
        (True, "True", None),
        (np.bool_(True), "np.True_", None),
        (None, "None", None),
        ("1..", "'1..'", None),
        ("1..8@", "'1..8@'", None),
        ("x", "'x'", None),
        ([6], "a list", None),
    ],
)
def test_sizes_are_whole_numbers_or_ranges(value: object, shown: str, advice: str | None) -> None:
    reference = f'error[size-syntax]: `M` is a whole number, or a range such as "1..8192@512", not {shown}'
    reference += f"\n  help: {advice}" if advice else ""
    sizes = cast("Any", SIZES | {"M": value})
    assert refusal(sizes=sizes) == reference
    for function in (isamap.find_mappings, isamap.verify):
        with pytest.raises(isamap.IsamapError) as raised:
            function("gemm_f32", "generic-c", sizes)
        assert said(raised) == reference


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([("M", 6)], "`sizes` takes values by name, not a list"),
        ("M=6", "`sizes` takes values by name, not 'M=6'"),
        ({5: 6}, "`sizes` takes values by name, and 5 is not a name"),
    ],
)
def test_sizes_are_given_by_name(sizes: object, message: str) -> None:
    assert refusal(sizes=sizes).startswith(f"error[size-syntax]: {message}\n")


def test_fixed_values_may_be_numbers_of_numpy() -> None:
    made = isamap.compile("gemm_f32", "generic-c", SIZES, fix={"block.k": np.int64(7)})
    assert "fixed nest0.block.k = 7\n" in made.files["gemm_f32.schedule"]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("fix", "message"),
    [
        (
            {"block.k": "7"},
            "`fix` takes a whole number for `block.k`, not '7'\n  help: write {\"block.k\": 7}",
        ),
        ({"block.k": 7.0}, "`fix` takes a whole number for `block.k`, not 7.0"),
        ({"block.k": True}, "`fix` takes a whole number for `block.k`, not True"),
        ({5: 7}, "`fix` takes values by name, and 5 is not a name"),
        ("block.k=7", "`fix` takes values by name, not 'block.k=7'"),
    ],
)
def test_fixed_values_are_whole_numbers_by_name(fix: object, message: str) -> None:
    assert refusal(fix=fix).startswith(f"error[fix-syntax]: {message}")


@pytest.mark.parametrize(
    ("fix", "message"),
    [
        ({"block.k": 0}, "error[fix-value]: `nest0.block.k` is a whole number of at least 1, not 0"),
        ({"blok.k": 7}, "did you mean `nest0.block.k`?"),
    ],
)
def test_decisions_are_those_of_the_kernel(fix: object, message: str) -> None:
    assert message in refusal(fix=fix)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "`threads` takes a whole number from 1 to 256, not 0"),
        ({"threads": "2"}, "`threads` takes a whole number from 1 to 256, not '2'"),
        ({"threads": True}, "`threads` takes a whole number from 1 to 256, not True"),
        ({"tune": 1}, "`tune` takes a whole number from 2 to 100, or 0 for none, not 1"),
        ({"tune": -1}, "`tune` takes a whole number from 2 to 100, or 0 for none, not -1"),
        ({"tune": True}, "`tune` takes a whole number from 2 to 100, or 0 for none, not True"),
        ({"tune": "8"}, "`tune` takes a whole number from 2 to 100, or 0 for none, not '8'"),
        ({"tune": 2.0}, "`tune` takes a whole number from 2 to 100, or 0 for none, not 2.0"),
        ({"limit_s": 0}, "`limit_s` takes a number of seconds from 0.1 to 3600, not 0"),
        ({"limit_s": float("nan")}, "`limit_s` takes a number of seconds from 0.1 to 3600, not nan"),
        ({"limit_s": "2"}, "`limit_s` takes a number of seconds from 0.1 to 3600, not '2'"),
        ({"heuristic": "cpsatt"}, "did you mean `cpsat`?"),
        ({"heuristic": None}, "`heuristic` takes a name, not None"),
        ({"profile": None}, '`profile` takes a path, "default" or "none", not None'),
        ({"packed": "AB"}, "`packed` takes a list of names, not 'AB'\n  help: write `packed=['AB']`"),
        ({"packed": [5]}, "`packed` takes a list of names, not 5"),
        ({"isolate": "no"}, "`isolate` takes True or False, not 'no'"),
        ({"tuned": 1}, "`tuned` takes True or False, not 1"),
        ({"cold": None}, "`cold` takes True or False, not None"),
        ({"transform": 0}, "`transform` takes True, False, or a whole number from 1 to 999, not 0"),
        ({"transform": "best"}, "`transform` takes True, False, or a whole number from 1 to 999, not 'best'"),
        ({"schedule": 5}, "`schedule` takes a path or a text, not 5"),
        ({"schedule": b"x"}, "`schedule` takes a path or a text, not b'x'"),
        ({"kernel": 5}, "`kernel` takes a name, a path or a text, not 5"),
        ({"kernel": "kernel k { \ud800 }"}, "error[file-not-text]: kernel is not UTF-8 text: character 11"),
        ({"kernel": "{" + " " * (1 << 20)}, "error[file-too-large]: kernel is larger than 1 MB"),
        ({"machine": None}, "`machine` takes a name or a path, not None"),
    ],
)
def test_options_of_other_types_and_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    assert message in refusal(**options)


@pytest.mark.usefixtures("no_work")
def test_verify_looks_at_what_is_given_as_compile_does() -> None:
    for options in ({"threads": "2"}, {"heuristic": "cpsatt"}, {"packed": "B"}, {"schedule": 5}):
        with pytest.raises(isamap.IsamapError) as raised:
            isamap.verify("gemm_f32", "generic-c", SIZES, **cast("Any", options))
        assert said(raised) == refusal(**options)


def test_what_is_counted_is_one_of_three() -> None:
    with pytest.raises(isamap.IsamapError, match="`mode` takes one of complete, fixed, amos, not 'complet'"):
        isamap.find_mappings("gemm_f32", "generic-c", SIZES, cast("Any", "complet"))


def test_numbers_and_flags_of_numpy_are_taken() -> None:
    options = {
        "threads": np.int64(1),
        "limit_s": np.float32(2),
        "isolate": np.bool_(False),
        "tune": np.int64(0),
    }
    request = isamap.compile("gemm_f32", "generic-c", SIZES, **cast("Any", options)).prepared.request
    assert [type(v) for v in (request.threads, request.limit_s, request.tune)] == [int, float, int]


def test_host_is_a_machine_to_load_as_to_compile_for() -> None:
    assert isamap.load_machine("host").name == machine_of("host")
    with pytest.raises(isamap.IsamapError, match="`machine` takes a name or a path, not 5"):
        isamap.load_machine(cast("Any", 5))


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"there is no option `thread`; there are .*, threads"):
        api.compile_only("gemm_f32", "generic-c", sizes={"M": 4, "N": 4, "K": 4}, thread=2)
