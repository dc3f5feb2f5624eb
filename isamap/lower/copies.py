"""Copy loops: elements moved between arrays, by the widest move of the machine that fits, else one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isamap.ir import Expr, Index, Read, print_expr, substitute_expr
from isamap.lower.names import Names
from isamap.lower.program import For, Node
from isamap.lower.values import Emitter
from isamap.match import Suppliers, Supply, Want, find_delivery, widths
from isamap.source import Diagnostic, NoMapping


@dataclass(frozen=True, slots=True)
class Copy:
    """`target = value` for every point of `counters`, symbols from 0 on; no two points write one element."""

    target: Read
    value: Expr
    counters: tuple[str, ...]


def copy_loops(
    copy: Copy, counts: Mapping[str, Index], suppliers: Suppliers, names: Names
) -> tuple[Node, ...]:
    """The loops of a copy. Raises: NoMapping when the machine cannot even move one element."""
    lane, width, delivery = _widest(copy, counts, suppliers)
    bindings: dict[str, Index] = {}
    variables: list[tuple[str, Index]] = []
    order = [c for c in copy.counters if c != lane] + ([lane] if lane is not None else [])
    for counter in order:
        trips = counts[counter].floordiv(width) if counter == lane else counts[counter]
        if trips.value == 1:
            bindings[counter] = Index.of(0)
            continue
        variable = names.fresh(counter.strip("~"))
        variables.append((variable, trips))
        bindings[counter] = Index.of(variable) * (width if counter == lane else 1)
    emitter = Emitter(names)
    emitter.deliver(delivery, bindings)
    body: tuple[Node, ...] = tuple(emitter.nodes)
    for variable, trips in reversed(variables):
        body = (For(variable, trips, body),)
    return body


def _widest(copy: Copy, counts: Mapping[str, Index], suppliers: Suppliers) -> tuple[str | None, int, Supply]:
    """The counter to run lanes over, how many lanes, and the delivery of one such group."""
    best: tuple[float, str | None, int, Supply] | None = None
    for counter in copy.counters:
        for width in widths(suppliers, copy.target.dtype):
            count = counts[counter].value
            if count is None or count % width:
                continue
            found = _delivery(copy, counter, width, suppliers)
            if found is not None and (best is None or found.cost_ns / width < best[0]):
                best = (found.cost_ns / width, counter, width, found)
    if best is not None:
        return best[1], best[2], best[3]
    single = find_delivery(
        suppliers, copy.target, copy.value, "", None, Want(copy.value, "", copy.value.dtype, (), ())
    )
    if single is None:
        raise NoMapping(
            Diagnostic(
                "no-move",
                f"{suppliers.machine.name} cannot move `{print_expr(copy.value)}` "
                f"to `{print_expr(copy.target)}`",
                help=f"give the machine instructions that compute {copy.value.dtype} values one at a time "
                "and store them, as generic-c does",
            )
        )
    return None, 1, single


def _delivery(copy: Copy, counter: str, width: int, suppliers: Suppliers) -> Supply | None:
    lanes = {counter: Index.of(counter) + Index.of("%0")}
    target = substitute_expr(copy.target, lanes)
    value = substitute_expr(copy.value, lanes)
    assert isinstance(target, Read)
    return find_delivery(suppliers, target, value, "", None, Want(value, "", value.dtype, (width,), (None,)))
