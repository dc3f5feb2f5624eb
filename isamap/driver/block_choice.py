"""Choose the blocks that a kernel's statements share, for `--transform`.

    p by 2, p by 14, none        each planned quickly; the cheapest by the model

The candidates are nested axes of the last statement along which a temporary of the kernel shrinks. Blocks
are long enough that the shrunk temporaries, and the arrays that several statements pass through, fit into
half of a cache. The other half is for streamed data. Inside ordered loops of the kernel only strip-mining
is chosen (`in_strips`), because the model does not price their cache reuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from isamap.driver.blocking import asked_blocks
from isamap.driver.formulation import HeuristicPlan, ProblemOf, canonical_form, plan_ns, quick_plan
from isamap.driver.request import BEST_FORM, Request
from isamap.driver.stages import Clock
from isamap.formulate.hierarchy import Memories
from isamap.ir import Kernel, Operand, product
from isamap.machine import Machine
from isamap.plan.problem import chosen_options
from isamap.source.records import replace
from isamap.transform import reads, symbols
from isamap.transform.blocks import Blocks, in_blocks, ordered_axes, share_blocks
from isamap.transform.flattening import dense_form
from isamap.transform.guards import make_guards_explicit
from isamap.transform.inlining import inline_temporaries
from isamap.transform.loop_bounds import bound_loops_in_blocks
from isamap.transform.rewrite import Rewrite, accesses, is_rewritable
from isamap.transform.statements import Statement, statements

# --- strips ---------------------------------------------------------------------------------------------

# Strip-mining: run all iterations of ordered loops on a few registers' elements at a time.
#
#     seq t in T { c[n] = cos(a[n]); a[n] += c[n]; }     n by 32: all T iterations of both statements for 32
#                                                        elements, then for the next 32
#
# Strip-mining applies to elementwise statements inside ordered loops, if no element needs another one. C
# compilers keep in registers the values that one statement of a strip leaves to the next, and share common
# subexpressions. The cost model, which prices statements one by one, sees neither effect. Therefore strips
# are chosen if the model finds them no more expensive.


SAME = 1.1
"""The cost ratio up to which plans count as equal: strip-mining is priced by short loops."""


def in_strips(
    request: Request, kernel: Kernel, whole: Kernel, problem_of: ProblemOf, clock: Clock
) -> tuple[Kernel, tuple[Blocks, ...]] | None:
    """Return a bound kernel after strip-mining with its blocks, or None if there are none or only dearer ones.

    `whole` is its canonical form, whose plan gives the contents of the registers.
    """
    canonical = make_guards_explicit(kernel)
    given = statements(canonical)
    if len(given) < 2 or not all(s.sequence and _is_elementwise(s) for s in given):
        return None
    plan = quick_plan(request, whole, problem_of, "greedy", clock)
    if plan is None:
        return None
    blocks = _blocks(given, plan)
    cut = _cut_into_blocks(canonical, blocks)
    if cut is None or plan_ns(request, cut, problem_of, "greedy", clock) > SAME * plan.ns:
        return None
    return cut, blocks


def _is_elementwise(s: Statement) -> bool:
    return s.assign.op is None and not s.reduction_axes and bool(s.axes)


def _blocks(given: Sequence[Statement], plan: HeuristicPlan) -> tuple[Blocks, ...]:
    """Return blocks of one iteration along outer axes, and of as many along the innermost as registers hold.

    Values passed between statements take registers: temporaries, and arrays that are written and read.
    """
    (*outer, inner) = given[-1].axes
    option = chosen_options(plan.schedule, plan.problem)[-1][1]
    result = next(o for o in option.operands if o.is_accumulator)
    used = Counter(name for s in given for name in {r.buffer for r in accesses(s)})
    passed = sum(count > 1 for count in used.values())
    count = dict(plan.problem.registers)[result.memory] // 2 // result.registers // max(1, passed)
    return (*(Blocks(a.name, 1) for a in outer), Blocks(inner.name, result.tile_elements * max(1, count)))


def _cut_into_blocks(kernel: Kernel, blocks: Sequence[Blocks]) -> Kernel | None:
    """Return the kernel computed in blocks, or None if a loop over blocks would be inside an ordered loop."""
    own = ordered_axes(kernel)
    for one in blocks:
        found = share_blocks(kernel, one, own)
        if isinstance(found, str):
            return None
        kernel = found
    around = [s.sequence[: len(s.sequence) - len(own)] for s in statements(kernel)]
    return kernel if all(own.isdisjoint(a.name for a in axes) for axes in around) and any(around) else None


# --- block choice ---------------------------------------------------------------------------------------


# Plans of blocks have to be cheaper by so much: they are longer programs.
LEAST_GAIN = 1.05
NO_GAIN = 1.02
"""The cost ratio up to which the shorter blocks are chosen: the model does not price how many pages they need."""


def form_in_blocks(
    request: Request, kernel: Kernel, machine: Machine, problem_of: ProblemOf, clock: Clock
) -> tuple[Rewrite, tuple[Blocks, ...]]:
    """Return a bound kernel in the form that is matched, and the blocks that its statements share.

    Fixed blocks come first, else the model's choice if requested. Raises: as `asked_blocks`, `in_blocks`.
    """
    fewer = _in_fewer_passes(request, kernel, problem_of, clock)
    kernel, steps = fewer.kernel, fewer.steps
    asked = asked_blocks(request)
    if asked:
        blocked = in_blocks(make_guards_explicit(kernel), asked)
        return Rewrite(bound_loops_in_blocks(blocked), steps), asked
    whole = canonical_form(request, kernel, machine, problem_of, clock)
    whole = replace(whole, steps=(*steps, *whole.steps))
    if request.schedule is not None or request.transform != BEST_FORM:
        return whole, ()
    strips = in_strips(request, kernel, whole.kernel, problem_of, clock)
    if strips is not None:
        return Rewrite(strips[0], steps), strips[1]
    own = [o for o in kernel.operands if o.role == "temp"]
    offered = dict(offered_blocks(make_guards_explicit(kernel), own, machine)) if own else {}
    if not offered:
        return whole, ()
    costs = {b: plan_ns(request, cut, problem_of, "greedy", clock) for b, cut in offered.items()}
    best = next(b for b, ns in costs.items() if ns <= NO_GAIN * min(costs.values()))
    whole_ns = plan_ns(request, whole.kernel, problem_of, "greedy", clock)
    return (Rewrite(offered[best], steps), best) if LEAST_GAIN * costs[best] < whole_ns else (whole, ())


def _in_fewer_passes(request: Request, kernel: Kernel, problem_of: ProblemOf, clock: Clock) -> Rewrite:
    """Return the kernel with temporaries inlined into their readers, if the model prices that lower."""
    written = Rewrite(kernel, ())
    found = (
        inline_temporaries(kernel) if request.transform == BEST_FORM and is_rewritable(kernel) else written
    )
    if not found.steps:
        return written
    costs = [
        plan_ns(request, dense_form(make_guards_explicit(form.kernel)).kernel, problem_of, "greedy", clock)
        for form in (written, found)
    ]
    return found if costs[1] < costs[0] else written


def offered_blocks(
    kernel: Kernel, own: Sequence[Operand], machine: Machine
) -> Iterator[tuple[tuple[Blocks, ...], Kernel]]:
    """Yield blocks that make one of the kernel's `own` temporaries shorter, each with the blocked kernel."""
    around: tuple[Blocks, ...] = ()
    caches = sorted(c.capacity_bytes for c in Memories.of(machine).caches if not c.shared)
    near = (b // NEAR_PART for a, b in pairwise(caches) if b // NEAR_PART > a)
    room = sorted({*(size // 2 for size in caches), *near})
    last, lanes = statements(kernel)[-1], _vector_lanes(kernel, machine)
    together = max(
        [m.number("rows") or 0 for m in machine.memories.values() if m.kind == "registers"] + [ROWS_TOGETHER]
    )
    for axis in () if last.sequence or not own else last.axes:
        extent = axis.extent.value or 1
        single = share_blocks(kernel, Blocks(axis.name, 1))
        if extent == 1 or isinstance(single, str) or not _shrinks(kernel, single, own):
            continue
        # The bytes of the non-temporary arrays that an axis traverses in several statements.
        found: dict[str, set[int]] = {}
        for number, statement in enumerate(statements(kernel)):
            assign = statement.assign
            for access in (assign.target, *reads(assign.value)):
                if axis.name in symbols(access):
                    found.setdefault(access.buffer, set()).add(number)
        operands = (kernel.operand(name) for name, used in found.items() if len(used) > 1)
        row_bytes = max(
            1, _temporary_bytes(single) + sum(_bytes_of(o) for o in operands if o.role != "temp") // extent
        )
        most = [min(extent, max(1, bytes_ // row_bytes)) for bytes_ in room]
        # Loops that a condition bounds by blocks are as long as whole vectors only where blocks are. The model prices
        # the remainders of one length, so that shorter blocks look cheaper than they are.
        sizes = [size for m in most for size in (_even_block(extent, m, together), 1 << m.bit_length() - 1)]
        for n, size in enumerate(sizes):
            cut = single if size == 1 else share_blocks(kernel, Blocks(axis.name, size))
            if size in sizes[:n] or isinstance(cut, str) or cut == kernel:
                continue
            bounded = bound_loops_in_blocks(cut)
            if size >= lanes if bounded != cut else n % 2 == 0:
                yield (*around, Blocks(axis.name, size)), bounded
        around, kernel = (*around, Blocks(axis.name, 1)), single


def _vector_lanes(kernel: Kernel, machine: Machine) -> int:
    """Return the number of elements in the widest vector register for the kernel's last result, or 1."""
    one = kernel.operand(statements(kernel)[-1].assign.target.buffer).dtype.size_bytes
    sizes = (m.number("bytes") for m in machine.memories.values() if m.kind == "registers")
    return max(1, *(size // one for size in sizes if size), 1)


def _shrinks(kernel: Kernel, cut: Kernel, own: Sequence[Operand]) -> bool:
    """Return whether one of these temporaries is smaller in the blocked kernel."""
    return any(kernel.operand(o.name).shape != cut.operand(o.name).shape for o in own)


NEAR_PART = 8
"""Blocks also fit into this part of a larger cache: the first TLB may not cover the pages of half of it."""
ROWS_TOGETHER = 12
"""A multiple of the rows of register blocks of 2, 3, 4 and 6 rows, where no register has more rows
(docs/decisions/0056-shared-blocks.md)."""


def _even_block(extent: int, most: int, together: int) -> int:
    """Return the size of nearly equal blocks, at most `most`.

    If the last block is shorter, the size is a multiple of `together`: other blocks are whole register blocks.
    """
    even = -(-extent // -(-extent // most))
    return even if extent % even == 0 else even - even % min(even, together)


def _bytes_of(operand: Operand) -> int:
    return int(product(operand.shape).evaluate({})) * operand.dtype.size_bytes


def _temporary_bytes(kernel: Kernel) -> int:
    """Return the bytes of all temporaries together."""
    return sum(_bytes_of(o) for o in kernel.operands if o.role == "temp")
