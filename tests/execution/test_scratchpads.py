"""Programs that stage in scratchpads: addresses are decided, and results are the interpreter's."""

from __future__ import annotations

from pathlib import Path

import pytest
from emitted_programs import check_emitted
from ownership import lost_bytes

from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request, Size
from isamap.hw_specs import machine_path
from isamap.kernels import kernel_path
from isamap.source import Infeasible, NoMapping, Source, UsageProblem

SCHEDULE = """isamap schedule 1
kernel gemm_s8s8
machine systolic-16
sizes K = 70, M = 37, N = 100
status MANUAL

nest 0 {{
  map matmul {{ m: m, n: n, k: k }} (a = A[m, k], b = B[k, n]);
  for m by 32 {{
    stage a in spad{a};
    for n by 32 {{
      stage b{ahead}{b};
      stage c in acc at 0;
      hold;
      for k by 16 {{
        unroll n by 16 {{
          unroll m by 16 {{
            issue;
          }}
        }}
      }}
    }}
  }}
}}
"""

ROWS = """instruction mvin(scalar R: 0..16, scalar C: 0..16)
        where align(z) % 16 == 0 {"""


def compiled(
    machine: str,
    sizes: dict[str, Size],
    schedule: str | None = None,
    heuristic: str = "greedy",
    limit_s: float = 10.0,
) -> Compilation:
    source = Source("gemm_s8s8.ir", kernel_path("gemm_s8s8").read_text())
    replay = Source("s.schedule", schedule) if schedule is not None else None
    asked = Request(source, machine, sizes, schedule=replay, heuristic=heuristic, limit_s=limit_s)
    return compile_kernel(asked)


def check(made: Compilation, sizes: dict[str, int]) -> None:
    check_emitted(made, read_kernel("gemm_s8s8"), sizes)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (16, 16, 16), (17, 33, 5), (64, 48, 80), (37, 100, 70)])
def test_products_of_any_size_run_through_the_scratchpad(m: int, n: int, k: int) -> None:
    sizes = {"M": m, "N": n, "K": k}
    check(compiled("systolic-16", {**sizes}), sizes)


def test_a_product_larger_than_the_scratchpad_goes_in_blocks() -> None:
    sizes = {"M": 300, "N": 200, "K": 1100}
    made = compiled("systolic-16", {**sizes})
    assert made.schedule
    steps = {loop.axis: loop.step for loop in made.schedule.nests[0].loops if loop.counts}
    assert steps["n"] < 200
    assert steps["k"] < 1100
    stages = {stage.operand: stage for stage in made.schedule.nests[0].stages}
    assert {name: stage.memory for name, stage in stages.items()} == {"a": "spad", "b": "spad", "c": "acc"}
    check(made, sizes)


@pytest.mark.parametrize(
    ("ahead", "b"), [("", " in spad at 65536"), (" ahead 1", " in spad at 200000")], ids=["once", "ahead"]
)
def test_a_hand_written_schedule_says_where_buffers_lie(ahead: str, b: str) -> None:
    sizes = {"M": 37, "N": 100, "K": 70}
    made = compiled("systolic-16", {**sizes}, SCHEDULE.format(a=" at 4096", ahead=ahead, b=b))
    assert made.program
    assert made.machine
    offsets = {buffer.offset for buffer in made.program.buffers if buffer.memory == "spad"}
    assert offsets == {4096, int(b.rsplit(" ", 1)[1])}
    assert lost_bytes(made.program, made.machine) == []
    check(made, sizes)


def test_cp_sat_respects_the_capacity() -> None:
    made = compiled("systolic-16", {"M": 512, "N": 512, "K": 1024}, heuristic="cpsat", limit_s=120)
    assert made.schedule
    assert made.schedule.status == "OPTIMAL"  # and check_schedule has agreed


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (
            " at 0",
            " in spad at 1024",
            "nest 0: `a` at 0 to 2560 and `b` at 1024 to 3584 overlap in `spad`",
        ),
        (" at 262000", " in spad at 0", "nest 0: `a` lies at 262000 to 264560, and `spad` ends at 262144"),
        ("", " in spad at 0", "nest 0: `stage a in spad` does not say where"),
        (" at 0", "", "nest 0: `b` cannot be staged in the workspace"),
        (" at 0", " in acc at 0", "nest 0: `b` cannot be staged in `acc`"),
    ],
)
def test_what_lies_wrong_is_refused_in_these_words(a: str, b: str, said: str) -> None:
    text = SCHEDULE.format(a=a, ahead="", b=b)
    with pytest.raises(UsageProblem) as caught:
        compiled("systolic-16", {"M": 37, "N": 100, "K": 70}, text)
    assert said in [d.message for d in caught.value.diagnostics]


def changed(folder: Path, *changes: tuple[str, str]) -> str:
    """Return a copy of the machine with changes; its path."""
    text = machine_path("systolic-16").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "systolic-16.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("heuristic", ["greedy", "cpsat"])
def test_a_scratchpad_too_small_for_one_block_is_named_with_numbers(tmp_path: Path, heuristic: str) -> None:
    machine = changed(tmp_path, ("bytes = 262144", "bytes = 256"))
    with pytest.raises(Infeasible) as caught:
        compiled(machine, {"M": 64, "N": 64, "K": 1000}, heuristic=heuristic)
    (found,) = caught.value.diagnostics
    assert found.render().splitlines() == [
        (
            "error[scratchpad-too-small]: statement 0 has no schedule: 512 bytes of `spad` are needed at "
            "least, and there are 256"
        ),
        "  note: `a`: 256 bytes, `b`: 256 bytes in blocks of m by 16, n by 16, k by 16",
        "  note: with mapping `matmul { m: m, n: n, k: k } (a = A[m, k], b = B[k, n])`",
        "  help: relieved by 512 bytes of `spad` in the machine's description",
    ]


def test_a_scratchpad_that_nothing_clears_takes_whole_tiles_only(tmp_path: Path) -> None:
    text = machine_path("systolic-16").read_text()
    start, end = text.index("  # A DMA from address 0"), text.index("  # --- the array")
    machine = changed(tmp_path, (text[start:end], ""))
    check(compiled(machine, {"M": 32, "N": 16, "K": 48}), {"M": 32, "N": 16, "K": 48})
    with pytest.raises(NoMapping) as caught:
        compiled(machine, {"M": 31, "N": 16, "K": 48})
    assert caught.value.diagnostics[0].message == "systolic-16 cannot set i8 in spad to zero"


def test_a_buffer_of_a_size_that_only_the_run_time_knows_has_no_address() -> None:
    with pytest.raises(UsageProblem) as caught:
        compiled("systolic-16", {"M": "1..64@32", "N": 32, "K": 32})
    assert caught.value.diagnostics[0].code == "scratchpad-open-size"


def test_addresses_are_multiples_of_what_the_machine_says_of_them(tmp_path: Path) -> None:
    stated = changed(tmp_path, ("instruction mvin(scalar R: 0..16, scalar C: 0..16) {", ROWS))
    sizes = {"M": 37, "N": 100, "K": 70}
    check(compiled(stated, {**sizes}), sizes)
    with pytest.raises(UsageProblem) as caught:
        compiled(stated, {**sizes}, SCHEDULE.format(a=" at 8", ahead="", b=" in spad at 65536"))
    assert caught.value.diagnostics[0].render().splitlines() == [
        "error[schedule-stage]: nest 0: `a` lies at 8 in `spad`, whose instructions count 16 bytes",
        "  help: write `stage a in spad at 0;`, or another multiple of 16",
    ]
    transposed = Source("nt.ir", kernel_path("gemm_nt_s8s8").read_text())
    with pytest.raises(NoMapping):
        compile_kernel(Request(transposed, stated, {**sizes}, heuristic="greedy"))
    compile_kernel(Request(transposed, "systolic-16", {**sizes}, heuristic="greedy"))


TWO_LOOPS = """isamap schedule 1
kernel gemm_s8s8
machine systolic-16
sizes K = 16, M = 48, N = 80
status MANUAL

nest 0 {
  map matmul { m: m, n: n, k: k } (a = A[m, k], b = B[k, n]);
  for m by 16 {
    stage a ahead 1 in spad at 0;
    for n by 48 {
      for n by 16 {
        stage b in spad at 4096;
        stage c in acc at 0;
        hold;
        for k by 16 {
          issue;
        }
      }
    }
  }
}
"""


def test_what_is_filled_early_is_whole_where_an_axis_has_two_loops_inside() -> None:
    sizes: dict[str, Size] = {"M": 48, "N": 80, "K": 16}
    check(compiled("systolic-16", sizes, TWO_LOOPS), {"M": 48, "N": 80, "K": 16})
