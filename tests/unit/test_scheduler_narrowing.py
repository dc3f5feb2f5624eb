"""Mappings are left out of problems only where floors prove that they cannot win."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from isamap.driver.api import source_of
from isamap.driver.formulation import extent_of
from isamap.driver.inputs import with_profile
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.formulate.build import Outline, build_problem, outlines, perform_nothing
from isamap.formulate.frame import Frame
from isamap.formulate.matches import find_matches
from isamap.ir import Kernel, bind
from isamap.machine import at_one_length, load_machine
from isamap.match import statement_mappings
from isamap.plan.problem import NestOption, Problem
from isamap.scheduler import FIRST_LOOKS, AnalyticModel, narrow_problem, schedule
from isamap.scheduler.search.candidates import Candidate, candidate_of, open_options
from isamap.scheduler.search.greedy import SAME, descend, greedy_candidate, moves
from isamap.scheduler.search.narrowing import refine_outline
from isamap.source import NoMapping, Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit, statements
from isamap.tune.store import family_profile

MODEL = AnalyticModel()
CONV = {"N": 1, "H": 9, "W": 9, "C": 5, "K": 20, "R": 3, "S": 3, "stride": 1, "pad": 1}
# Kernels with one mapping that wins, with many that may, with padding, and with statements to take along.
ASKED = [
    ("gemm_f32", "x86-avx2", {"M": 64, "N": 30, "K": 200}, 2),
    ("gemm_bf16", "x86-amx", {"M": 96, "N": 64, "K": 128}, 1),
    ("gemm_bias_relu_f32", "x86-avx2", {"M": 40, "N": 48, "K": 56}, 1),
    ("conv2d_nhwc", "x86-avx2", CONV, 1),
    ("conv2d_nchw", "generic-c", CONV, 1),
    ("gemm_s8s8", "systolic-16", {"M": 64, "N": 48, "K": 80}, 1),
]

WINDOW = """kernel window(N, H, W, C, K) {
  in X: bf16[N, H + 2, W + 2, C]; in F: bf16[3, 3, C, K]; inout Y: f32[N, H, W, K];
  for n in N, h in H, w in W, k in K, r in 3, s in 3, c in C {
    Y[n, h, w, k] += f32(X[n, h + r, w + s, c]) * f32(F[r, s, c, k]);
  }
}
"""


def canonical(kernel: str, sizes: dict[str, int]) -> Kernel:
    return make_guards_explicit(bind(parse_kernel(source_of(kernel)), sizes))


def narrowed(kernel: str, hw: str, sizes: dict[str, int], threads: int, looks: int | None = None) -> Problem:
    return narrow_problem(canonical(kernel, sizes), load_machine(hw), sizes, threads, MODEL, looks)


def whole(kernel: str, hw: str, sizes: dict[str, int], threads: int) -> Problem:
    return build_problem(canonical(kernel, sizes), load_machine(hw), sizes, threads)


@pytest.mark.parametrize(
    ("kernel", "hw", "sizes", "threads"),
    [*ASKED, ("gemm_bf16_f32", "amd-rdna3", {"M": 64, "N": 64, "K": 32}, 1)],
)
def test_greedy_finds_the_same_schedule_among_the_mappings_that_are_left(
    kernel: str, hw: str, sizes: dict[str, int], threads: int
) -> None:
    left, all_ = (f(kernel, hw, sizes, threads) for f in (narrowed, whole))

    fewer = [(len(a.options), len(b.options)) for a, b in zip(left.nests, all_.nests, strict=True)]
    assert all(a <= b for a, b in fewer)
    assert all(set(a.options) <= set(b.options) for a, b in zip(left.nests, all_.nests, strict=True))
    found, expected = (schedule(problem, heuristic="greedy") for problem in (left, all_))
    assert found.nests == expected.nests
    assert found.cost_ns == expected.cost_ns
    assert found.lower_bound_ns == expected.lower_bound_ns


@pytest.mark.parametrize(("kernel", "hw", "sizes", "threads"), ASKED)
def test_schedules_found_while_pricing_are_as_good_as_those_found_again(
    kernel: str, hw: str, sizes: dict[str, int], threads: int
) -> None:
    known = narrowed(kernel, hw, sizes, threads)
    unknown = replace(known, nests=tuple(replace(nest, starts=()) for nest in known.nests))

    assert all(nest.starts for nest in known.nests)
    found, again = (schedule(problem, heuristic="greedy") for problem in (known, unknown))
    assert found.cost_ns is not None
    assert again.cost_ns is not None
    assert found.cost_ns <= again.cost_ns * (1 + SAME)
    assert found.lower_bound_ns == again.lower_bound_ns


MOVED = """kernel moved(N, C, P) where 2 <= C {
  in X: f32[N, C]; in W: f32[N, P, C]; temp T: f32[N, P, C]; temp S: f32[P, N];
  out Y: f32[C, N]; out Z: f32[2*N, P, C] outside zero; out V: f32[N, P, C];
  for n in N, c in C { Y[c, n] = X[n, c]; }
  for n in N, p in P, c in C { Z[2*n + 1, p, c] = 2 * W[n, p, c]; }
  for n in N, p in P { S[p, n] = W[n, p, 1]; }
  for n in N, p in P, c in C { T[n, p, c] = 0; }
  for n in N, p in P, c in C { V[n, p, c] = max(W[n, p, c] + X[n, c], S[p, n]) + T[n, p, C - 1 - c]; }
}
"""


def let_all_write(*_: object) -> bool:
    return True


@pytest.mark.parametrize("hw", ["x86-avx512", "power10-mma", "aarch64-sve2"])
@pytest.mark.parametrize("sizes", [{"N": 32, "C": 48, "P": 1}, {"N": 7, "C": 16, "P": 4}])
def test_stores_left_out_before_their_tiles_are_built_perform_nothing(
    hw: str, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = make_guards_explicit(bind(parse_kernel(Source("moved", MOVED)), sizes))
    frame = Frame.of(kernel, at_one_length(load_machine(hw)), sizes, 1)
    left_out = 0
    for number, statement in enumerate(statements(kernel)):
        left = outlines(statement, number, frame)
        with monkeypatch.context() as patched:
            patched.setattr("isamap.formulate.build.may_write", let_all_write)
            whole_ = outlines(statement, number, frame)
        for one, other in zip(left, whole_, strict=True):
            assert one.further is not None
            assert other.further is not None
            assert (one.further() is None) == (other.further() is None), f"{number}: {one.option.mapping}"
            left_out += one.further is perform_nothing
    assert left_out


def test_instructions_that_write_registers_add_nothing_to_the_problem_of_an_assignment() -> None:
    machine, sizes = load_machine("x86-avx2"), {"N": 7, "C": 16, "P": 4}
    kernel = make_guards_explicit(bind(parse_kernel(Source("moved", MOVED)), sizes))
    found = find_matches(kernel, machine)
    every = tuple(
        replace(one, mappings=tuple(statement_mappings(one.statement, number, machine)))
        for number, one in enumerate(found)
    )

    assert sum(len(one.mappings) for one in found) < sum(len(one.mappings) for one in every)
    left, all_ = (build_problem(kernel, machine, sizes, matches=known) for known in (found, every))
    assert left == all_


@pytest.mark.parametrize(("kernel", "hw", "sizes", "threads"), ASKED[:3])
def test_inputs_passed_packed_leave_the_same_schedule_among_fewer_mappings(
    kernel: str, hw: str, sizes: dict[str, int], threads: int
) -> None:
    asked = canonical(kernel, sizes), load_machine(hw), sizes, threads
    left = narrow_problem(*asked, MODEL, packed=("B",))
    all_ = build_problem(*asked, packed=("B",))

    assert sum(len(n.options) for n in left.nests) < sum(len(n.options) for n in all_.nests)
    assert all(set(a.options) <= set(b.options) for a, b in zip(left.nests, all_.nests, strict=True))
    assert all(
        o.staging.is_packed for n in left.nests for p in n.options for o in p.operands if o.tensor == "B"
    )
    found, expected = (schedule(problem, heuristic="greedy") for problem in (left, all_))
    assert found.nests == expected.nests
    assert (found.cost_ns, found.lower_bound_ns) == (expected.cost_ns, expected.lower_bound_ns)


def test_what_cannot_be_taken_packed_is_refused_as_of_all_mappings() -> None:
    kernel, hw, sizes, threads = ASKED[2]
    asked = canonical(kernel, sizes), load_machine(hw), sizes, threads
    with pytest.raises(NoMapping) as found:
        narrow_problem(*asked, MODEL, packed=("bias",))
    with pytest.raises(NoMapping) as expected:
        build_problem(*asked, packed=("bias",))
    assert found.value.diagnostics == expected.value.diagnostics
    assert found.value.diagnostics[0].code == "packed-in-place"


def test_what_was_found_while_pricing_is_left_aside_where_decisions_are_fixed() -> None:
    kernel, hw, sizes, threads = ASKED[0]
    known = narrowed(kernel, hw, sizes, threads)
    (nest,) = known.nests

    assert any(option.start for option in open_options(known, nest, MODEL, {}))
    assert not any(option.start for option in open_options(known, nest, MODEL, {"nest0.block.k": 100}))


def test_partitions_of_a_mapping_with_a_schedule_are_not_searched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, hw, sizes, threads = ASKED[0]
    known = narrowed(kernel, hw, sizes, threads)
    (nest,) = known.nests
    options = open_options(known, nest, MODEL, {})
    settled = {option.number for option in options if option.start is not None}
    own = [option for option in options if option.number in settled]
    starts = [candidate_of(option, option.start) for option in own if option.start is not None]

    def again(*_: object) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr("isamap.scheduler.search.greedy.descend", again)
    found = greedy_candidate(own)

    assert len(own) > len(starts) > 0
    assert found is not None
    assert found.cost_ns == min(start.cost_ns for start in starts)


def test_a_limit_only_leaves_out_schedules_that_cost_more(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, hw, sizes, threads = ASKED[0]
    problem = whole(kernel, hw, sizes, threads)
    options = open_options(problem, problem.nests[0], MODEL, {})
    best = greedy_candidate(options)
    assert best is not None
    limited = greedy_candidate(options, limit_ns=best.cost_ns)
    assert limited is not None
    assert limited.cost_ns == best.cost_ns

    starts = list[object]()

    def watched(start: Candidate, *more: Any) -> Candidate:
        starts.append(start)
        return descend(start, *more)

    monkeypatch.setattr("isamap.scheduler.search.greedy.descend", watched)
    greedy_candidate(options)
    of_all = len(starts)
    assert greedy_candidate(options, limit_ns=0.0) is not None
    assert len(starts) - of_all < of_all


def test_changes_that_do_not_pay_are_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, hw, sizes, threads = ASKED[0]
    problem = whole(kernel, hw, sizes, threads)
    option = open_options(problem, problem.nests[0], MODEL, {})[0]
    best = greedy_candidate([option])
    assert best is not None
    tried: set[frozenset[tuple[str, int]]] = set()
    found = descend(best, moves, tried=tried)

    def again(*_: object) -> list[float]:
        raise AssertionError("priced again")

    monkeypatch.setattr("isamap.scheduler.search.greedy.costs_of", again)

    assert tried
    assert descend(found, moves, tried=tried) is found


@pytest.mark.parametrize(("kernel", "hw", "sizes", "threads"), ASKED[:2])
def test_the_proven_optimum_is_that_of_all_mappings(
    kernel: str, hw: str, sizes: dict[str, int], threads: int
) -> None:
    left, all_ = (f(kernel, hw, sizes, threads) for f in (narrowed, whole))

    found, expected = schedule(left, limit_s=60), schedule(all_, limit_s=60)

    assert (found.status, expected.status) == ("OPTIMAL", "OPTIMAL")
    assert found.cost_ns == pytest.approx(expected.cost_ns, rel=1e-3)


def test_mappings_that_splitting_rules_out_cannot_win(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"N": 4, "H": 3, "W": 3, "C": 512, "K": 32}
    kernel, machine = bind(parse_kernel(Source("window.ir", WINDOW)), sizes), load_machine("x86-amx")

    fewer = narrow_problem(kernel, machine, sizes, 1, MODEL)
    monkeypatch.setattr("isamap.scheduler.search.narrowing.MOST_BOXES", 0)
    more = narrow_problem(kernel, machine, sizes, 1, MODEL)

    (few,), (many,) = fewer.nests, more.nests
    assert set(few.options) < set(many.options)
    found, expected = (schedule(problem, limit_s=60) for problem in (fewer, more))
    assert (found.status, expected.status) == ("OPTIMAL", "OPTIMAL")
    assert found.cost_ns == expected.cost_ns
    assert found.cost_ns is not None
    assert few.others_ns >= found.cost_ns


def test_a_first_schedule_is_made_of_mappings_of_which_all_copies_are_priced() -> None:
    sizes = {"N": 1, "H": 7, "W": 7, "C": 128, "K": 64}
    kernel, machine = bind(parse_kernel(Source("window.ir", WINDOW)), sizes), load_machine("x86-amx")
    (statement,), frame = statements(kernel), Frame.of(kernel, machine, sizes, 1)
    split = next(o for o in outlines(statement, 0, frame) if o.joined)
    assert split.further is not None

    loaded = refine_outline(split, at_once=True)
    assert loaded is not None
    one, all_ = (refine_outline(loaded, at_once=at_once) for at_once in (False, True))

    assert one is not None
    assert one.is_priced_in_part
    assert all_ is not None
    assert all_.further is None


@pytest.mark.parametrize(("kernel", "hw", "sizes", "threads"), ASKED)
def test_what_greedy_makes_of_an_option_never_undercuts_its_floor(
    kernel: str, hw: str, sizes: dict[str, int], threads: int
) -> None:
    problem = whole(kernel, hw, sizes, threads)
    looked_at = 0
    for nest in problem.nests:
        least = {n: MODEL.least_ns(problem, o) / threads for n, o in enumerate(nest.options)}
        for option in open_options(problem, nest, MODEL, {}):
            found = greedy_candidate([option])
            assert found is not None
            looked_at += 1
            assert found.cost_ns >= least[option.number], option.space.option.mapping
    assert looked_at >= len(problem.nests)


@pytest.mark.parametrize(
    ("kernel", "hw", "sizes"),
    [
        ("gemm_bf16", "x86-amx", {"M": 96, "N": 64, "K": 128}),
        ("conv2d_nhwc", "x86-avx2", CONV),
    ],
)
def test_floors_only_rise_while_more_is_found_out(kernel: str, hw: str, sizes: dict[str, int]) -> None:
    frame = Frame.of(canonical(kernel, sizes), load_machine(hw), sizes, 1)
    number = len(statements(frame.kernel)) - 1
    problem = frame.problem(())
    built: list[NestOption] = []
    for outline in outlines(statements(frame.kernel)[number], number, frame):
        known: Outline | None = outline
        floors: list[float] = []
        while known is not None:
            floors.append(MODEL.least_ns(problem, known.option))
            if known.further is None:
                built.append(known.option)
                break
            known = known.further()
        assert floors == sorted(floors)

    assert tuple(built) == whole(kernel, hw, sizes, 1).nests[number].options


def test_what_was_not_looked_at_stays_in_the_bound() -> None:
    kernel, hw, sizes, threads = ASKED[1]
    hasty = narrowed(kernel, hw, sizes, threads, looks=0)

    found = schedule(hasty, limit_s=60)

    (nest,) = hasty.nests
    assert nest.others_ns < inf
    assert found.lower_bound_ns is not None
    assert found.lower_bound_ns <= nest.others_ns


def test_a_bound_of_other_mappings_below_the_cost_is_no_proof() -> None:
    kernel, hw, sizes, threads = ASKED[0]
    problem = whole(kernel, hw, sizes, threads)
    best = schedule(problem, limit_s=60)
    assert best.cost_ns is not None
    (nest,) = problem.nests

    doubted = schedule(replace(problem, nests=(replace(nest, others_ns=best.cost_ns / 2),)), limit_s=60)

    assert (best.status, doubted.status) == ("OPTIMAL", "FEASIBLE")
    assert doubted.lower_bound_ns == best.cost_ns / 2
    assert doubted.nests == best.nests


def test_all_mappings_are_there_where_a_person_decides_or_wants_more_than_one() -> None:
    plain = Request(source_of("gemm_f32"), "x86-avx512", {"M": 24, "N": 48, "K": 40})

    assert extent_of(plain) == "narrow"
    assert extent_of(replace(plain, heuristic="greedy")) == "first"
    assert extent_of(replace(plain, packed=("B",))) == "narrow"
    assert extent_of(replace(plain, fixed={"nest0.mapping": 3})) == "whole"
    assert extent_of(replace(plain, schedule=source_of("gemm_f32"))) == "whole"
    assert extent_of(replace(plain, best=3)) == "whole"
    assert extent_of(replace(plain, evaluate="simulated")) == "whole"


def test_the_last_stage_named_has_all_mappings() -> None:
    request = Request(
        source_of("gemm_f32"), "x86-avx512", {"M": 24, "N": 48, "K": 40}, heuristic="greedy", cache=False
    )
    matched, made = compile_kernel(request, "formulate").problem, compile_kernel(request, "schedule").problem
    assert matched is not None
    assert made is not None

    assert len(matched.nests[0].options) > len(made.nests[0].options)
    assert matched.nests[0].others_ns == inf


def test_when_time_is_over_vectors_are_looked_at_and_not_what_is_described_first() -> None:
    """A GRU of 2816 units whose products had taken all the time computed its gates one number at a time."""
    problem = whole("softmax_f32", "x86-avx512", {"M": 8, "N": 64}, 1)
    for nest in problem.nests:
        (only,) = open_options(problem, nest, MODEL, {}, stop=0.0)
        best = open_options(problem, nest, MODEL, {})[0]
        assert only.floor_ns <= 2 * best.floor_ns


DEPTHWISE = """kernel depthwise(H, W, C) {
  in X: u8[H + 2, W + 2, C]; in F: i8[3, 3, C]; inout Y: i32[H, W, C];
  for h in H, w in W, c in C, r in 3, s in 3 { Y[h, w, c] += i32(X[h + r, w + s, c]) * i32(F[r, s, c]); }
}
"""


def test_a_first_schedule_considers_an_instruction_that_computes_less_at_a_time() -> None:
    sizes = {"H": 14, "W": 14, "C": 64}
    kernel = make_guards_explicit(bind(parse_kernel(Source("depthwise", DEPTHWISE)), sizes))
    machine = load_machine("x86-avx512-vnni")
    first = narrow_problem(kernel, machine, sizes, 1, MODEL, FIRST_LOOKS)
    found, best = (
        schedule(problem, heuristic="greedy").cost_ns
        for problem in (first, narrow_problem(kernel, machine, sizes, 1, MODEL))
    )
    assert found is not None
    assert best is not None
    assert found <= best * 1.05


TRANSPOSED = """kernel of_all_steps(T, N, C, H) {
  in X: f32[T, N, C]; in W: f32[4, H, C]; out U: f32[T, 4, N, H];
  for t in T, a in 4, n in N, j in H { U[t, a, n, j] = 0; }
  for t in T, a in 4, n in N, j in H, k in C { U[t, a, n, j] += X[t, n, k] * W[a, j, k]; }
}
"""


def test_a_first_schedule_copies_a_factor_where_that_costs_less_than_vectors_along_the_sum() -> None:
    """Mappings that join axes have the least bound: all looks went to those, and an LSTM took 1.3 times as long."""
    sizes = {"T": 50, "N": 16, "C": 64, "H": 256}
    kernel = make_guards_explicit(bind(parse_kernel(Source("transposed", TRANSPOSED)), sizes))
    machine = with_profile(load_machine("x86-avx512-bf16"), family_profile("AuthenticAMD-25-17"))
    first = narrow_problem(kernel, machine, sizes, 1, MODEL, FIRST_LOOKS)
    found, best = (
        schedule(problem, heuristic="greedy").cost_ns
        for problem in (first, narrow_problem(kernel, machine, sizes, 1, MODEL))
    )
    assert found is not None
    assert best is not None
    assert found <= best * 1.05
