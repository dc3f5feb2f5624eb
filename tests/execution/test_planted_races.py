"""Faults planted in programs for lanes, of many kinds at every place: each is found, and what is right is accepted.

A changed program is judged in the order of `docs/gpu.md`: by the verifier of barriers, by the status with which its
model ends, and by its results, or the memory that it touches, when it runs. `FOUND` says how many faults of a kind a
program has, and what finds them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.driver.verifying import ComparedResult, case_of
from isamap.emit.c import EmittedC
from isamap.emit.c_interface import STATUSES
from isamap.emit.lanes import emit_lanes
from isamap.ir import Index, Mod, bind
from isamap.lower.barrier_check import check_barriers
from isamap.lower.program import Barrier, Condition, For, If, Issue, LoweredProgram, MemoryRef, Node, Parallel
from isamap.lower.walk import arrays_in, children, walk, with_children
from isamap.machine import Machine, load_machine
from isamap.run.fills import make_arrays
from isamap.run.runner import RunProblem, run_program
from isamap.run.toolchain import compile_library
from isamap.source import Source
from isamap.syntax import parse_kernel
from tests.device_kernels import product, shipped, without_vector_products

SIMT = "opencl-simt"
STAGED = {
    "nest0.parallel.m": 2,
    "nest0.parallel.n": 2,
    "nest0.stage.a": 1,
    "nest0.stage.b": 1,
    "nest0.ahead.a": 0,
    "nest0.ahead.b": 0,  # two barriers to take away
}


@dataclass(frozen=True)
class Subject:
    """A kernel at some sizes on a machine, with the decisions that are given."""

    kernel: Source
    sizes: Mapping[str, int]
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    machine: str = SIMT
    schedule: str = ""


# Copies two iterations ahead: a slot is read while two others are filled.
PIPELINE = """isamap schedule 1
kernel product
machine nvidia-sm80
sizes K = 160, M = 32, N = 32
status MANUAL
nest 0 {
  map mma_f16 { i: m, j: n, k: k } (a = A[m, k], b = B[k, n]);
  choose warp.m = 2;
  par n by 16 { par m by 32 { hold; for k by 32 {
    stage b ahead 2 in shared at 0; stage a ahead 2 in shared at 8192;
    for k by 16 { unroll n by 8 { issue; } }
  } } }
}
"""
FRAGMENTS = """isamap schedule 1
kernel product
machine nvidia-sm80
sizes K = 20, M = 37, N = 29
status MANUAL
nest 0 {
  map mma_f16 { i: m, j: n, k: k } (a = A[m, k], b = B[k, n]);
  choose warp.m = 2, warp.n = 2;
  par m by 32 { par n by 16 { stage a in shared at 0; stage b in shared at 3072; hold; for k by 32 {
    unroll k by 16 { issue; }
  } } }
}
"""
WINDOWS = {"N": 1, "H": 5, "W": 6, "C": 4, "K": 17, "R": 3, "S": 3, "stride": 1, "pad": 1}
SUBJECTS = {
    "product": Subject(
        shipped("gemm_f32"), {"M": 64, "N": 64, "K": 16}, {**STAGED, "nest0.block.k": 8, "nest0.mapping": 3}
    ),
    "tails": Subject(shipped("gemm_f32"), {"M": 37, "N": 53, "K": 5}, STAGED),
    "bytes": Subject(shipped("gemm_s8s8"), {"M": 33, "N": 20, "K": 9}),
    "softmax": Subject(shipped("softmax_f32"), {"M": 5, "N": 37}),
    "windows": Subject(shipped("conv2d_nhwc"), WINDOWS),
    "fragments": Subject(
        product("f16", "f32"), {"M": 37, "N": 29, "K": 20}, machine="nvidia-sm80", schedule=FRAGMENTS
    ),
    "pipeline": Subject(
        product("f16", "f32", is_aligned=True), {"M": 32, "N": 32, "K": 160}, machine="nvidia-sm80",
        schedule=PIPELINE,
    ),
}  # fmt: skip

Changed = LoweredProgram | EmittedC
Planted = Iterator[tuple[str, Changed]]


@cache
def described(machine: str) -> str:
    """Return a machine whose matrix instructions, if it has any, are used at the small sizes of these programs."""
    return machine if machine == SIMT else without_vector_products(machine, Path(mkdtemp()))


def machine_name(subject: str) -> str:
    one = SUBJECTS[subject]
    return one.machine if one.schedule else described(one.machine)


@cache
def machine_of(subject: str) -> Machine:
    return load_machine(machine_name(subject))


@cache
def program_of(subject: str) -> LoweredProgram:
    one = SUBJECTS[subject]
    asked = Request(one.kernel, machine_name(subject), dict(one.sizes), model=True)
    if one.schedule:
        asked = replace(asked, schedule=Source("given", one.schedule))
    else:
        asked = replace(asked, heuristic="greedy", fixed=one.fixed)
    program = compile_kernel(asked).program
    assert program is not None
    return program


def emitted(subject: str) -> EmittedC:
    return emit_lanes(program_of(subject), machine_of(subject), model=True)


def finder(subject: str, changed: Changed) -> str:
    """Return what finds that a program is wrong: the verifier, the model, or its result; or "nothing"."""
    machine, one = machine_of(subject), SUBJECTS[subject]
    if isinstance(changed, LoweredProgram):
        if check_barriers(changed, machine):
            return "verifier"
        changed = emit_lanes(changed, machine, model=True)
    kernel = bind(parse_kernel(one.kernel), dict(one.sizes))
    arrays = make_arrays(kernel, "integers")
    library = compile_library(changed, machine, model=True)
    try:
        result = run_program(library, arrays, {}, guard=True)
    except RunProblem:
        return "result"
    if result.status:
        assert STATUSES[result.status][0] in ("RACE", "DIVERGED")
        return "model"
    judged = ComparedResult(kernel, arrays, result.arrays, one.sizes, "integers", "model", [])
    return "nothing" if case_of(judged, {}, guard=True).ok else "result"


# --- changes of the nodes of a program


def places(nodes: tuple[Node, ...], path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Node]]:
    """Yield every node with the numbers that lead to it."""
    for number, node in enumerate(nodes):
        yield (*path, number), node
        yield from places(children(node), (*path, number))


def siblings(nodes: tuple[Node, ...], path: tuple[int, ...]) -> tuple[Node, ...]:
    """Return the nodes beside the one that a path leads to, with it."""
    return siblings(children(nodes[path[0]]), path[1:]) if len(path) > 1 else nodes


def instead(nodes: tuple[Node, ...], path: tuple[int, ...], *others: Node) -> tuple[Node, ...]:
    """Return nodes with others in place of the one that a path leads to."""
    first, rest = path[0], path[1:]
    made = (with_children(nodes[first], instead(children(nodes[first]), rest, *others)),) if rest else others
    return (*nodes[:first], *made, *nodes[first + 1 :])


def changed_at(program: LoweredProgram, path: tuple[int, ...], *others: Node) -> LoweredProgram:
    return replace(program, body=instead(program.body, path, *others))


def at(path: tuple[int, ...]) -> str:
    return ".".join(map(str, path))


def barriers_removed(subject: str) -> Planted:
    program = program_of(subject)
    for path, node in places(program.body):
        if isinstance(node, Barrier):
            yield at(path), changed_at(program, path)


def barriers_moved(subject: str) -> Planted:
    """Move barriers in front of what is written before them, and behind what is read after them."""
    program = program_of(subject)
    for path, node in places(program.body):
        if not isinstance(node, Barrier):
            continue
        beside, number = siblings(program.body, path), path[-1]
        before, behind, stem = beside[:number], beside[number + 1 :], path[:-1]
        if conflict(before, behind, machine_of(subject)):
            yield f"{at(path)} to the front", with_inside(program, stem, (node, *before, *behind))
        if (
            number
            and not any(isinstance(one, Barrier) for one in walk(behind))
            and (arrays_in(behind) & {buffer.name for buffer in program.buffers})
        ):  # in a loop, a barrier at the front is as good as one at the end
            yield f"{at(path)} to the end", with_inside(program, stem, (*before, *behind, node))


def conflict(before: tuple[Node, ...], behind: tuple[Node, ...], machine: Machine) -> bool:
    """Return whether one side writes an array that the other one touches."""
    written = [
        {
            ref.buffer
            for node in walk(nodes)
            if isinstance(node, Issue)
            for name, ref in node.operands
            if isinstance(ref, MemoryRef)
            and machine.instructions[node.instruction].instruction.operand(name).role != "in"
        }
        for nodes in (before, behind)
    ]
    return bool(written[0] & arrays_in(behind) or written[1] & arrays_in(before))


def with_inside(program: LoweredProgram, path: tuple[int, ...], nodes: tuple[Node, ...]) -> LoweredProgram:
    """Return the program with other nodes inside the one that a path leads to."""
    if not path:
        return replace(program, body=nodes)
    outer = siblings(program.body, path)[path[-1]]
    return changed_at(program, path, with_children(outer, nodes))


def barriers_under_conditions(subject: str) -> Planted:
    """Put barriers under a condition that only some iterations of a loop around them meet."""
    program = program_of(subject)
    for path, node in places(program.body):
        loops = [one for one in around(program.body, path) if isinstance(one, For)]
        if isinstance(node, Barrier) and loops:
            first: Condition = (Index.of(loops[-1].variable), "<", Index.of(1))
            yield at(path), changed_at(program, path, If((first,), (node,)))


def around(nodes: tuple[Node, ...], path: tuple[int, ...]) -> list[Node]:
    """Return the nodes that hold the one that a path leads to, the outermost first."""
    return [nodes[path[0]], *around(children(nodes[path[0]]), path[1:])] if len(path) > 1 else []


def conditions_dropped(subject: str) -> Planted:
    program = program_of(subject)
    for path, node in places(program.body):
        if isinstance(node, If):
            yield at(path), changed_at(program, path, *node.body)


def blocks_meet(subject: str) -> Planted:
    """Let operands of other blocks be read or written: a counter of blocks counts down."""
    program = program_of(subject)
    tensors = {tensor.name: tensor.role for tensor in program.tensors}
    for path, node in places(program.body):
        counters = [
            c for one in around(program.body, path) if isinstance(one, Parallel) for c in one.counters
        ]
        if not isinstance(node, Issue):
            continue
        for number, (operand, ref) in enumerate(node.operands):
            if not isinstance(ref, MemoryRef) or tensors.get(ref.buffer, "in") == "in":
                continue
            for counter, trips in counters:
                other = replace(ref, offset=ref.offset.substitute({counter: trips - 1 - Index.of(counter)}))
                operands = (*node.operands[:number], (operand, other), *node.operands[number + 1 :])
                moved = changed_at(program, path, replace(node, operands=operands))
                yield f"{at(path)} {operand}: {counter}", moved


def loops_at_other_levels(subject: str) -> Planted:
    """Deal iterations that depend on each other to blocks, or let each block perform all iterations."""
    program = program_of(subject)
    for path, node in places(program.body):
        if not isinstance(node, Parallel):
            continue
        for number, (counter, trips) in enumerate(node.counters):
            renamed = (*node.counters[:number], (f"{counter}_all", trips), *node.counters[number + 1 :])
            every = replace(node, counters=renamed, body=(For(counter, trips, node.body),))
            yield f"all of {counter} in each block", changed_at(program, path, every)
        for inner, loop in enumerate(node.body):
            if isinstance(loop, For):
                dealt = replace(
                    node,
                    counters=(*node.counters, (loop.variable, loop.trips)),
                    body=(*node.body[:inner], *loop.body, *node.body[inner + 1 :]),
                )
                yield f"{loop.variable} dealt to blocks", changed_at(program, path, dealt)


def buffers_exchanged(subject: str) -> Planted:
    """Let one buffer of a block lie where another is: its issues use the other."""
    program = program_of(subject)
    shared = [buffer for buffer in program.buffers if buffer.memory]
    for buffer, other in pairwise(shared):
        both = {buffer.name, other.name}
        if any(both <= arrays_in((node,)) for node in walk(program.body) if not branches(node)):
            yield (
                f"{other.name} over {buffer.name}",
                replace(program, body=tuple(renamed(node, other.name, buffer.name) for node in program.body)),
            )


def branches(node: Node) -> bool:
    return any(isinstance(inner, If) for inner in walk((node,)))


def renamed(node: Node, old: str, new: str) -> Node:
    if isinstance(node, Issue):
        operands = tuple(
            (name, replace(ref, buffer=new) if isinstance(ref, MemoryRef) and ref.buffer == old else ref)
            for name, ref in node.operands
        )
        return replace(node, operands=operands)
    return with_children(node, tuple(renamed(inner, old, new) for inner in children(node)))


def waits_too_late(subject: str) -> Planted:
    """Let barriers leave a group of copies more on its way."""
    program = program_of(subject)
    for path, node in places(program.body):
        if isinstance(node, Barrier) and node.in_flight:
            yield at(path), changed_at(program, path, replace(node, in_flight=node.in_flight + 1))
    yield from texts(subject, r"BARRIER_WITHIN\(1\)", "BARRIER_WITHIN(2)")


def wrong_slots(subject: str) -> Planted:
    """Let an issue use the slot of another iteration."""
    program = program_of(subject)
    for path, node in places(program.body):
        for number, (operand, ref) in enumerate(node.operands if isinstance(node, Issue) else ()):
            if not isinstance(node, Issue) or not isinstance(ref, MemoryRef):
                continue
            slots = [(m, c) for m, c in ref.offset.terms if m and isinstance(m[0], Mod)]
            for (slot,), factor in slots:
                assert isinstance(slot, Mod)
                later = (slot.value + 1).mod(slot.divisor) - Index.of(slot)
                other = replace(ref, offset=ref.offset + later * factor)
                operands = (*node.operands[:number], (operand, other), *node.operands[number + 1 :])
                yield f"{at(path)} {operand}", changed_at(program, path, replace(node, operands=operands))
    yield from texts(subject, r"\((k\d+) % 3\)", r"((\1 + 1) % 3)", r"((\1 + 2) % 3)")
    yield from texts(subject, r"\((k\d+) \+ 2\) % 3", r"(\1 + 1) % 3", r"\1 % 3")


# --- changes of the text of kernels


def texts(subject: str, pattern: str, *others: str, within: str = "") -> Planted:
    """Replace each place of a pattern in the kernels, one at a time; `within` has to be in its function."""
    made = emitted(subject)
    start = made.source.index("static int isamap_close")
    for match in re.finditer(pattern, made.source[start:]):
        first, last = start + match.start(), start + match.end()
        function = made.source[made.source.rindex("\n}", 0, first) : made.source.index("\n}", last)]
        if within not in function:
            continue
        head = function.split("(", 1)[0].split()[-1]
        for number, other in enumerate(others):
            text = match.expand(other)
            label = f"{head}+{first - start}.{number}: {match.group()} -> {text}"
            yield label, replace(made, source=made.source[:first] + text + made.source[last:])


def lanes_do_not_wait(subject: str) -> Planted:
    yield from texts(subject, r"BARRIER;", "if (lane != 3) BARRIER;")


def lanes_wait_elsewhere(subject: str) -> Planted:
    yield from texts(subject, r"BARRIER;", "if (lane < 8) { BARRIER; }\nelse { BARRIER; }")


def lanes_meet(subject: str) -> Planted:
    """Let two lanes write one element."""
    yield from texts(subject, r"lane / (\d+)", r"lane / (2 * \1)", within="STORE")
    yield from texts(subject, r"lane % (\d+)", r"lane % (\1 / 2)", within="STORE")


def lanes_off(subject: str) -> Planted:
    """Let lanes count from one element further or earlier, or from behind what all lanes copy."""
    others = (r"at = lane + 1;", r"at = lane - 1;", r"at = lane + 256;", "at = 0;")
    yield from texts(subject, r"at = lane;", *others, within="LOAD")
    yield from texts(
        subject, r"const int64_t i = lane / 16;(?=[^}]*\bi\b)", "const int64_t i = lane / 16 + 1;"
    )
    yield from texts(
        subject, r"const int64_t j = lane % 16;(?=[^}]*\bj\b)", "const int64_t j = (lane + 1) % 16;"
    )


def lanes_missing(subject: str) -> Planted:
    """Let too few lanes copy."""
    others = ("at = lane < 8 ? lane : 1 << 20;", "at = lane != 5 ? lane : 1 << 20;")
    yield from texts(subject, r"at = lane;", *others, within="STORE")


def predicates_dropped(subject: str) -> Planted:
    yield from texts(subject, r"if \((\w < \w) && (\w < \w)\) \{", r"if (\1) {", r"if (\2) {", within="STORE")
    yield from texts(subject, r"if \(\w < \w\) \{", "{", within="STORE")


def arrays_overlap(subject: str) -> Planted:
    """Place an array of a block over the one before it, and half over it."""
    pattern = r"(OWN_OF_BLOCK\((\w+), (\w+), \d+\);\s+)OWN_OF_BLOCK\(\2, (\w+), \d+\);"
    yield from texts(subject, pattern, r"\1__local \2 *\4 = \3;")


def arrays_too_small(subject: str) -> Planted:
    """Declare an array of a block with one element less than is used, or half of them."""
    pattern = r"(OWN_OF_BLOCK\(\w+, \w+, \d+)\);"
    yield from texts(subject, pattern, r"\1 - 1);", r"\1 / 2);")


def sums_split(subject: str) -> Planted:
    """Let each lane add a part of a sum, which nothing adds up."""
    yield from texts(subject, r"(for|LOOP) \(int64_t (k\d+) = 0;", r"\1 (int64_t \2 = lane % 2;")


KINDS: dict[str, Callable[[str], Planted]] = {
    "a barrier removed": barriers_removed,
    "a barrier moved": barriers_moved,
    "a barrier under a condition of a loop": barriers_under_conditions,
    "a barrier that a lane leaves out": lanes_do_not_wait,
    "barriers at two places": lanes_wait_elsewhere,
    "a condition dropped": conditions_dropped,
    "blocks that meet": blocks_meet,
    "a loop at a wrong level": loops_at_other_levels,
    "a buffer exchanged": buffers_exchanged,
    "arrays that overlap": arrays_overlap,
    "arrays too small": arrays_too_small,
    "lanes that meet": lanes_meet,
    "a lane's index off": lanes_off,
    "lanes missing in a copy": lanes_missing,
    "a predicate dropped": predicates_dropped,
    "a sum split among lanes": sums_split,
    "a wait too late": waits_too_late,
    "a wrong slot": wrong_slots,
}

FOUND: dict[tuple[str, str], dict[str, int]] = {
    ("a barrier removed", "product"): {"verifier": 2},
    ("a barrier removed", "tails"): {"verifier": 6},
    ("a barrier removed", "bytes"): {"verifier": 3},
    ("a barrier removed", "softmax"): {"verifier": 7},
    ("a barrier removed", "windows"): {"verifier": 4},
    ("a barrier removed", "fragments"): {"verifier": 14},
    ("a barrier moved", "product"): {"verifier": 2},
    ("a barrier moved", "tails"): {"verifier": 12},
    ("a barrier moved", "bytes"): {"verifier": 6},
    ("a barrier moved", "softmax"): {"verifier": 7},
    ("a barrier moved", "windows"): {"verifier": 5},
    ("a barrier moved", "fragments"): {"verifier": 28},
    ("a barrier under a condition of a loop", "product"): {"verifier": 2},
    ("a barrier under a condition of a loop", "tails"): {"verifier": 2},
    ("a barrier under a condition of a loop", "bytes"): {"verifier": 2},
    ("a barrier under a condition of a loop", "windows"): {"verifier": 1},
    ("a barrier under a condition of a loop", "fragments"): {"verifier": 10},
    ("a barrier that a lane leaves out", "product"): {"model": 2},
    ("a barrier that a lane leaves out", "bytes"): {"model": 5},
    ("barriers at two places", "product"): {"model": 2},
    ("barriers at two places", "softmax"): {"model": 7},
    ("a condition dropped", "tails"): {"verifier": 6},
    ("blocks that meet", "product"): {"model": 8, "verifier": 8},
    ("a loop at a wrong level", "product"): {"model": 2},
    ("a loop at a wrong level", "tails"): {"verifier": 2},
    ("a loop at a wrong level", "fragments"): {"verifier": 4},
    ("a buffer exchanged", "product"): {"verifier": 1},
    ("a buffer exchanged", "bytes"): {"verifier": 1},
    ("a buffer exchanged", "tails"): {"verifier": 1},
    ("arrays that overlap", "product"): {"result": 1},
    ("arrays that overlap", "tails"): {"model": 1},
    ("arrays too small", "product"): {"model": 4},
    ("arrays too small", "windows"): {"model": 4},
    ("lanes that meet", "product"): {"model": 2},
    ("lanes that meet", "bytes"): {"model": 2},
    ("lanes that meet", "fragments"): {"model": 2},
    ("a lane's index off", "product"): {"model": 4, "result": 6},
    ("a lane's index off", "bytes"): {"model": 4, "result": 6},
    ("lanes missing in a copy", "product"): {"model": 2},
    ("lanes missing in a copy", "bytes"): {"model": 4},
    ("lanes missing in a copy", "fragments"): {"model": 4},
    ("a predicate dropped", "bytes"): {"result": 2},
    ("a predicate dropped", "tails"): {"result": 2},
    ("a predicate dropped", "softmax"): {"result": 1},
    ("a predicate dropped", "fragments"): {"result": 2},
    ("a sum split among lanes", "product"): {"model": 5, "result": 1},
    ("a sum split among lanes", "bytes"): {"model": 4, "result": 1},
    ("a barrier removed", "pipeline"): {"verifier": 2},
    ("a wait too late", "pipeline"): {"verifier": 1, "model": 1},
    ("a wrong slot", "pipeline"): {"verifier": 5, "model": 6, "result": 4},
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_programs_without_a_fault_are_accepted(subject: str) -> None:
    assert not check_barriers(program_of(subject), machine_of(subject))
    assert finder(subject, program_of(subject)) == "nothing"


@pytest.mark.exhaustive(fast=8)
@pytest.mark.parametrize(("kind", "subject"), FOUND)
def test_every_planted_fault_is_found(kind: str, subject: str) -> None:
    by = {label: finder(subject, changed) for label, changed in KINDS[kind](subject)}
    assert not [label for label, found in by.items() if found == "nothing"]
    assert Counter(by.values()) == FOUND[kind, subject]


def test_the_faults_are_many_and_of_all_kinds() -> None:
    assert {kind for kind, _ in FOUND} == set(KINDS)
    assert sum(sum(found.values()) for found in FOUND.values()) > 200
