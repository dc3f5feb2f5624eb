"""An innermost loop in the order of a pipeline: several iterations under way, prologue and epilogue peeled.

for k in 8: { load a[k]; fma }      load a[0]
load in stage 0, fma in 1      ->   for k in 7: { load a[k + 1]; fma of iteration k }
                                    fma of iteration 7
"""

from __future__ import annotations

from dataclasses import replace

from isamap.ir import Index
from isamap.lower.program import Block, Declare, For, If, Issue, Node, Parallel
from isamap.lower.shift import substituted
from isamap.lower.steady import issues_of, locals_of, main_loop, steady_of
from isamap.machine import Machine
from isamap.plan.steady import Pipeline, Steady, check_pipeline
from isamap.source import Diagnostic, UsageProblem


def in_pipeline(nodes: tuple[Node, ...], pipeline: Pipeline, machine: Machine) -> tuple[Node, ...]:
    """The nodes with their main loop, and those of the same issues, in the order of a pipeline.

    Raises: UsageProblem where the pipeline is none of that loop.
    """
    main = main_loop(nodes)
    if main is None:
        raise UsageProblem(
            Diagnostic(
                "schedule-pipeline",
                "there is no innermost loop of two or more issues, and nothing else, to pipeline",
                help="drop the line `pipeline`",
            )
        )
    wrong = tuple(check_pipeline(_order_only(main, machine), pipeline))
    if wrong:
        raise UsageProblem(*wrong)
    shape = [issue.instruction for issue in issues_of(main)]
    return _in_loops(nodes, shape, pipeline, machine)


def _order_only(loop: For, machine: Machine) -> Steady:
    """What the order of a loop has to keep whatever the machine costs: results there before they are read."""
    steady = steady_of(loop, machine)
    waits = tuple(replace(wait, delay=min(wait.delay, 1)) for wait in steady.dependences)
    return replace(steady, dependences=waits, units=(), registers=())


def _in_loops(
    nodes: tuple[Node, ...], shape: list[str], pipeline: Pipeline, machine: Machine
) -> tuple[Node, ...]:
    found: list[Node] = []
    for node in nodes:
        match node:
            case For(_, _, body) if [n.instruction for n in body if isinstance(n, Issue)] == shape and all(
                isinstance(n, (Declare, Issue)) for n in body
            ):
                found += _pipelined(node, pipeline, machine)
            case For(_, _, body) | Parallel(_, body) | If(_, body) | Block(_, body):
                found.append(replace(node, body=_in_loops(body, shape, pipeline, machine)))
            case _:
                found.append(node)
    return tuple(found)


def _pipelined(loop: For, pipeline: Pipeline, machine: Machine) -> tuple[Node, ...]:
    """The loop in that order where it is one of this loop and there are iterations enough; else as it is."""
    steady = _order_only(loop, machine)
    if any(check_pipeline(steady, pipeline)):
        return (loop,)
    later = pipeline.stages - 1
    if loop.trips.value is not None and loop.trips.value < later:
        return (loop,)
    note = f"pipelined: a turn every {pipeline.interval} ticks, {pipeline.stages} turns under way"
    body = Block(note, (Declare(locals_of(loop)), *_turns(loop, pipeline, steady)))
    if loop.trips.value is not None or not later:
        return (body,)
    enough = (Index.of(later), "<=", loop.trips)
    return (If((enough,), (body,)), If(((loop.trips, "<", Index.of(later)),), (loop,)))


def _turns(loop: For, pipeline: Pipeline, steady: Steady) -> tuple[Node, ...]:
    """Prologue, loop and epilogue. In round v, an operation of stage s belongs to iteration v - s."""
    issues, later = issues_of(loop), pipeline.stages - 1
    order = [(issues[i], pipeline.starts[i] // pipeline.interval) for i in _order(pipeline, steady)]

    def perform(issue: Issue, turn: Index) -> Node:
        return substituted((issue,), {loop.variable: turn})[0]

    prologue = [perform(op, Index.of(v - s)) for v in range(later) for op, s in order if s <= v]
    round_ = Index.of(loop.variable) + later
    steady_body = tuple(perform(op, round_ - s) for op, s in order)
    epilogue = [perform(op, loop.trips + (v - s)) for v in range(later) for op, s in order if s > v]
    rounds = loop.trips - later
    middle = (For(loop.variable, rounds, steady_body),) if rounds.value != 0 else ()
    return (*prologue, *middle, *epilogue)


def _order(pipeline: Pipeline, steady: Steady) -> list[int]:
    """The operations by their slot within the interval; in one slot, what reads before what writes there.

    Raises: UsageProblem where two operations each have to come before the other.
    """
    slots = [start % pipeline.interval for start in pipeline.starts]
    before: dict[int, set[int]] = {i: set() for i in range(len(slots))}
    for wait in steady.dependences:
        at = pipeline.starts[wait.target] + wait.distance * pipeline.interval
        if at == pipeline.starts[wait.source] and wait.source != wait.target:
            before[wait.target].add(wait.source)
    order: list[int] = []
    for slot in range(pipeline.interval):
        mine = [i for i, s in enumerate(slots) if s == slot]
        while mine:
            free = next((i for i in mine if not before[i] & set(mine)), None)
            if free is None:
                raise UsageProblem(
                    Diagnostic(
                        "schedule-pipeline",
                        f"operations {', '.join(map(str, mine))} start at one time and each overwrites what "
                        "another one reads: no order of instructions is that",
                        help="start one of them later",
                    )
                )
            mine.remove(free)
            order.append(free)
    return order
