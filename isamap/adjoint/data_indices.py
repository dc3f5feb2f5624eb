"""Derivatives where indices are made of data: what has one, and the arrays that indices are made of.

    C[m, n] += s[m] * val[p] * B[col[p], n]     for p in row[m]..row[m + 1]

By s it is a sum over the same loops. By `B` it would be added up at rows that `col` names, and by `val` at
places that begin where `row` says; results are at no such places (docs/sparse.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.adjoint.building import refused
from isamap.ir import Axis, Index
from isamap.ir.index import elements_of, has_elements
from isamap.ir.walk import indices
from isamap.source import Span
from isamap.transform.statements import Statement


def is_data_bound(axes: Sequence[Axis]) -> bool:
    """Whether data says how long one of the loops is."""
    return any(has_elements(a.extent) for a in axes)


def check_gathered(name: str, index: Sequence[Index], span: Span | None) -> None:
    """Nothing where no data says which element of `name` a derivative is added to. Raises: UsageProblem."""
    arrays = dict.fromkeys(e.buffer for i in index for e in elements_of(i))
    if arrays:
        by = " and ".join(f"`{a}`" for a in arrays)
        raise refused(
            f"the derivative by `{name}` would be added up at places made of {by}",
            span,
            f"leave `{name}` out of --by, and write its derivative over the transposed pattern: "
            "a kernel that reads where this one would write",
        )


def arrays_of_indices(s: Statement) -> set[str]:
    """The arrays of which subscripts, bounds of loops and numbers in a statement's expressions are made."""
    a = s.assign
    found = [axis.extent for axis in (*s.axes, *s.sequence)]
    for expr in (a.target, a.value, *((a.guard,) if a.guard is not None else ())):
        found += indices(expr)
    return {e.buffer for i in found for e in elements_of(i)}
