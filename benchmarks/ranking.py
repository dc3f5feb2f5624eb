"""The order in which the cost model puts schedules, against the order in which this processor does.

    python benchmarks/ranking.py measure --store ranking.jsonl
    python benchmarks/ranking.py report --store ranking.jsonl --profile none
    python benchmarks/ranking.py report --store ranking.jsonl --profile default -o ranking.txt

Per case (a product of public suites in one type) ten distinct schedules: what greedy, annealing and CP-SAT
find, and others of a random walk around them, spread evenly over predicted costs up to three times the best.
They are compiled once and called in turn, in another order each round; one thread; random data. `measure`
goes on where it was interrupted. `report` prices the same schedules anew, with any profile, so that a change
of the model is judged without measuring again.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import comb, exp, log
from pathlib import Path
from typing import cast

import numpy as np

from isamap.codegen.arguments import make_call
from isamap.codegen.c import emit_c
from isamap.codegen.fills import make_arrays
from isamap.codegen.toolchain import Compiled, compile_library
from isamap.codegen.worker import ask_permission, load_function, make_arguments
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.profiles import find_profile
from isamap.driver.request import Request
from isamap.kernels import kernel_path
from isamap.lower.lower import lower
from isamap.machine import detect_machine
from isamap.machine.cpu import this_cpu
from isamap.plan.plugins import load_cost_model
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.plan.text import parse_schedule, print_schedule
from isamap.scheduler.answer import schedule as solve
from isamap.scheduler.assemble import Solved, assemble
from isamap.scheduler.candidates import Candidate, decided, open_options
from isamap.scheduler.codec import read, write
from isamap.scheduler.greedy import first_assignment, first_candidate, moves
from isamap.scheduler.nests.pricing import price
from isamap.source import Source
from isamap.suites.shapes import Product, read_suite

KERNELS = ("gemm_f32", "gemm_bf16", "gemm_u8s8")
SHAPES = 22
MOST_MACS, LEAST_MACS = 400_000_000, 2_000_000  # between about 0.1 and 10 ms
CANDIDATES = 10
WIDEST = 3.0  # how many times the best predicted cost a candidate may have
STEPS = 400
SECONDS = 1.2
LEAST_ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel at some sizes."""

    kernel: str
    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.m}x{self.n}x{self.k}"

    @property
    def sizes(self) -> dict[str, int]:
        return {"M": self.m, "N": self.n, "K": self.k}

    def request(self, profile: str, heuristic: str = "greedy") -> Request:
        path, machine = kernel_path(self.kernel), detect_machine()
        source = Source(path.name, path.read_text())
        found = find_profile(profile, machine)
        return Request(source, machine, self.sizes, heuristic=heuristic, profile=found)


def cases(held_out: bool = False) -> list[Case]:
    """Products of DeepBench and of transformers that take a few milliseconds, spread over their sizes.

    `held_out` are others, in the middle between those: nothing was chosen by looking at them.
    """
    found: dict[tuple[int, int, int], int] = {}
    for suite in ("deepbench-gemm", "transformer-gemm", "resnet50-conv"):
        for shape in read_suite(suite):
            if isinstance(shape, Product):
                m, n, k = shape.m, shape.n, shape.k
            elif shape.r == shape.s == shape.stride_h == 1:  # a product of pixels and channels
                m, n, k = shape.n * shape.p * shape.q, shape.k, shape.c
            else:
                continue
            if LEAST_MACS <= m * n * k <= MOST_MACS:
                found[m, n, k] = m * n * k
    ordered = sorted(found, key=lambda key: (found[key], key))
    usual = [i * (len(ordered) - 1) // (SHAPES - 1) for i in range(SHAPES)]
    between = [(low + high) // 2 for low, high in pairwise(usual)]
    chosen = [ordered[i] for i in (between if held_out else usual)]
    return [Case(kernel, *sizes) for sizes in chosen for kernel in KERNELS]


# --- candidates -------------------------------------------------------------------------------------------


def candidates(problem: Problem, limit_s: float) -> list[Schedule]:
    """Ten schedules with different loops: those that are found, and others evenly spread behind them."""
    found = [solve(problem, heuristic=h, limit_s=limit_s) for h in ("cpsat", "annealing", "greedy")]
    chosen = list({s.nests: s for s in found}.values())
    best = min(s.cost_ns or 0.0 for s in chosen)
    others = {s.nests: s for s in walk(problem) if (s.cost_ns or 0.0) <= WIDEST * best}
    rest = sorted((s for n, s in others.items() if n not in {c.nests for c in chosen}), key=_cost)
    missing = CANDIDATES - len(chosen)
    if len(rest) > missing:
        # Evenly by the logarithm of the cost: a factor counts as much near the best as far from it.
        marks = [
            _cost(rest[0]) * (_cost(rest[-1]) / _cost(rest[0])) ** (i / (missing - 1)) for i in range(missing)
        ]
        picked: list[Schedule] = []
        for mark in marks:
            left = [s for s in rest if s not in picked]
            picked.append(min(left, key=lambda s: abs(log(_cost(s) / mark))))
        rest = picked
    return sorted([*chosen, *rest[:missing]], key=_cost)


def _cost(schedule: Schedule) -> float:
    return schedule.cost_ns or 0.0


def walk(problem: Problem) -> Iterator[Schedule]:
    """Schedules on the way of random changes, of which bad ones are mostly not followed."""
    model = load_cost_model("analytic")
    rng = random.Random(0)
    (nest,) = problem.nests
    options = open_options(problem, nest, model, {})
    best = current = first_candidate(nest, options, {})
    for _ in range(STEPS):
        option = current.option
        if rng.random() < 0.15:
            option = rng.choice(options)
            assignment = first_assignment(option.space, rng.choice(option.register_blocks))
        else:
            changes = list(moves(option, current.assignment))
            assignment = {**current.assignment, **rng.choice(changes)} if changes else None
        if assignment is None or not option.space.is_feasible(assignment):
            continue
        found: Candidate = decided(option, assignment)
        if found.cost_ns < best.cost_ns:
            best = found
        if found.cost_ns <= current.cost_ns or rng.random() < exp(
            (current.cost_ns - found.cost_ns) / best.cost_ns
        ):
            current = found
        yield assemble(problem, model.name, [Solved(found, 0.0, "HEURISTIC", True)])


# --- measuring --------------------------------------------------------------------------------------------


class Loaded:
    """A compiled program with its arguments in place: a call costs what the program costs."""

    def __init__(self, compiled: Compiled, arrays: Mapping[str, np.ndarray]) -> None:
        for component in compiled.permissions:
            assert ask_permission(component), "the kernel refuses a permission"
        self.function, workspace_bytes = load_function(str(compiled.library), compiled.interface.name)
        call = make_call(compiled.interface, arrays, {}, {}, in_place=True)
        self.arguments = make_arguments(call.fields, [t.array.ctypes.data for t in call.tensors])
        self.pointer = ctypes.addressof(self.arguments)
        needed = workspace_bytes(self.pointer)
        self.workspace = np.zeros(needed + 64, np.uint8)
        self.place = ctypes.c_void_p(-(-self.workspace.ctypes.data // 64) * 64)

    def __call__(self) -> int:
        """The ns of one call."""
        started = time.perf_counter_ns()
        status = self.function(self.pointer, self.place, None)
        took = time.perf_counter_ns() - started
        assert status == 0, f"status {status}"
        return took


def arrays_of(made: Compilation) -> dict[str, np.ndarray]:
    """Random operands, 64 bytes aligned."""
    found: dict[str, np.ndarray] = {}
    for name, drawn in make_arrays(made.kernel, "random").items():
        room = np.zeros(drawn.nbytes + 64, np.uint8)
        start = -room.ctypes.data % 64
        found[name] = room[start : start + drawn.nbytes].view(drawn.dtype).reshape(drawn.shape)
        found[name][...] = drawn
    return found


def measure_case(case: Case, seconds: float, limit_s: float) -> dict[str, object]:
    """The candidates of a case with the ns of their calls, and the problem that they answer."""
    made = compile_kernel(case.request("none"), "pose")
    assert made.machine
    assert made.canonical
    assert made.problem
    machine, canonical = made.machine, made.canonical
    schedules = candidates(made.problem, limit_s)
    emitted = [emit_c(lower(canonical, machine, s, case.sizes), machine) for s in schedules]
    with ThreadPoolExecutor(2) as pool:
        compiled = list(pool.map(partial(compile_library, machine=machine), emitted))
    arrays = arrays_of(made)
    outputs = [o.name for o in made.kernel.operands if o.role != "in"]
    first = {name: arrays[name].copy() for name in outputs}
    programs = [Loaded(c, arrays) for c in compiled]
    _agree(programs, arrays, first)
    times: list[list[int]] = [[] for _ in programs]
    order, started = list(range(len(programs))), time.perf_counter()
    while len(times[0]) < LEAST_ROUNDS or time.perf_counter() - started < seconds:
        random.shuffle(order)
        for n in order:
            for name in outputs:
                arrays[name][...] = first[name]
            times[n].append(programs[n]())
    return {
        "case": case.name,
        "schedules": [print_schedule(s) for s in schedules],
        "ns": [{"min": min(t), "median": statistics.median(t), "count": len(t)} for t in times],
    }


def _agree(
    programs: Sequence[Loaded], arrays: Mapping[str, np.ndarray], first: Mapping[str, np.ndarray]
) -> None:
    """All schedules compute the same: exactly in integers, closely in floats."""
    seen: list[dict[str, np.ndarray]] = []
    for program in programs:
        for name, value in first.items():
            arrays[name][...] = value
        program()
        seen.append({name: arrays[name].astype(np.float64) for name in first})
    for other in seen[1:]:
        for name, value in other.items():
            scale = np.abs(seen[0][name]).max()
            assert np.allclose(value, seen[0][name], rtol=0, atol=0.02 * scale), "schedules disagree"


# --- reporting --------------------------------------------------------------------------------------------


def kendall(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Kendall's tau-b: 1 where both orders agree, -1 where one is the other reversed."""
    pairs = [(i, j) for i in range(len(predicted)) for j in range(i)]
    signs = [(_sign(predicted[i], predicted[j]), _sign(measured[i], measured[j])) for i, j in pairs]
    total = comb(len(predicted), 2)
    free = (total - sum(p == 0 for p, _ in signs)) * (total - sum(m == 0 for _, m in signs))
    return sum(p * m for p, m in signs) / free**0.5 if free else 0.0


def _sign(a: float, b: float) -> int:
    return (a > b) - (a < b)


@dataclass(frozen=True, slots=True)
class Judged:
    """One case priced: `slower` is the time of the model's first choice over that of the best candidate."""

    case: Case
    predicted: tuple[float, ...]
    measured: tuple[float, ...]

    @property
    def tau(self) -> float:
        return kendall(self.predicted, self.measured)

    @property
    def slower(self) -> float:
        return self.measured[self.predicted.index(min(self.predicted))] / min(self.measured)

    @property
    def spread(self) -> float:
        return max(self.measured) / min(self.measured)

    @property
    def ratio(self) -> float:
        """Measured over predicted, in the middle of the candidates."""
        return statistics.median(m / p for m, p in zip(self.measured, self.predicted, strict=True))


def judge(entry: Mapping[str, object], profile: str, problems: Path) -> Judged:
    """A stored case, priced with a profile."""
    kernel, _, sizes = str(entry["case"]).partition(" ")
    m, n, k = (int(x) for x in sizes.split("x"))
    case = Case(kernel, m, n, k)
    problem = _problem(case, profile, problems)
    model = load_cost_model("analytic")
    texts = cast("list[str]", entry["schedules"])
    times = cast("list[dict[str, float]]", entry["ns"])
    priced = [price(parse_schedule(Source("s", text)), problem, model) for text in texts]
    known = (
        (tuple(x for x in p if x is not None), t["min"], len(p)) for p, t in zip(priced, times, strict=True)
    )
    kept = [(sum(p), least) for p, least, parts in known if len(p) == parts]
    return Judged(case, tuple(p for p, _ in kept), tuple(float(t) for _, t in kept))


def _problem(case: Case, profile: str, folder: Path) -> Problem:
    """The problem of a case, from a file where it was built before."""
    request = case.request(profile)
    label = request.profile.digest[:12] if request.profile else "none"
    path = folder / f"{case.name.replace(' ', '-')}-{label}.json"
    if path.exists():
        return read(path.read_text())
    problem = compile_kernel(request, "pose").problem
    assert problem
    folder.mkdir(exist_ok=True)
    path.write_text(write(problem))
    return problem


def report(judged: Sequence[Judged], label: str) -> Iterator[str]:
    """Tau and the loss of the first choice, per case and on average."""
    yield f"figures: {label}"
    yield f"{'case':28} {'tau':>6} {'first/best':>10} {'worst/best':>10} {'measured/predicted':>18}"
    for j in judged:
        yield f"{j.case.name:28} {j.tau:6.2f} {j.slower:10.2f} {j.spread:10.2f} {j.ratio:18.2f}"
    for kernel in (*KERNELS, ""):
        own = [j for j in judged if j.case.kernel == kernel or not kernel]
        if own:
            loss = exp(statistics.fmean(log(j.slower) for j in own))
            tau = statistics.fmean(j.tau for j in own)
            exact = f"within 2 % in {sum(j.slower < 1.02 for j in own)} of {len(own)}"
            yield (
                f"{kernel or 'all':10} mean tau {tau:.3f}; first choice {loss:.3f} x the best of the ten "
                f"(geometric mean), worst {max(j.slower for j in own):.2f}, {exact}"
            )


# --- the command ------------------------------------------------------------------------------------------


def main() -> None:
    """Measures, or reports."""
    options = _options()
    store = Path(options.store)
    lines = store.read_text().splitlines() if store.exists() else []
    done = {entry["case"]: entry for entry in map(json.loads, lines)}
    if options.what == "measure":
        wanted = [
            c
            for c in cases(options.held_out)
            if not options.cases or any(w in c.name for w in options.cases.split(","))
        ]
        for number, case in enumerate(wanted, 1):
            if case.name in done:
                continue
            started = time.perf_counter()
            entry = measure_case(case, options.seconds, options.limit)
            with store.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            took = time.perf_counter() - started
            print(f"{number} of {len(wanted)}: {case.name}, {took:.1f} s", file=sys.stderr, flush=True)
        return
    order = {case.name: n for n, case in enumerate(cases(options.held_out))}
    entries = sorted((e for e in done.values() if e["case"] in order), key=lambda e: order[e["case"]])
    what = f"{len(entries)} cases of {CANDIDATES} schedules"
    head = [f"{this_cpu().describe()}, machine {detect_machine()}, one thread, {what}"]
    for profile in options.profile.split(","):
        judged = [judge(e, profile, store.with_suffix(".problems")) for e in entries]
        head += ["", *report(judged, "the description's" if profile == "none" else f"profile {profile}")]
    text = "\n".join(head) + "\n"
    if options.o:
        Path(options.o).write_text(text)
    print(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("measure", "report"))
    parser.add_argument("--store", required=True, help="a file of one line per case, appended to")
    parser.add_argument("--cases", default="", help="only those whose name has one of these words")
    parser.add_argument("--held-out", action="store_true", help="other cases, which nothing was chosen by")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of calls per case")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds for the solver per case")
    parser.add_argument("--profile", default="none,default", help="words of --profile, with commas")
    parser.add_argument("-o", help="write the report here as well")
    return parser.parse_args()


if __name__ == "__main__":
    main()
