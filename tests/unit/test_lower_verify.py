"""The verifier of lowered programs: right ones pass, and every fault that is planted is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TypeVar, cast

import pytest

from isamap.ir import Index, bind
from isamap.kernels import kernel_path
from isamap.lower.passes import PASSES, SHAPE, ProgramPass, lower_by_passes
from isamap.lower.program import (
    Begin,
    Block,
    Configure,
    Declare,
    Fill,
    For,
    Hint,
    If,
    Issue,
    LoweredProgram,
    MemoryRef,
    Node,
    OperandRef,
    Parallel,
    RegisterRef,
    WorkSlice,
)
from isamap.lower.steps import Copies, Hold, Issues, LoopNode, Step, ThreadLoops, Tree
from isamap.lower.verifier import check_program, check_tree
from isamap.machine import Machine, load_machine
from isamap.plan.text import parse_schedule
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

TILES = """isamap schedule 1
kernel gemm_bf16
machine x86-amx
sizes K = 64, M = 20, N = 40
status MANUAL

nest 0 {
  map tdpbf16ps { m: m, n: n, k: k, p: k } (a = A[m, k], b = B[k, n]);
  choose N = 16, Q = 16, R = 16;
  stage a; stage b;
  for m by 32 { for n by 32 { stage c; hold;
    for k by 64 { unroll k by 32 { unroll m by 16 { unroll n by 16 { issue; } } } } } }
}
"""
THREADS = """isamap schedule 1
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
N = TypeVar("N")
Change = Callable[[LoweredProgram], LoweredProgram]
X = Index.of("nowhere")


def lowered(text: str, stop: str) -> tuple[LoweredProgram, tuple[Tree, ...], Machine]:
    """Return the program of a schedule behind a pass, and the steps of its nests."""
    schedule = parse_schedule(Source("test.schedule", text))
    path = kernel_path(schedule.kernel)
    sizes = {name: value for name, value in schedule.sizes if isinstance(value, int)}
    kernel = make_guards_explicit(
        bind(parse_kernel(Source(path.name, path.read_text(encoding="utf-8"))), sizes)
    )
    machine = load_machine(schedule.machine)
    seen = dict(lower_by_passes(kernel, machine, schedule, sizes))
    trees = cast("tuple[Tree, ...]", seen[SHAPE[-1].name])
    return cast("LoweredProgram", seen[stop]), trees, machine


@cache
def tiles() -> tuple[LoweredProgram, tuple[Tree, ...], Machine]:
    return lowered(TILES, PASSES[-1].name)


@cache
def threads() -> tuple[LoweredProgram, tuple[Tree, ...], Machine]:
    return lowered(THREADS, PASSES[-1].name)


# --- faults -----------------------------------------------------------------------------------------------


def first(kind: type[N], change: Callable[[N], Node], where: Callable[[N], bool] = lambda _: True) -> Change:
    """Change the first node of a kind, outermost first."""

    def program(old: LoweredProgram) -> LoweredProgram:
        done = False

        def node(here: Node) -> Node:
            nonlocal done
            if not done and isinstance(here, kind) and where(here):
                done = True
                return change(here)
            match here:
                case For(_, _, body) | Parallel(_, body) | If(_, body) | Block(_, body):
                    return replace(here, body=tuple(map(node, body)))
                case _:
                    return here

        body = tuple(map(node, old.body))
        assert done, f"there is no such {kind.__name__}"
        return replace(old, body=body)

    return program


def issue(**changes: object) -> Change:
    return first(Issue, lambda node: replace(node, **changes))


def operand(kind: type[OperandRef], change: Callable[[OperandRef], OperandRef]) -> Change:
    """Change the first operand of a kind in the first issue that has one."""

    def changed(node: Issue) -> Issue:
        at = next(n for n, (_, ref) in enumerate(node.operands) if isinstance(ref, kind))
        name, ref = node.operands[at]
        return replace(node, operands=(*node.operands[:at], (name, change(ref)), *node.operands[at + 1 :]))

    return first(Issue, changed, lambda node: any(isinstance(ref, kind) for _, ref in node.operands))


def place(**changes: object) -> Change:
    return operand(MemoryRef, lambda ref: replace(ref, **changes))


def without_declarations(program: LoweredProgram) -> LoweredProgram:
    return first(Declare, lambda _: Declare(()))(program)


def declared(**changes: object) -> Change:
    def change(node: Declare) -> Declare:
        return Declare(tuple(replace(v, **changes) for v in node.values))

    return first(Declare, change, lambda node: any(v.register is not None for v in node.values))


def configure(number: int | None, field: str = "rows") -> Change:
    return first(Configure, lambda node: replace(node, fields=((field, number, 1),)))


def buffer(**changes: object) -> Change:
    def change(program: LoweredProgram) -> LoweredProgram:
        return replace(program, buffers=(replace(program.buffers[0], **changes), *program.buffers[1:]))

    return change


def as_input(program: LoweredProgram) -> LoweredProgram:
    return replace(program, tensors=tuple(replace(t, role="in") for t in program.tensors))


FAULTS: dict[str, tuple[Change, str]] = {
    "an instruction of another machine": (issue(instruction="fly"), "fly is not an instruction of x86-amx"),
    "an operand too few": (first(Issue, lambda i: replace(i, operands=i.operands[1:])), "takes the operands"),
    "a parameter that is none": (issue(params=(("height", 1),)), "takes the parameters"),
    "a parameter that nothing counts": (
        first(Issue, lambda i: replace(i, params=((i.params[0][0], X),)), lambda i: bool(i.params)),
        "depends on nowhere, which nothing around it counts",
    ),
    "a value that nothing declares": (without_declarations, "is declared nowhere around it"),
    "a value in the wrong registers": (
        first(Declare, lambda d: Declare(tuple(replace(v, memory="tmm") for v in d.values))),
        "and v0 in tmm",
    ),
    "a register for a place": (
        operand(RegisterRef, lambda _: MemoryRef("A", Index.of(0))),
        "lies in registers, and is given as a place in A",
    ),
    "a buffer that is none": (place(buffer="heap"), "is in heap, which is not an array of the program"),
    "an offset that nothing counts": (place(offset=X), "depends on nowhere"),
    "a stride that nothing counts": (place(strides=(X,)), "depends on nowhere"),
    "results in an input": (as_input, "is in C, which the caller passes to be read"),
    "zeros in an input": (first(Fill, lambda f: replace(f, buffer="A")), "zeros are written to is in A"),
    "zeros nowhere": (first(Fill, lambda f: replace(f, buffer="heap")), "is in heap, which is not an array"),
    "a loop without turns": (first(For, lambda f: replace(f, trips=Index.of(0))), "runs 0 times"),
    "a loop that counts unknowns": (first(For, lambda f: replace(f, trips=X)), "depends on nowhere"),
    "a loop in itself": (first(For, lambda f: replace(f, body=(f,))), "is known already"),
    "a condition on unknowns": (first(If, lambda i: replace(i, conditions=((X, "<", X),))), "the condition"),
    "a register beyond the last": (declared(register=8), "is in tmm8, of 8 registers"),
    "a register below the first": (declared(register=-1), "is in tmm-1, of 8 registers"),
    "a value without elements": (declared(shape=(0, 16)), "has the shape (0, 16)"),
    "a value in memory": (declared(memory="mem"), "which is not a register memory"),
    "a value declared twice": (
        first(
            Block, lambda b: replace(b, body=(*b.body, b.body[0])), lambda b: isinstance(b.body[0], Declare)
        ),
        "declared already",
    ),
    "a state that is none": (first(Configure, lambda c: replace(c, state="mxcsr")), "the state mxcsr"),
    "a state that is not released so": (first(Configure, lambda c: replace(c, release=True)), "not release"),
    "a field that is none": (configure(0, "columns"), "has no field columns"),
    "a field beyond the last": (configure(99), "has no rows[99]"),
    "a field without its number": (configure(None), "has no rows[None]"),
    "two arrays of a name": (buffer(name="A"), "two arrays called A"),
    "a buffer without elements": (buffer(elements=Index.of(0)), "has 0 elements"),
    "a buffer before the workspace": (buffer(offset=-64), "begins at -64"),
    "a buffer that ends before it begins": (buffer(life=(3, 2)), "ends before it begins"),
    "a buffer in no memory": (buffer(memory="attic"), "lies in attic"),
    "a buffer of unknown size": (buffer(elements=X), "the size of a_tiles0 depends on nowhere"),
    "a check of unknowns": (lambda p: replace(p, checks=((X, "<", X),)), "the condition"),
    "a program for another machine": (lambda p: replace(p, machine="z80"), "is for z80"),
    "a fault in what packs": (
        lambda p: replace(p, packs=(replace(buffer(offset=-64)(p), name="pack"),)),
        "pack: a_tiles0 begins at -64",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str) -> None:
    program, _, machine = tiles()
    change, said = FAULTS[fault]
    assert said in "\n".join(check_program(change(program), machine))


THREADED: dict[str, tuple[Change, str]] = {
    "threads within threads": (first(Parallel, lambda p: replace(p, body=(p,))), "inside another parallel"),
    "a hint that is none": (first(Hint, lambda h: replace(h, instruction="fly")), "fly is not a hint"),
    "a hint about no operand": (first(Hint, lambda h: replace(h, operand="q")), "has no operand q"),
    "a hint about no array": (
        first(Hint, lambda h: replace(h, place=replace(h.place, buffer="heap"))),
        "is in heap, which is not an array",
    ),
}


@pytest.mark.parametrize("fault", THREADED)
def test_a_planted_fault_in_a_threaded_program_is_named(fault: str) -> None:
    program, _, machine = threads()
    change, said = THREADED[fault]
    assert said in "\n".join(check_program(change(program), machine))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (first(Begin, lambda b: replace(b, work="other")), "stands where that has not begun"),
        (first(Begin, lambda b: replace(b, pieces=X)), "how many pieces work0 has depends on nowhere"),
        (first(WorkSlice, lambda s: replace(s, now=X)), "which share of work0 it is depends on nowhere"),
        (first(WorkSlice, lambda s: replace(s, depths=())), "work0 has 1 parts, and counts pieces of 0"),
    ],
)
def test_a_spoilt_share_is_found(change: Change, said: str) -> None:
    program, _, machine = threads()
    assert said in "\n".join(check_program(change(program), machine))


def test_values_of_registers_do_not_reach_other_threads() -> None:
    program, _, machine = tiles()
    loop = next(node for node in program.body if isinstance(node, Block))
    held = next(n for n in _blocks(loop) if n.note.startswith("hold"))
    moved = replace(held, body=(*held.body[:2], Parallel((("t", Index.of(2)),), held.body[2:])))
    found = check_program(replace(program, body=(moved,)), machine)
    assert any("is declared nowhere around it" in said for said in found)


def _blocks(node: Node) -> list[Block]:
    match node:
        case Block(_, body):
            return [node, *(b for inner in body for b in _blocks(inner))]
        case For(_, _, body) | Parallel(_, body) | If(_, body):
            return [b for inner in body for b in _blocks(inner)]
        case _:
            return []


# --- steps ------------------------------------------------------------------------------------------------

Steps = Callable[[tuple[Step, ...]], tuple[Step, ...]]


def of_first(kind: type[N], **changes: object) -> Steps:
    def change(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        at = next(n for n, step in enumerate(steps) if isinstance(step, kind))
        return (*steps[:at], replace(steps[at], **changes), *steps[at + 1 :])

    return change


def _twice(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    at = next(n for n, step in enumerate(steps) if isinstance(step, Copies))
    return (*steps[: at + 1], *steps[at:])


def _outside(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    copies = next(step for step in steps if isinstance(step, Copies))
    return (copies, *(step for step in steps if step is not copies))


def _hints_inside(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    hints = next(step.hints for step in steps if isinstance(step, LoopNode) and step.hints)
    at = max(n for n, step in enumerate(steps) if isinstance(step, LoopNode))
    inner = steps[at]
    assert isinstance(inner, LoopNode)
    return (*steps[:at], replace(inner, hints=hints), *steps[at + 1 :])


def _unrolled(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    last = steps[-1]
    assert isinstance(last, Issues)
    return (*steps[:-1], replace(last, unrolled=tuple(replace(u, axis="k") for u in last.unrolled)))


MISPLACED: dict[str, tuple[Steps, str]] = {
    "no issues": (lambda steps: steps[:-1], "it issues nothing"),
    "something inside the issues": (lambda steps: (*steps, steps[-1]), "something stands inside its issues"),
    "held twice": (lambda steps: (*steps[:-1], Hold(), steps[-1]), "holds it twice"),
    "threads inside loops": (
        lambda steps: (*steps[:-1], next(s for s in steps if isinstance(s, ThreadLoops)), steps[-1]),
        "distributed over threads are not its outermost",
    ),
    "a loop left out": (
        lambda steps: tuple(s for s in steps if not (isinstance(s, LoopNode) and s.number == 2)),
        "stands inside 2 loops",
    ),
    "staged twice": (_twice, "`b` is staged twice"),
    "staged elsewhere": (_outside, "`b` is staged inside 0 loops, not 2"),
    "hints elsewhere": (_hints_inside, "prefetches what stands elsewhere"),
    "carried from nowhere": (
        lambda steps: tuple(s for s in steps if not isinstance(s, Copies)),
        "carries what is not staged inside it",
    ),
    "unrolled elsewhere": (_unrolled, "is unrolled elsewhere"),
}


@pytest.mark.parametrize("fault", MISPLACED)
def test_a_misplaced_step_is_named(fault: str) -> None:
    (tree,) = threads()[1]
    change, said = MISPLACED[fault]
    assert said in "\n".join(check_tree(replace(tree, steps=change(tree.steps))))


def test_right_programs_and_steps_pass() -> None:
    for program, trees, machine in (tiles(), threads()):
        assert check_program(program, machine) == ()
        assert [check_tree(tree) for tree in trees] == [()]


def test_a_pass_that_breaks_a_rule_is_named() -> None:
    """What a pass leaves is judged behind it, and not where it is used at last."""
    bad = ProgramPass("spoil", lambda program, _: buffer(offset=-64)(program))
    schedule = parse_schedule(Source("test.schedule", TILES))
    path = kernel_path(schedule.kernel)
    sizes = {name: value for name, value in schedule.sizes if isinstance(value, int)}
    kernel = make_guards_explicit(bind(parse_kernel(Source(path.name, path.read_text())), sizes))
    with pytest.raises(AssertionError, match="the pass `spoil` broke its rules: a_tiles0 begins at -64"):
        dict(lower_by_passes(kernel, load_machine("x86-amx"), schedule, sizes, passes=(*PASSES, bad)))
