"""The order of parts, and what parts that run at the same time read once from the cache in front of a memory."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import pytest
from plan_problems import gemm_option, problem

from isamap.cli import main
from isamap.plan.problem import Flow, NestOption, Problem, with_fields
from isamap.scheduler.deciding.partitioning import Parts, with_shared_data
from isamap.source.records import replace

EACH_NS = 100.0
"""The time in which the far memory transfers the block of a part, of each input."""


def on_device(m: int, n: int, k: int, *, places: int, cache_bytes: int) -> tuple[Problem, NestOption]:
    """Return a product of one part of these extents on a device of so many parts at the same time."""
    option = gemm_option(m, n, k, 1)
    flow = Flow((("far", EACH_NS), ("mover", EACH_NS)))
    operands = tuple(o if o.is_accumulator else with_fields(o, flow=flow) for o in option.operands)
    option = replace(option, operands=operands)
    return replace(problem(option), threads=places, cached=(("far", cache_bytes),)), option


def far_ns(option: NestOption) -> dict[str, float]:
    """Return the time of the far memory by operand, after the time of the mover was seen to be unchanged."""
    found: dict[str, float] = {}
    for operand in option.operands:
        if operand.staging.flow is not None:
            times = dict(operand.staging.flow.begun)
            assert times["mover"] == EACH_NS
            found[operand.name] = times["far"]
    return found


def by_counting(parts: Parts, places: int, axes: tuple[str, ...]) -> float:
    """Return the share of all blocks of an operand that parts of the same round read first, counted one by one."""
    numbers: list[tuple[int, ...]] = [()]
    for _, count in parts:
        numbers = [(*number, i) for number in numbers for i in range(count)]
    rounds = [numbers[at : at + places] for at in range(0, len(numbers), places)]
    own = [i for i, (name, _) in enumerate(parts) if name in axes]
    return sum(len({tuple(number[i] for i in own) for number in one}) for one in rounds) / len(numbers)


@pytest.mark.parametrize(
    ("parts", "places"),
    [
        ((("m", 16), ("n", 32)), 64),
        ((("m", 2), ("n", 32), ("m", 8)), 64),
        ((("n", 32), ("m", 16)), 16),
        ((("m", 4), ("n", 8), ("m", 4)), 16),
    ],
)
def test_traffic_is_that_of_parts_counted_one_by_one(parts: Parts, places: int) -> None:
    asked, option = on_device(256, 128, 4096, places=places, cache_bytes=1)
    found = far_ns(with_shared_data(replace(option, parts=parts), asked, parts))
    assert found["a"] == pytest.approx(EACH_NS * by_counting(parts, places, ("m", "k")))
    assert found["b"] == pytest.approx(EACH_NS * by_counting(parts, places, ("n", "k")))


def test_groups_of_parts_have_less_traffic_than_rows_of_them() -> None:
    asked, option = on_device(256, 128, 4096, places=132, cache_bytes=1)
    rows = (("m", 32), ("n", 32))
    made = with_shared_data(replace(option, parts=rows), asked)
    assert made.parts == (("m", 2), ("n", 32), ("m", 16))
    plain = with_shared_data(replace(option, parts=rows), asked, rows)
    assert sum(far_ns(made).values()) < 0.7 * sum(far_ns(plain).values())


def test_the_shape_of_a_part_decides_along_which_axis_parts_follow_each_other() -> None:
    asked, option = on_device(512, 64, 4096, places=16, cache_bytes=1)
    long = tuple(
        with_fields(o, flow=Flow((("far", EACH_NS * (8 if o.name == "a" else 1)), ("mover", EACH_NS))))
        if not o.is_accumulator
        else o
        for o in option.operands
    )
    parts = (("m", 16), ("n", 16))
    assert with_shared_data(replace(option, operands=long, parts=parts), asked).parts[-1][0] == "n"
    wide = tuple(with_fields(o, flow=long[1 - i].staging.flow) if i < 2 else o for i, o in enumerate(long))
    assert with_shared_data(replace(option, operands=wide, parts=parts), asked).parts[-1][0] == "m"


def test_a_cache_with_room_for_all_data_reads_each_block_once() -> None:
    parts = (("m", 16), ("n", 32))
    asked, option = on_device(8, 8, 8, places=4, cache_bytes=1 << 30)
    found = far_ns(with_shared_data(replace(option, parts=parts), asked, parts))
    assert found == {"a": EACH_NS / 32, "b": EACH_NS / 16}


def test_without_a_cache_no_part_is_changed() -> None:
    asked, option = on_device(8, 8, 8, places=4, cache_bytes=1)
    option = replace(option, parts=(("m", 16), ("n", 32)))
    assert with_shared_data(option, replace(asked, cached=())) is option
    assert prod(n for _, n in with_shared_data(option, asked).parts) == 512


def test_two_loops_over_an_axis_make_as_many_parts_as_one_with_the_smaller_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each was counted over the whole axis: 32 parts instead of 16."""
    text = """isamap schedule 1
kernel gemm_f32
machine opencl-simt
sizes K = 16, M = 512, N = 128
model analytic
cost 1 ns
bound 0 ns
status HEURISTIC
found by greedy
proved by lower bounds

nest 0 {
  map fma_f32 { i: m, j: n } (a = A[m, k], b = B[k, n]);
  par m by 256 { par n by 64 { par m by 64 {
    stage a in shared at 0;
    stage b in shared at 4096;
    hold;
    for k by 4 { unroll k by 1 { unroll m by 16 { unroll n by 16 { issue; } } } }
  } } }
}
"""
    (tmp_path / "grouped.schedule").write_text(text)
    sizes = ["-D", "M=512", "N=128", "K=16", "--schedule", str(tmp_path / "grouped.schedule")]
    assert main(["compile", "gemm_f32", "--hw", "opencl-simt", *sizes, "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "par    m by 256, n by 64, m by 64: 16 parts" in said
    assert "block" not in said, "a loop that divides parts into groups is no cache block"


CLUSTERS = """isamap: 1
extends: core-cluster
name: receivers
summary: clusters whose slow link may have several receivers
language: |
  memory far: addressable({attributes});
links:
  - {{from: far, to: near, bandwidth_bytes_per_ns: 0.05, shared: true, source: guess}}
  - {{from: far, to: reg, bandwidth_bytes_per_ns: 0.05, shared: true, source: guess}}
"""


def clusters(folder: Path, attributes: str) -> str:
    """Return the path of clusters of cores with a slow link, whose far memory has these attributes."""
    path = folder / "receivers.yaml"
    path.write_text(CLUSTERS.format(attributes=attributes))
    return str(path)


def test_one_transfer_with_several_receivers_occupies_the_link_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["-D", "M=128", "N=128", "K=128", "--heuristic", "greedy", "--json"]
    costs = list[float]()
    for attributes in ("", "multicast_bytes_per_ns = 128"):
        assert main(["schedule", "gemm_f32", "--hw", clusters(tmp_path, attributes), *asked]) == 0
        (row,) = json.loads(capsys.readouterr().out)["attempts"]
        costs.append(row["cost_ns"])
    assert costs[1] < 0.75 * costs[0]


def test_a_multicast_needs_a_shared_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(clusters(tmp_path, "multicast_bytes_per_ns = 64"))
    path.write_text(path.read_text().replace("shared: true", "shared: false"))
    assert main(["hw", "check", str(path)]) != 0
    assert "`multicast_bytes_per_ns` of `far` needs a shared link" in capsys.readouterr().err


def test_a_memory_has_a_cache_in_front_of_it_or_a_multicast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = "cache_bytes = 1 MiB, cache_bytes_per_ns = 64, multicast_bytes_per_ns = 64"
    assert main(["hw", "check", clusters(tmp_path, both)]) != 0
    assert "states a cache and a multicast" in capsys.readouterr().err
