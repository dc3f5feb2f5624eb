"""Price groups of steps: kernels by the cost model under greedy schedules, and moves by their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from isamap.driver.compiling import CompiledProgram as Compiled
from isamap.driver.compiling import compile_program
from isamap.driver.model_rewrites import form_of
from isamap.driver.request import Request
from isamap.driver.side_by_side import done_side_by_side
from isamap.formulate.hierarchy import Memories
from isamap.graph.elementwise_fusion import Open, reads_of, writes_of
from isamap.graph.kernel_groups import as_kernel
from isamap.graph.model_program import Direct, KernelCall, ModelProgram, Step, TensorView
from isamap.graph.model_program import reads_of as passed_in
from isamap.graph.model_program import writes_of as passed_out
from isamap.graph.pending import call_of
from isamap.graph.types import size_bytes
from isamap.ir import Index, print_routine
from isamap.machine import Machine
from isamap.machine.timings import LINE_BYTES
from isamap.plan.graphs import GraphCache
from isamap.source import Infeasible, NoMapping, Source, UsageProblem
from isamap.source.progress import Watch, unwatched
from isamap.syntax import parse_kernel


@dataclass(frozen=True, slots=True)
class GroupPrice:
    """The price of a group. Units: nanoseconds, and bytes of the kernel's own workspace."""

    cost_ns: float
    workspace_bytes: int = 0


@dataclass(slots=True)
class Prices:
    """Cached prices by kernel text. `request` has the compilation options."""

    request: Request
    machine: Machine
    jobs: int | str
    watch: Watch = unwatched
    known: dict[str, GroupPrice | None] = field(default_factory=dict[str, "GroupPrice | None"])

    def of(self, groups: Sequence[Open]) -> list[GroupPrice | None]:
        """Return the price of each group, or None for a kernel that the machine cannot perform."""
        texts = [None if isinstance(one, Direct) else _text(one) for one in groups]
        moved = [_count_moved_bytes((*reads_of(one), *writes_of(one))) for one in groups]
        return self._price_all(texts, moved)

    def of_steps(self, steps: Sequence[Step], kernels: Mapping[str, str]) -> list[GroupPrice]:
        """Return the price of each step of a program. Raises: UsageProblem for a kernel without a price."""
        texts = [kernels[step.kernel] if isinstance(step, KernelCall) else None for step in steps]
        found = self._price_all(
            texts, [_count_moved_bytes((*passed_in(one), *passed_out(one))) for one in steps]
        )
        for step, price in zip(steps, found, strict=True):
            if price is None:
                assert isinstance(step, KernelCall)
                raise no_kernel(step.kernel)
        return [price for price in found if price is not None]

    def _price_all(self, texts: Sequence[str | None], moved: Sequence[int]) -> list[GroupPrice | None]:
        new = list(dict.fromkeys(t for t in texts if t is not None and t not in self.known))
        name = self.request.kernel.name
        asked = [replace(self.request, kernel=Source(name, text), transform=form_of(text)) for text in new]
        price_one = partial(_price, call_ns=self.machine.model.call_ns)
        priced = done_side_by_side(
            price_one, asked, self.jobs, here=True, machines=lambda one: (one.machine,)
        )
        for done, (number, price) in enumerate(priced):
            self.watch("price", done + 1, len(asked))
            self.known[new[number]] = price
        memories = Memories.of(self.machine)
        return [
            self.known[text]
            if text is not None
            else GroupPrice(self.machine.model.call_ns + memories.moved_ns(size))
            for text, size in zip(texts, moved, strict=True)
        ]


def _text(step: Open) -> str:
    """Return the text of a kernel."""
    assert not isinstance(step, Direct)
    return call_of(as_kernel(step))[1]


def _count_moved_bytes(passed: Iterable[TensorView]) -> int:
    return sum(size_bytes(p.dtype, p.shape) for p in passed)


def no_kernel(name: str) -> UsageProblem:
    """Return the error that a machine cannot perform the kernel of a node."""
    help_ = "`isamap match` explains its instructions' refusals; use another machine for this model"
    return UsageProblem.of("graph-no-kernel", f"the machine performs no kernel of `{name}`", help=help_)


def compile_as_passed(request: Request) -> Compiled:
    """Return a compiled kernel that accepts tensors in the strides that steps pass.

    A form of joined dimensions asks for dense ones, and steps may pass rows that lie further apart.
    """
    made = compile_program(request)
    if any(t.given is not None for t in made.emitted.interface.tensors):
        made = compile_program(replace(request, transform=None))
    return made


def with_free_strides(program: ModelProgram) -> dict[str, str]:
    """Return kernels' texts in which operands that are parts of tensors may have any stride but the last.

    Machines with scratchpads may otherwise read an operand of a sum as an array without gaps.
    """
    texts = dict(program.kernels)
    for step in (step for step in program.steps if isinstance(step, KernelCall)):
        names = {name for name, view in step.reads.items() if view.is_part}
        kernel, last = parse_kernel(Source("kernel", texts[step.kernel])), (Index.of(1),)
        free = {o.name: replace(o, strides=((None,) * len(o.shape) + last)[1:]) for o in kernel.operands}
        operands = (free[o.name] if o.name in names else o for o in kernel.operands)
        texts[step.kernel] = print_routine(replace(kernel, operands=tuple(operands)))
    return texts


def _price(request: Request, call_ns: float) -> GroupPrice | None:
    """Return the price of a kernel's greedy schedule."""
    try:
        made = compile_as_passed(request)
    except (NoMapping, Infeasible):  # what is not a kernel at all is a mistake of ours
        return None
    summary: Mapping[str, Any] = made.outcome.summary
    needed = int(summary["workspace"]["fixed_bytes"])
    return GroupPrice(call_ns + float(summary["schedule"]["cost"]), lines(needed))


def lines(size: int) -> int:
    """Return a size rounded up to whole lines. Units: bytes."""
    return -(-size // LINE_BYTES) * LINE_BYTES


def near_of(machine: Machine) -> GraphCache:
    """Return the largest private cache of a core, and the additional time per byte of the next level.

    A machine without one has no near memory.
    """
    memories = Memories.of(machine)
    own = [n for n, cache in enumerate(memories.caches) if not cache.shared and cache.cores == 1]
    if not own:
        return GraphCache(0, 0.0)
    cache, behind = memories.caches[own[-1]], memories.caches[own[-1] + 1 :]
    speed = behind[0].bandwidth_bytes_per_ns if behind else memories.beyond_bytes_per_ns
    lost = max(0.0, 1 / speed - 1 / cache.bandwidth_bytes_per_ns)
    return GraphCache(int(cache.usable_factor * cache.capacity_bytes) // LINE_BYTES * LINE_BYTES, lost)
