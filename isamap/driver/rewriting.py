"""A kernel's legal rewrites, each matched: which of them a machine performs more of.

`Y[n, k, p] += X[n, c, p + r] * F[c, r] * G[k, c]` matches nothing; as two statements, the second is a matrix
product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isamap.driver.matching import match_parsed
from isamap.driver.pipeline import complete_sizes
from isamap.driver.request import Size
from isamap.ir import Kernel, bind
from isamap.machine import Machine
from isamap.match import CountMode
from isamap.report.forms import Form
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import Rewrite, factorisations, rewrites


def forms_of(
    source: Source,
    machine: Machine,
    sizes: Mapping[str, Size] | None = None,
    mode: CountMode = "complete",
    instruction: str | None = None,
) -> tuple[Form, ...]:
    """The kernel as written, and then its rewrites, the best first. Raises: IsamapError for a wrong text."""
    kernel = parse_kernel(source)
    values = complete_sizes(kernel, sizes) if sizes else {}

    def form(rewrite: Rewrite) -> Form:
        bound = bind(rewrite.kernel, values) if values else rewrite.kernel
        matched = match_parsed(bound, machine, values, mode)
        return Form(rewrite.kernel, rewrite.steps, matched.only(instruction))

    written = form(Rewrite(kernel, ()))
    found = [form(rewrite) for rewrite in _distinct(kernel)]
    cheapest = len(factorisations(kernel))
    order = sorted(enumerate(found), key=lambda f: _key(f[1], written, f[0] if f[0] < cheapest else None))
    return (written, *(f for _, f in order))


def _key(form: Form, written: Form, cheapness: int | None) -> tuple[object, ...]:
    """What forms are ordered by: those that match more first, of sums taken apart the cheapest first."""
    rank = tuple(-n for n in form.rank)
    apart = (1, 0) if cheapness is None else (0, cheapness)
    return (form.rank <= written.rank, form.unperformed, form.tally.count == 0, apart, rank)


def _distinct(kernel: Kernel) -> Iterator[Rewrite]:
    """Ways to take sums apart, the cheapest first, then all other rewrites; none twice."""
    seen = {kernel}
    for rewrite in (*factorisations(kernel), *rewrites(kernel)):
        if rewrite.kernel not in seen:
            seen.add(rewrite.kernel)
            yield rewrite
