"""Group nodes into kernels: an anchor, if any, and the elementwise operations behind it.

addmm -> view -> gelu -> mul       one kernel: a product, and what is done to each element of it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from isamap.graph.patterns import broadcast, reshaped
from isamap.torch.fx_nodes import base_of, is_anchor, is_result, is_view, lying, name_of, refusal
from isamap.torch.node_types import first_of
from isamap.torch.pointwise import is_pointwise, terms_of

MOST_MEMBERS = 24
"""Statements of one kernel; what it takes to find a schedule grows with them."""


@dataclass(eq=False, slots=True)
class Group:
    """Nodes in the order of the graph, the shape of all of them, and the anchor if there is one."""

    sizes: tuple[int, ...]
    members: list[Any] = field(default_factory=list[Any])
    anchor: Any = None


def find_groups(graph: Any) -> tuple[list[Group], dict[Any, str]]:
    """Return the groups of a graph, and why other nodes are in none."""
    place = {node: n for n, node in enumerate(graph.nodes)}
    refused, of = dict[Any, str](), dict[Any, Group]()
    for node in place:
        if node.op != "call_function":
            continue
        if is_result(node) and node.args[0] in of:
            group = of[node.args[0]]
        elif is_view(node) or is_result(node):
            continue
        elif (reason := refusal(node)) is not None:
            refused[node] = reason
            continue
        else:
            group = _joined(node, of) if not is_anchor(node) else Group(_sizes(node), anchor=node)
        group.members = sorted((*group.members, node), key=place.__getitem__)
        of |= dict.fromkeys(group.members, group)
    return list(dict.fromkeys(of.values())), refused


def _sizes(node: Any) -> tuple[int, ...]:
    return tuple(first_of(node).shape)


def _joined(node: Any, of: dict[Any, Group]) -> Group:
    """Return the group that a node goes on with: those of its arguments as far as one kernel may perform them."""
    arguments = [of[base] for term in node.all_input_nodes if (base := base_of(term)) in of]
    found: Group | None = None
    for group in sorted(dict.fromkeys(arguments), key=lambda g: (g.anchor is None, -len(g.members))):
        into = found or group
        members = list(dict.fromkeys((*into.members, *group.members)))
        if group.anchor is not None and group is not into:
            continue
        if len(members) < MOST_MEMBERS and _is_one(into, {*members, node}, of):
            into.members = members
            found = into
    return found or Group(_sizes(node))


def _is_one(group: Group, members: set[Any], of: dict[Any, Group]) -> bool:
    """Return whether one kernel may perform these nodes, which are walked as the group is."""
    single = [m for m in members if m is not group.anchor and not is_result(m)]
    return all(_fits(m, group.sizes, members) for m in single) and _is_closed(members, of)


def _fits(node: Any, expected: tuple[int, ...], inside: set[Any]) -> bool:
    """Return whether a node goes over the elements of a group one by one, and all that it reads does."""
    sizes = _sizes(node)
    if prod(sizes) != prod(expected):
        return False
    for term in (node, *(t for t in terms_of(node, name_of(node)) if hasattr(t, "meta"))):
        if (base := base_of(term)) in inside and term is not node:
            if not is_within(term, sizes) or (is_result(base) and base.args[1] != 0):
                return False
            continue
        found = lying(term)
        if reshaped(sizes, broadcast(found.sizes, found.strides, sizes), expected) is None:
            return False
    return True


def is_within(term: Any, sizes: tuple[int, ...]) -> bool:
    """Return whether a value of a group is read element by element, not repeated along an axis."""
    return prod(_sizes(term)) == prod(sizes)


def _is_closed(inside: set[Any], of: dict[Any, Group]) -> bool:
    """Return whether nothing that these nodes need waits, outside of them, for one of them."""
    seen: set[Any] = set()
    waiting = [i for node in inside for i in node.all_input_nodes if base_of(i) not in inside]
    while waiting:
        found = waiting.pop()
        if found in inside:
            return False
        if found not in seen:
            seen.add(found)
            members = of[found].members if found in of else [found]
            waiting += [i for m in members for i in m.all_input_nodes]
    return True


def is_used_outside(node: Any, group: Group) -> bool:
    """Return whether a value of a group is needed by another, or by the caller."""
    inside = set(group.members)
    for user in node.users:
        if user in inside:
            if _reads_single(node, user):
                continue
            return True
        if base_of(user) is not user and _leads_inside(user, inside):
            continue
        return True
    return False


def _reads_single(node: Any, user: Any) -> bool:
    return is_result(user) or (is_pointwise(name_of(user)) and is_within(node, _sizes(user)))


def _leads_inside(view: Any, inside: set[Any]) -> bool:
    """Return whether a reshaped value is read in the group only."""
    return bool(view.users) and all(
        (user in inside and is_within(view, _sizes(user)))
        or (base_of(user) is not user and _leads_inside(user, inside))
        for user in view.users
    )
