"""Units with queues of their own, and links that units share, by the clocks of a machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request, Size
from isamap.ir import Index
from isamap.kernels import kernel_path
from isamap.machine.timings import IN_FLIGHT
from isamap.simulate import events
from isamap.simulate.events import simulate
from isamap.simulate.machine_time import MachineTime, ScratchpadAccess, Step
from isamap.source import Source

LOAD, COMPUTE, BUS = 0, 1, 2


def machine() -> MachineTime:
    return MachineTime(3, 0, [], 64)


def issue(unit: int, work: float, *, queued: int = 0, link: float = 0.0, written: bool = False) -> Step:
    return Step(
        unit,
        work,
        work,
        (),
        -1,
        (),
        queued=queued,
        link=BUS if link else -1,
        link_ns=link,
        link_written=written,
    )


def test_an_issue_comes_when_those_before_it_have_room_in_their_queue() -> None:
    time = machine()
    for _ in range(4):
        time.issue(issue(LOAD, 10, queued=2), [])
    time.issue(issue(COMPUTE, 1, queued=2), [])
    # The fourth load waited for the second to begin, at 10, and all behind it with it.
    assert time.units == [40, 11, 0]


def test_without_a_queue_a_unit_that_is_busy_keeps_no_other_waiting() -> None:
    time = machine()
    for _ in range(4):
        time.issue(issue(LOAD, 10), [])
    time.issue(issue(COMPUTE, 1), [])
    assert time.units == [40, 1, 0]


def test_what_a_queue_has_taken_is_not_in_flight_for_units_without_one() -> None:
    time = machine()
    time.issue(issue(LOAD, 1000, queued=2), [])
    for _ in range(IN_FLIGHT + 1):
        time.issue(issue(COMPUTE, 1), [])
    assert time.units == [1000, IN_FLIGHT + 1, 0]


def test_what_is_read_over_a_link_that_is_busy_waits_and_what_is_written_goes_first() -> None:
    time = machine()
    time.issue(issue(LOAD, 10, link=30), [])
    time.issue(issue(COMPUTE, 10, link=5, written=True), [])
    assert time.units == [10, 10, 35]
    time.issue(issue(LOAD, 10, link=5), [])
    assert time.units == [45, 10, 40], "it ends no sooner than its bytes have crossed"


def test_neighbouring_bytes_of_a_scratchpad_do_not_wait_for_each_other() -> None:
    time = machine()

    def filled(byte: int) -> Step:
        return replace(issue(LOAD, 10), touches=(ScratchpadAccess("spad", Index.of(byte), 1, False, True),))

    def read(byte: int) -> Step:
        return replace(
            issue(COMPUTE, 100), touches=(ScratchpadAccess("spad", Index.of(byte), 1, True, False),)
        )

    time.issue(filled(0), [])
    time.issue(read(0), [])
    time.issue(filled(1), [])
    assert time.units == [20, 110, 0], "the copy beside is filled while this one is read"
    time.issue(filled(0), [])
    assert time.units == [120, 110, 0], "and this one when it has been read"


@pytest.mark.parametrize(("m", "n", "k"), [(64, 128, 64), (48, 128, 128)])
def test_loops_of_which_not_all_iterations_are_run_take_as_long(
    m: int, n: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Source("gemm_s8s8.ir", kernel_path("gemm_s8s8").read_text())
    asked = Request(text, "vector-dsp", {"M": m, "N": n, "K": k}, heuristic="greedy")
    made = compile_kernel(asked, "emit")
    assert made.program
    assert made.machine
    assert made.problem
    some = simulate(made.program, made.machine, made.problem)
    monkeypatch.setattr(events, "MOST_ITERATIONS", 1 << 30)
    monkeypatch.setattr(events, "SAME", -2.0)
    whole = simulate(made.program, made.machine, made.problem)
    assert some.run < whole.run == whole.issues == some.issues
    assert some.total_ns == pytest.approx(whole.total_ns, rel=0.03)


def test_buffers_that_share_bytes_of_a_scratchpad_wait_for_each_other() -> None:
    text = kernel_path("gemm_s8s8_requant").read_text()
    text = text.replace(", scalar scale: f32", "").replace("* scale", "* 0.0078125")
    sizes: dict[str, Size] = {"M": 256, "N": 96, "K": 96}
    made = compile_kernel(Request(Source("k.ir", text), "edge-npu", sizes, heuristic="greedy"))
    assert made.program
    assert made.machine
    assert made.problem

    def simulated(memory: str, offset: int) -> float:
        """With the buffers of a memory at a place, sums and bytes alike: the second one from there on."""
        assert made.program
        assert made.machine
        assert made.problem
        own = [b for b in made.program.buffers if b.memory == memory]
        places = {b.name: n * offset for n, b in enumerate(own)}
        moved = tuple(replace(b, offset=places.get(b.name, b.offset)) for b in made.program.buffers)
        return simulate(replace(made.program, buffers=moved), made.machine, made.problem).total_ns

    assert simulated("spad", 0) > simulated("spad", 65536), "inputs and what leaves take turns in one place"


@pytest.mark.parametrize(("rows", "length"), [(49, 64), (196, 224), (784, 160), (3136, 224), (12544, 256)])
def test_lengths_of_which_not_all_are_allowed_pad_least(rows: int, length: int) -> None:
    text = Source("gemm_s8s8.ir", kernel_path("gemm_s8s8").read_text())
    asked = Request(text, "edge-npu", {"M": rows, "N": 32, "K": 32}, heuristic="greedy")
    made = compile_kernel(asked, "formulate")
    assert made.problem is not None
    options = [
        o for nest in made.problem.nests for o in nest.options if o.mapping.startswith("stream { m: m,")
    ]
    assert {dict(option.choose)["M"] for option in options} == {length}
