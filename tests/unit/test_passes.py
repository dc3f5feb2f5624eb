"""The passes of lowering as users see them: printed one by one, or written to a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.cli import main
from isamap.driver import stages
from isamap.driver.stages import PASS_NAMES, Clock
from isamap.driver.workspace_packing import ALL_PASSES

GEMM = ["gemm_f32", "--hw", "x86-avx512", "-D", "M=20", "N=100", "K=30", "--schedule", "my.schedule"]
SCHEDULE = """isamap schedule 1
kernel gemm_f32
machine x86-avx512
sizes K = 30, M = 20, N = 100
status MANUAL

nest 0 {
  map fma_zmm_f32 { i: n } (a = A[m, k], b = B[k, n]);
  par m by 12 { for n by 48 { stage b ahead 1; prefetch c ahead 1 into l1;
    for m by 4 { for n by 16 { hold; for k by 1 { unroll m by 1 { issue; } } } } } }
}
"""
STEPS = """nest 0: C[m, n] += A[m, k] * B[k, n];
  fma_zmm_f32 { i: n } (a = A[m, k], b = B[k, n])
  parallel m by 12
    for n by 48, carries b, prefetches c ahead 1 into l1
      stage b ahead 1, 2 buffers, dealt to m by 4
        for m by 4, then the remainder
          for n by 16, then the remainder
            hold, unrolled m by 1 of blocks by 4
              for k by 1
                issue, unrolled m by 1 of blocks by 4
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.schedule").write_text(SCHEDULE, encoding="utf-8")


def test_the_names_are_those_of_the_table() -> None:
    assert tuple(one.name for one in ALL_PASSES) == PASS_NAMES


def test_steps_print_with_what_is_decided_about_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", *GEMM, "--stop-after", "peel"]) == 0
    assert capsys.readouterr().out == STEPS


def test_each_pass_is_written_to_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", *GEMM, "-o", "out", "--dump-passes", "passes/here"]) == 0
    names = [path.name for path in sorted(Path("passes/here").iterdir())]
    assert names == [f"{n:02}-{name}.txt" for n, name in enumerate(PASS_NAMES, 1)]
    assert Path("passes/here/06-peel.txt").read_text(encoding="utf-8") == STEPS
    capsys.readouterr()
    assert main(["compile", *GEMM, "--stop-after", "lower"]) == 0
    assert (
        Path(f"passes/here/{len(PASS_NAMES):02}-workspace.txt").read_text(encoding="utf-8")
        == capsys.readouterr().out
    )


def test_what_is_recalled_is_lowered_again_where_passes_are_to_be_seen() -> None:
    for folder in ("first", "second"):
        assert main(["compile", *GEMM, "-o", "out", "--dump-passes", folder]) == 0
    assert len(list(Path("second").iterdir())) == len(PASS_NAMES)


def test_passes_up_to_the_last_one_are_written() -> None:
    assert main(["compile", *GEMM, "--stop-after", "stage", "--dump-passes", "some"]) == 0
    assert [path.name for path in sorted(Path("some").iterdir())] == [
        "01-loops.txt",
        "02-hold.txt",
        "03-stage.txt",
    ]


def test_each_of_several_versions_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gemm_f32", "--hw", "generic-c", "--heuristic", "greedy", "-D", "M=1..64@2,40", "N=9", "K=5"]
    assert main(["compile", *words, "--stop-after", "loops"]) == 0
    assert capsys.readouterr().out.count("nest 0: C[m, n]") == 2
    assert main(["compile", *words, "-o", "out", "--dump-passes", "passes"]) == 0
    names = [path.name for path in sorted(Path("passes").iterdir())]
    assert (names[0], names[-1]) == ("01-version-1-loops.txt", f"{2 * len(PASS_NAMES) - 1}-workspace.txt")


def test_a_stage_inside_another_one_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock shows 0, 1, 2, …, one more whenever it is looked at."""
    times = iter(range(100))
    monkeypatch.setattr(stages.time, "perf_counter", lambda: float(next(times)))
    seen: list[str] = []
    run = Clock(seen.append)
    with run("transform"), run("formulate"), run("match"):
        pass
    with run("match"):
        pass
    assert seen == ["transform", "formulate", "match", "formulate", "transform", "match"]
    assert run.seconds == {"transform": 2.0, "formulate": 2.0, "match": 2.0}
