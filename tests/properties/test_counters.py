"""Three counts of what a call moves agree: by formula, by simulated events, and by walking the program.

Of random schedules, on machines with and without scratchpads, with fused statements, windows, axes in one,
buffers that are filled ahead and results that are written back late. `ISAMAP_EXAMPLES=1000` tries a thousand.

Each is held against the program:

- issues and bytes by instruction and array, which the simulator says;
- what each unit and each link that units share does, which follows from these;
- reads and updates of each array in main memory, and what goes into each buffer and out of it, which
  `isamap accesses` counts by the convention `isamap`.

Caches are left out: a program does not say what they hold. So are registers, whose elements no instruction
names. `docs/access-counts.md` says what else is not an access; `uncounted` is where this test heeds it.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

import pytest
from counted_programs import Counted, count_program
from properties.random_schedules import random_schedule

from isamap.driver.api import source_of
from isamap.driver.explaining import schedule_accesses
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.lower.passes import lower
from isamap.lower.program import LoweredProgram
from isamap.machine import Machine
from isamap.plan.access_counts import CONVENTIONS, StatementAccesses
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_schedule
from isamap.simulate.recording import Recorded, record
from isamap.source import Source
from isamap.transform import reads, statements
from isamap.transform.companions import fused_result

MACHINES = Path(__file__).parents[1] / "data" / "machines"
EXAMPLES = int(os.environ.get("ISAMAP_EXAMPLES", "44"))
OF_A_SIZE = 4
"""Schedules of one kernel at one size: a problem takes longer to formulate than a schedule to count."""

RELU = """kernel relu_gemm(M, N, K) {
  in A: f32[M, K];
  in B: f32[K, N];
  in bias: f32[N];
  out D: f32[M, N];
  temp C: f32[M, N];
  for m in M, n in N { C[m, n] = bias[n]; }
  for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; }
  for m in M, n in N { D[m, n] = max(C[m, n], 0.0); }
}"""

CONV = (MACHINES / "conv_out.ir").read_text(encoding="utf-8")
PRODUCT = {"M": (1, 70), "N": (1, 70), "K": (1, 90)}
WINDOWS = {"N": (1, 2), "H": (3, 9), "W": (3, 12), "R": (1, 3), "S": (1, 3)}
CASES = (
    (
        CONV,
        "tpu-like-w",
        dict.fromkeys("PQ", (1, 9)) | dict.fromkeys("RS", (1, 3)) | {"C": (1, 99), "K": (1, 99)},
    ),
    ("gemm_s8s8", "systolic-16", PRODUCT),
    ("gemm_s8s8", "edge-npu", PRODUCT),
    ("gemm_s8s8", "gemmini", PRODUCT | {"K": (2, 90)}),
    ("gemm_s8s8_requant", "gemmini", PRODUCT | {"K": (2, 90)}),
    ("gemm_bf16_f32", "x86-amx", PRODUCT),
    ("gemm_f32", "x86-avx512", PRODUCT),
    (RELU, "x86-avx2", PRODUCT),
    (RELU, "generic-c", dict.fromkeys("MNK", (1, 20))),
    ("conv2d_nchw", "x86-avx512", WINDOWS | {"C": (1, 5), "K": (1, 20)}),
    ("conv2d_nhwc", "generic-c", WINDOWS | {"C": (1, 5), "K": (1, 9)}),
)


@dataclass(frozen=True)
class Case:
    """A kernel at one size on a machine, with one random schedule, and what is counted of it."""

    made: Compilation
    problem: Problem
    machine: Machine
    schedule: Schedule
    program: LoweredProgram

    @property
    def recorded(self) -> Recorded:
        return record(self.program, self.machine, self.problem)

    @property
    def accesses(self) -> tuple[StatementAccesses, ...]:
        assert self.made.canonical is not None
        known = self.made.canonical, self.schedule, self.problem, self.machine
        return schedule_accesses(*known, CONVENTIONS["isamap"])


@cache
def formulated(number: int) -> Compilation:
    """Return the problem of that number; sizes are multiples of four half of the time."""
    random = Random(number)
    kernel, machine, ranges = CASES[number % len(CASES)]
    source = Source("k.ir", kernel) if "\n" in kernel else source_of(kernel)
    step = random.choice((1, 4))
    sizes = {name: random.randint(low, high) for name, (low, high) in ranges.items()}
    sizes |= {n: -(-v // step) * step for n, v in sizes.items() if ranges[n][1] > 9}
    path = MACHINES / f"{machine}.yaml"
    return compile_kernel(Request(source, str(path) if path.exists() else machine, sizes), "formulate")


def prepare(number: int) -> Case:
    made = formulated(number // OF_A_SIZE)
    assert made.canonical is not None
    assert made.problem is not None
    assert made.machine is not None
    random = Random(1_000_000 + number)
    drawn = (random_schedule(made.problem, random, wildest=random.choice((3, 6, 12))) for _ in range(20))
    schedule = next((found for found in drawn if found is not None), None)
    assert schedule is not None, f"case {number}: no schedule found"
    plain = (replace(nest, prefetches=()) for nest in schedule.nests)  # hints are no accesses
    schedule = replace(schedule, nests=tuple(plain))
    sizes = {name: value for name, value in made.problem.sizes if isinstance(value, int)}
    program = lower(made.canonical, made.machine, schedule, sizes)
    return Case(made, made.problem, made.machine, schedule, program)


def simulator_differs(case: Case, walked: Counted) -> list[str]:
    """Return what the simulator says otherwise than the program does. Fills of main memory are no instruction's."""
    recorded = case.recorded
    moved: Counter[tuple[str, str, bool]] = Counter()
    for carried in recorded.carried:
        if carried.instruction != "fill":
            moved[carried.instruction, carried.array, False] += carried.read_bytes
            moved[carried.instruction, carried.array, True] += carried.written_bytes
    found = [
        f"{key}: the simulator says {moved[key]}, the program moves {walked.moved[key]}"
        for key in sorted({*moved, *walked.moved})
        if moved[key] != walked.moved[key]
    ]
    busy = dict(recorded.simulation.busy_ns)
    for memory, size_bytes in across_links(walked, case.machine).items():
        bandwidth = next(k.bandwidth_bytes_per_ns for k in case.machine.links if k.source_memory == memory)
        if abs(busy[memory] * bandwidth - size_bytes) > 1e-6 * size_bytes:
            found.append(f"link {memory}: {busy[memory] * bandwidth} bytes simulated, {size_bytes} moved")
    fills = busy.get("fill") is not None
    issues = sum(walked.issues.values())
    if not fills and recorded.simulation.issues != issues:
        found.append(f"{recorded.simulation.issues} issues simulated, {issues} performed")
    return found


def across_links(walked: Counted, machine: Machine) -> Counter[str]:
    """Bytes that cross the links which units share, by the memory that these lead from."""
    found: Counter[str] = Counter()
    for (name, _, is_written), size_bytes in walked.moved.items():
        operands = machine.instructions[name].instruction.operands
        sources = {o.memory: o.role != "in" for o in operands if o.memory is not None}
        for link in machine.links:
            ends = link.source_memory, link.target_memory
            if link.shared and set(ends) <= sources.keys() and sources[ends[0]] == is_written:
                assert link.burst_bytes == 1, "bytes of bursts are not what an array says"
                found[link.source_memory] += size_bytes
                break
    return found


def accesses_differ(case: Case, walked: Counted) -> list[str]:
    """Return what `isamap accesses` says otherwise than the program does."""
    home = next(m.name for m in case.machine.memories.values() if m.kind == "addressable")
    registers = {m.name for m in case.machine.memories.values() if m.kind == "registers"}
    said: Counter[tuple[str, bool]] = Counter()
    from_home = 0
    known: set[tuple[str, bool]] = set()
    for statement, count in ((s, count) for s in case.accesses for count in s.accesses):
        if count.level == home:
            from_home = count.reads
            for is_written, elements in ((False, count.reads), (True, count.updates)):
                said[count.tensor, is_written] += count.element_bytes * elements
                known.add((count.tensor, is_written))
        elif count.level not in registers:
            name = f"{count.operand} in {count.level}"
            said[name, False] += count.element_bytes * (count.reads + count.drains)
            fills = from_home if count.fills and is_cleared(case, statement.statement) else count.fills
            said[name, True] += count.element_bytes * (fills + count.updates)
            known |= {(name, False), (name, True)}
    done: Counter[tuple[str, bool]] = Counter()
    for (instruction, array, is_written), size_bytes in walked.moved.items():
        place = place_of(case, array)
        if not clears(case.machine, instruction) or (instruction, place) in assigned(case):
            done[place, is_written] += size_bytes
    return [
        f"{key}: `accesses` says {said[key]}, the program moves {done[key]}"
        for key in sorted(known - uncounted(case))
        if said[key] != done[key]
    ]


def is_cleared(case: Case, number: int) -> bool:
    """Return whether sums begin with a number: a buffer is set to it, whole tiles at once, by moves from nowhere."""
    assert case.made.canonical is not None
    nest = next(nest for nest in case.schedule.nests if nest.statement == number)
    first = fused_result(case.made.canonical, number, nest.fused).first if nest.fused else None
    return first is not None and not reads(first)


def place_of(case: Case, array: str) -> str:
    """Return an array's own name; of a buffer, which operand it holds where."""
    buffer = next((b for b in case.program.buffers if b.name == array), None)
    operand, is_buffer, _ = array.rpartition("_tiles")
    return f"{operand} in {buffer.memory or 'workspace'}" if buffer is not None and is_buffer else array


def clears(machine: Machine, instruction: str) -> bool:
    operands = machine.instructions[instruction].instruction.operands
    return all(o.role == "out" for o in operands)


def assigned(case: Case) -> set[tuple[str, str]]:
    """Return which instructions perform statements by writing numbers into which buffers: these are results."""
    return {
        (nest.mapping.split()[0], f"{stage.operand} in {stage.memory}")
        for nest in case.schedule.nests
        for stage in nest.stages
    }


def uncounted(case: Case) -> set[tuple[str, bool]]:
    """Return what `isamap accesses` does not say, each of it in `docs/access-counts.md`.

    Fused statements read other arrays than the sum's. What is computed of several arrays into a buffer is an
    array of its own there, which main memory does not have.
    """
    assert case.made.canonical is not None
    given = statements(case.made.canonical)
    fused = {number for nest in case.schedule.nests for number in nest.fused}
    found = {(r.buffer, False) for number in fused for r in reads(given[number].assign.value)}
    arrays = {tensor.name for tensor in case.program.tensors} | {b.name for b in case.program.buffers}
    for statement in case.accesses:
        found |= {(o.tensor, False) for o in statement.nest.operands if o.tensor not in arrays}
    return found


SHORT = {
    "an input that is computed, in unrolled issues": (
        "conv2d_nchw",
        "x86-avx512",
        {"C": 2, "H": 6, "K": 2, "N": 1, "R": 1, "S": 2, "W": 8, "pad": 0, "stride": 1},
        """nest 0 {
  map sum_zmm_f32 { i: s } (a = X[n, c, p + r, q + s] * F[k, c, r, s]);
  for p by 2 { for k by 1 { for q by 3 { for n by 1 { hold; for c by 1 { for r by 1 {
    unroll s by 16 { unroll p by 1 { unroll q by 1 { issue; } } } } } } } } }
}""",
    ),
    "an input that whole and short tiles share": (
        "gemm_f32",
        "x86-avx512",
        {"K": 3, "M": 5, "N": 34},
        """nest 0 {
  map sum_zmm_f32 { i: n } (a = A[m, k] * B[k, n]);
  for n by 64 { for m by 2 { hold; for k by 2 {
    unroll n by 16 { unroll k by 1 { unroll m by 1 { issue; } } } } } }
}""",
    ),
    "an assignment that unrolled issues perform": (
        RELU,
        "x86-avx2",
        {"K": 3, "M": 7, "N": 13},
        """nest 0 {
  map store_ymm_f32 { i: n } (a = bias[n]);
  for n by 8 { for m by 3 { hold; unroll m by 1 { issue; } } }
}
nest 1 {
  map mac_f32 (a = A[m, k], b = B[k, n]);
  for m by 1 { for n by 1 { hold; for k by 1 { issue; } } }
}
nest 2 {
  map store_ymm_f32 { i: n } (a = max(C[m, n], 0));
  for m by 1 { for n by 8 { hold; issue; } }
}""",
    ),
}


@pytest.mark.parametrize("name", SHORT)
def test_what_short_tiles_read_one_by_one_is_counted_for_each_issue(name: str) -> None:
    kernel, machine, sizes, nests = SHORT[name]
    source = Source("k.ir", kernel) if "\n" in kernel else source_of(kernel)
    known = ", ".join(f"{n} = {v}" for n, v in sizes.items())
    called = "relu_gemm" if kernel == RELU else kernel
    text = f"isamap schedule 1\nkernel {called}\nmachine {machine}\nsizes {known}\nstatus MANUAL\n{nests}\n"
    made = compile_kernel(Request(source, machine, sizes, schedule=Source("s.schedule", text)), "lower")
    assert made.problem is not None
    assert made.machine is not None
    assert made.schedule is not None
    assert made.program is not None
    case = Case(made, made.problem, made.machine, made.schedule, made.program)
    walked = count_program(case.program, case.machine)
    assert not [*simulator_differs(case, walked), *accesses_differ(case, walked)]


@pytest.mark.exhaustive(fast=5)
@pytest.mark.parametrize("first", range(0, EXAMPLES, OF_A_SIZE))
def test_three_counts_agree(first: int) -> None:
    for number in range(first, min(EXAMPLES, first + OF_A_SIZE)):
        case = prepare(number)
        walked = count_program(case.program, case.machine)
        said = [*simulator_differs(case, walked), *accesses_differ(case, walked)]
        assert not said, "\n".join((f"case {number}", *said, print_schedule(case.schedule)))
