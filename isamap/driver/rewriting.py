"""A kernel's legal rewrites, each matched: which of them a machine performs more of.

`Y[n, k, p] += X[n, c, p + r] * F[c, r] * G[k, c]` matches nothing; as two statements, the second is a matrix
product.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.driver.matching import match_parsed
from isamap.driver.request import Size
from isamap.driver.sizes import complete_sizes
from isamap.ir import bind
from isamap.machine import Machine
from isamap.match import CountMode, Gain, improving_rewrites
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
    """The kernel as written, and then its rewrites, those first with which an instruction performs more.

    Raises: IsamapError where the kernel's text or a size is wrong.
    """
    kernel = parse_kernel(source)
    values = complete_sizes(kernel, sizes) if sizes else {}

    def form(rewrite: Rewrite, gains: tuple[Gain, ...]) -> Form:
        bound = bind(rewrite.kernel, values) if values else rewrite.kernel
        matched = match_parsed(bound, machine, values, mode).only(instruction)
        return Form(rewrite.kernel, rewrite.steps, gains, matched)

    gained = {i.rewrite.kernel: i for i in improving_rewrites(kernel, machine, mode)}
    better: list[Form] = []
    for improvement in gained.values():
        own = tuple(g for g in improvement.gains if instruction in (None, g.instruction))
        if own:
            better.append(form(improvement.rewrite, own))
    seen = {kernel, *(f.kernel for f in better)}
    others: list[Form] = []
    for rewrite in (*factorisations(kernel), *rewrites(kernel)):
        if rewrite.kernel not in seen:
            seen.add(rewrite.kernel)
            others.append(form(rewrite, ()))
    return (form(Rewrite(kernel, ()), ()), *better, *others)
