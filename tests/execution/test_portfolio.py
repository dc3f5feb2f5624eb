"""`--portfolio`: the faster of our code and of a library's call, which is right, performs a kernel."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_library import (
    BESIDE,
    CRASHES,
    FAST,
    KERNEL,
    NAME,
    ONE_THREAD,
    SLOW,
    WRONG,
    FakeLibrary,
)

from isamap.cli import main
from isamap.driver import portfolio
from isamap.tune.implementation_choices import ChoiceDatabase
from isamap.tune.measured import MeasuredSchedule

SIZES = "-D P=400 Q=600"
Turns = Mapping[str, Callable[[], float]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder to work in, with a kernel, and a data folder of one's own."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(data))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spread.ir").write_text(KERNEL, encoding="utf-8")
    return tmp_path


def judged(monkeypatch: pytest.MonkeyPatch, **shares: float) -> list[str]:
    """Has libraries take such shares of our time; each is called once all the same. What played, in order."""
    played: list[str] = []

    def play(turns: Turns, *_: Any) -> Mapping[int, Mapping[str, float]]:
        assert all(turn() > 0 for turn in turns.values())
        played.extend(turns)
        return {number: {name: 100 * shares.get(name, 1.0) for name in turns} for number in range(9)}

    monkeypatch.setattr(portfolio, "play", play)
    return played


def answer(
    capsys: pytest.CaptureFixture[str], words: str, *libraries: FakeLibrary, code: int = 0
) -> dict[str, Any]:
    named = [word for one in libraries for word in ("--library", str(one.description))]
    line = [*words.split(), "--hw", "generic-c", "--profile", "none", "--portfolio", *named, "--json"]
    assert main(line) == code
    return json.loads(capsys.readouterr().out)


def compiled(capsys: pytest.CaptureFixture[str], *libraries: FakeLibrary, more: str = "") -> dict[str, Any]:
    return answer(capsys, f"compile spread.ir {SIZES} -o out {more}", *libraries)


def codes(found: dict[str, Any]) -> list[str]:
    return [d["code"] for d in found["diagnostics"]]


USER = """\
#include <stdio.h>
#include "spread.h"
int main(void) {
  static float b[600], a[400];
  for (int q = 0; q < 600; q++) b[q] = 0.5f;
  spread_args args = { .b = b, .a = a };
  int status = spread(&args, NULL, NULL);
  printf("%d %g\\n", status, a[399]);
  return status;
}
"""


def test_a_faster_call_performs_the_kernel_as_is_said_everywhere(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Measured to the end: the library takes a few hundred steps where the kernel takes a quarter million."""
    library = FakeLibrary.build(folder, FAST)
    found = compiled(capsys, library)
    told = found["portfolio"]
    assert (told["chosen"], told["function"], told["link"]) == ("fake", "fake_total", "-l:libfake.so")
    (one,) = told["libraries"]
    assert one["measured"][0]["ratio"] < 0.5
    assert one["measured"][0]["sizes"] == {"P": 400, "Q": 600}
    assert one["path"] == str(folder / "fake" / NAME)
    source, header = (Path("out", f"spread.{kind}").read_text(encoding="utf-8") for kind in "ch")
    assert "  fake_total(400, 600, b, a);\n" in source
    assert "link with -l:libfake.so" in header
    report = Path("out/report.txt").read_text(encoding="utf-8")
    assert (
        "\nportfolio: fake performs spread, by fake_total (libfake.so): link with -l:libfake.so\n" in report
    )
    assert json.loads(Path("out/manifest.json").read_text(encoding="utf-8"))["portfolio"] == told
    Path("out/main.c").write_text(USER, encoding="utf-8")
    where = ["-L../fake", told["link"], "-Wl,-rpath,../fake"]
    subprocess.run(["gcc", "-O2", "main.c", "spread.c", *where, "-o", "user"], cwd="out", check=True)
    ran = subprocess.run(["./user"], cwd="out", check=True, capture_output=True, text=True)
    assert ran.stdout == "0 300\n"


def test_a_slower_call_leaves_the_code_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["compile", "spread.ir", *SIZES.split(), "--hw", "generic-c", "--profile", "none", "-o", "own"])
        == 0
    )
    capsys.readouterr()
    found = compiled(capsys, FakeLibrary.build(folder, SLOW))
    assert (found["portfolio"]["chosen"], found["portfolio"]["link"]) == ("isamap", None)
    assert found["portfolio"]["libraries"][0]["measured"][0]["ratio"] > 2
    for name in ("spread.c", "spread.h", "spread.schedule"):
        assert Path("out", name).read_bytes() == Path("own", name).read_bytes()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (WRONG, "should be"),
        (CRASHES, "accessed memory"),
        (BESIDE, "accessed memory"),
        (FAST.replace("fake_total", "fake_sum"), "undefined symbol: fake_total"),
    ],
    ids=["wrong", "crashes", "beside", "without it"],
)
def test_a_call_that_computes_something_else_is_never_taken(
    source: str,
    said: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = judged(monkeypatch, fake=0.01)
    found = compiled(capsys, FakeLibrary.build(folder, source))
    assert found["portfolio"]["chosen"] == "isamap"
    assert found["portfolio"]["libraries"] == played == []
    (warning,) = (d for d in found["diagnostics"] if d["code"] == "library-wrong")
    assert warning["message"] == "fake_total of fake is not taken: it does not compute spread"
    assert said in warning["notes"][0]
    assert "fake_total" not in Path("out/spread.c").read_text(encoding="utf-8")


def test_a_file_that_is_no_library_is_not_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = FakeLibrary.describe(folder)
    (folder / NAME).write_text("no library", encoding="utf-8")
    found = compiled(capsys, library)
    assert codes(found) == ["library-wrong"]
    assert found["portfolio"]["chosen"] == "isamap"


def test_of_several_libraries_the_fastest_is_taken_and_all_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = [FakeLibrary.build(folder, FAST, name=name) for name in ("one", "two", "three")]
    judged(monkeypatch, one=0.9, two=0.8, three=1.2)
    told = compiled(capsys, *libraries)["portfolio"]
    assert told["chosen"] == "two"
    ratios = {one["library"]: one["measured"][0]["ratio"] for one in told["libraries"]}
    assert ratios == {"one": 0.9, "two": 0.8, "three": 1.2}


def test_a_library_is_told_how_many_threads_to_take(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(monkeypatch, fake=0.5)
    assert compiled(capsys, FakeLibrary.build(folder, ONE_THREAD))["portfolio"]["chosen"] == "fake"


def test_what_was_found_is_kept_for_equal_questions(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = FakeLibrary.build(folder, FAST)
    first = judged(monkeypatch, fake=0.5)
    before = compiled(capsys, library)["portfolio"]
    assert first == ["isamap", "fake"]
    assert ChoiceDatabase.open().count() == 1
    again = judged(monkeypatch, fake=2.0)
    assert compiled(capsys, library)["portfolio"] == before
    assert again == []
    assert compiled(capsys, library, more="--no-cache --force")["portfolio"]["chosen"] == "isamap"
    assert compiled(capsys, library)["portfolio"] == before
    assert (
        answer(capsys, "compile spread.ir -D P=401 Q=600 -o other", library)["portfolio"]["chosen"]
        == "isamap"
    )
    (folder / "fake" / NAME).touch()  # as a new version is
    assert compiled(capsys, library)["portfolio"]["chosen"] == "isamap"


def test_run_times_what_was_taken(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = FakeLibrary.build(folder, FAST)
    judged(monkeypatch, fake=0.5)
    found = answer(capsys, f"run spread.ir {SIZES}", library)
    assert found["portfolio"]["chosen"] == "fake"
    assert found["workspace_bytes"] == 0
    assert found["checked"] == "all elements"


def test_sizes_may_stay_open(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(monkeypatch, fake=0.5)
    words = "compile spread.ir -D P=1..4000@40 Q=600 -o out"
    told = answer(capsys, words, FakeLibrary.build(folder, FAST))["portfolio"]
    assert told["chosen"] == "fake"
    assert [m["sizes"] for m in told["libraries"][0]["measured"]] == [{"P": 40, "Q": 600}]
    source = Path("out/spread.c").read_text(encoding="utf-8")
    assert "  fake_total((int32_t)P, 600, b, a);\n" in source
    assert "if (P < 1 || P > 4000) return spread_SIZE_OUT_OF_RANGE;\n" in source


@pytest.mark.parametrize(("shares", "chosen"), [((0.5, 0.8), "fake"), ((0.5, 1.2), "isamap")])
def test_of_several_values_of_a_size_a_library_has_to_win_at_each(
    shares: tuple[float, float],
    chosen: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = list(shares)

    def play(turns: Turns, *_: Any) -> Mapping[int, Mapping[str, float]]:
        share = left.pop(0)
        return {number: {"isamap": 100.0, "fake": 100 * share} for number in range(9)}

    monkeypatch.setattr(portfolio, "play", play)
    words = "compile spread.ir -D P=1..4000@40,2000 Q=600 -o out"
    told = answer(capsys, words, FakeLibrary.build(folder, FAST))["portfolio"]
    measured = told["libraries"][0]["measured"]
    assert [(m["sizes"]["P"], m["ratio"]) for m in measured] == list(zip((40, 2000), shares, strict=True))
    assert told["chosen"] == chosen


def test_code_that_fails_while_it_is_measured_leaves_no_choice(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(self: MeasuredSchedule, _: float) -> float:
        self.failure = "its library is gone"
        return float("inf")

    monkeypatch.setattr(MeasuredSchedule, "turn", gone)
    found = answer(capsys, f"compile spread.ir {SIZES}", FakeLibrary.build(folder, FAST), code=1)
    assert codes(found) == ["nothing-ran"]
    assert found["diagnostics"][0]["message"] == "`isamap` could not be measured: its library is gone"
    assert ChoiceDatabase.open().count() == 0


def test_two_libraries_of_one_name_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = FakeLibrary.build(folder, FAST)
    found = answer(capsys, f"compile spread.ir {SIZES}", library, library, code=2)
    assert found["diagnostics"][0]["message"] == "two libraries to compare are called `fake`"


def test_a_kernel_that_no_call_computes_is_ours_which_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = FakeLibrary.build(folder, FAST)
    found = answer(capsys, "compile gemv_f32 -D M=8 K=8 -o out", library)
    assert codes(found) == ["no-library-call"]
    assert found["portfolio"]["chosen"] == "isamap"
    report = Path("out/report.txt").read_text(encoding="utf-8")
    assert "portfolio: isamap performs gemv_f32: no call of an installed library that is described" in report


def test_a_library_that_is_not_installed_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = FakeLibrary.describe(folder)
    found = answer(capsys, f"compile spread.ir {SIZES}", library, code=5)
    assert codes(found) == ["no-library"]
    assert found["diagnostics"][0]["notes"] == ["fake: no `./libfake.so`"]
    assert found["diagnostics"][0]["help"] == "leave out `--portfolio`"


@pytest.mark.parametrize("name", ["mkl", "scipy-openblas"])
def test_shipped_descriptions_say_what_installed_libraries_do(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of all layouts, by vectors and with factors, each verified and taken."""
    from isamap.libraries.description import shipped_library
    from isamap.libraries.installed import find_installed

    if find_installed(shipped_library(name)) is None:
        pytest.skip(f"{name} is not installed")
    judged(monkeypatch, **{name: 0.5})
    for kernel, sizes in (
        ("gemm_f32", "M=20 N=30 K=40"),
        ("gemm_nt_f32", "M=20 N=1..30@17 K=40"),
        ("gemm_tn_f64", "M=20 N=30 K=40"),
        ("gemv_f32", "M=20 K=40"),
    ):
        told = answer(capsys, f"compile {kernel} -D {sizes} -o {kernel}")["portfolio"]
        assert told["chosen"] == name
