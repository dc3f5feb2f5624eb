"""Strip-mining: run all iterations of ordered loops on a few registers' elements at a time.

    seq t in T { c[n] = cos(a[n]); a[n] += c[n]; }     n by 32: all T iterations of both statements for 32
                                                       elements, then for the next 32

Strip-mining applies to elementwise statements inside ordered loops, if no element needs another one. C
compilers keep in registers the values that one statement of a strip leaves to the next, and share common
subexpressions. The cost model, which prices statements one by one, sees neither effect. Therefore strips
are chosen if the model finds them no more expensive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from isamap.driver.formulation import Plan, ProblemOf, plan_ns, quick_plan
from isamap.driver.request import Request
from isamap.driver.stages import Clock
from isamap.ir import Kernel
from isamap.transform import (
    Blocks,
    Statement,
    accesses,
    make_guards_explicit,
    ordered_axes,
    shared_blocks,
    statements,
)

SAME = 1.1
"""Plans that cost no more than so many times as much cost the same: strips are counted by short loops."""


def in_strips(
    request: Request, kernel: Kernel, whole: Kernel, problem_of: ProblemOf, clock: Clock
) -> tuple[Kernel, tuple[Blocks, ...]] | None:
    """Return a bound kernel in strips, with the blocks that these are; None where there are none, or dearer ones.

    `whole` is its canonical form, whose plan says what a register holds.
    """
    canonical = make_guards_explicit(kernel)
    given = statements(canonical)
    if len(given) < 2 or not all(s.sequence and _is_elementwise(s) for s in given):
        return None
    plan = quick_plan(request, whole, problem_of, "greedy", clock)
    if plan is None:
        return None
    blocks = _blocks(given, plan)
    cut = _cut(canonical, blocks)
    if cut is None or plan_ns(request, cut, problem_of, "greedy", clock) > SAME * plan.ns:
        return None
    return cut, blocks


def _is_elementwise(s: Statement) -> bool:
    return s.assign.op is None and not s.reduction_axes and bool(s.axes)


def _blocks(given: Sequence[Statement], plan: Plan) -> tuple[Blocks, ...]:
    """Return one iteration of each axis but the innermost, and as many of that as half of the registers hold.

    What statements pass on takes registers, a temporary or what is read and written.
    """
    (*outer, inner) = given[-1].axes
    nest = plan.schedule.nests[-1]
    option = next(o for o in plan.problem.nests[-1].options if o.mapping == nest.mapping)
    result = next(o for o in option.operands if o.is_accumulator)
    used = Counter(name for s in given for name in {r.buffer for r in accesses(s)})
    passed = sum(count > 1 for count in used.values())
    count = dict(plan.problem.registers)[result.memory] // 2 // result.registers // max(1, passed)
    return (*(Blocks(a.name, 1) for a in outer), Blocks(inner.name, result.tile_elements * max(1, count)))


def _cut(kernel: Kernel, blocks: Sequence[Blocks]) -> Kernel | None:
    """Return the kernel in these blocks, where all of them stand around its ordered loops."""
    own = ordered_axes(kernel)
    for one in blocks:
        found = shared_blocks(kernel, one, own)
        if isinstance(found, str):
            return None
        kernel = found
    around = [s.sequence[: len(s.sequence) - len(own)] for s in statements(kernel)]
    return kernel if all(own.isdisjoint(a.name for a in axes) for axes in around) and any(around) else None
