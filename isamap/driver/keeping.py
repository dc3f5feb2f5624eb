"""Choose the arrays that a forward pass keeps for its derivative: those that cost more to recompute.

    choose_kept(kernel, (), (), "host", {"T": 8, …})    ->  kept=("u", "h_1"), and the cost of each choice

The cost of a choice is the predicted time of the forward kernel, with its stores, and of the backward kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from isamap.adjoint import Derivative, differentiate
from isamap.driver.inputs import find_profile
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request, Size
from isamap.ir import Kernel, print_routine
from isamap.source import Source, dataclass, replace


@dataclass(frozen=True, slots=True)
class KeptPrice:
    """The predicted time of a choice of arrays to keep. Units: nanoseconds."""

    kept: tuple[str, ...]
    forward_ns: float
    backward_ns: float

    @property
    def ns(self) -> float:
        """Return the time of the forward and the backward kernel. Units: nanoseconds."""
        return self.forward_ns + self.backward_ns


@dataclass(frozen=True, slots=True)
class PricedChoices:
    """The cheapest choice, and all priced ones."""

    made: Derivative
    prices: tuple[KeptPrice, ...]


def choose_kept(
    kernel: Kernel,
    of: Sequence[str],
    by: Sequence[str],
    machine: str,
    sizes: Mapping[str, Size],
    watch: Callable[[str], None] = lambda _: None,
) -> PricedChoices:
    """Return the cheaper of keeping nothing and keeping everything, improved one array at a time.

    Raises: IsamapError if a kernel cannot be performed, or a name is unknown.
    """
    request = Request(
        Source("kernel", ""), machine, sizes, heuristic="greedy", profile=find_profile("default", machine)
    )
    found: dict[tuple[str, ...], tuple[KeptPrice, Derivative]] = {}

    def priced(keep: Sequence[str]) -> KeptPrice:
        made = differentiate(kernel, of, by, keep)
        if made.kept not in found:
            watch(f"price {len(found) + 1}")
            pair = made.forward if made.forward is not None else kernel, made.backward
            found[made.kept] = KeptPrice(made.kept, *(_ns(request, k) for k in pair)), made
        return found[made.kept][0]

    nothing, every = priced(()), priced(differentiate(kernel, of, by).again)
    best = min(nothing, every, key=lambda price: price.ns)
    for name in every.kept:
        other = [n for n in every.kept if (n in best.kept) != (n == name)]
        best = min(best, priced(other), key=lambda price: price.ns)
    return PricedChoices(found[best.kept][1], tuple(price for price, _ in found.values()))


def _ns(request: Request, kernel: Kernel) -> float:
    """Return the predicted time of a kernel. Units: nanoseconds."""
    source = Source(f"{kernel.name}.ir", print_routine(kernel))
    made = compile_kernel(replace(request, kernel=source), "schedule")
    assert made.schedule is not None, "the stages before have run"
    assert made.schedule.cost_ns is not None, "the model prices every schedule"
    return made.schedule.cost_ns
