"""Nodes that one kernel performs: an anchor, if any, and operations on single elements behind it.

addmm -> view -> gelu -> mul       one kernel: a product, and what is done to each element of it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from isamap.torch.graph import base_of, is_anchor, is_result, is_view, lying, name_of, refusal
from isamap.torch.patterns import broadcast, reshaped
from isamap.torch.pointwise import is_pointwise, terms_of
from isamap.torch.terms import first_of

MOST_MEMBERS = 24
"""Statements of one kernel; what it takes to find a schedule grows with them."""


@dataclass(slots=True)
class Group:
    """Nodes in the order of the graph, the shape of all of them, and the anchor if there is one."""

    sizes: tuple[int, ...]
    members: list[Any] = field(default_factory=list[Any])
    anchor: Any = None


def find_groups(graph: Any) -> tuple[list[Group], dict[Any, str]]:
    """The groups of a graph, and why other nodes are in none."""
    nodes, refused = list(graph.nodes), dict[Any, str]()
    of: dict[Any, Group] = {}
    groups: list[Group] = []
    for node in nodes:
        if node.op != "call_function":
            continue
        if is_result(node) and (group := of.get(node.args[0])) is not None:
            group.members.append(node)
            of[node] = group
            continue
        if is_view(node) or is_result(node):
            continue
        reason = refusal(node)
        if reason is not None:
            refused[node] = reason
            continue
        group = None if is_anchor(node) else _joined(node, of)
        if group is None:
            group = Group(_sizes(node), anchor=node if is_anchor(node) else None)
            groups.append(group)
        group.members.append(node)
        of[node] = group
    return groups, refused


def _sizes(node: Any) -> tuple[int, ...]:
    return tuple(first_of(node).shape)


def _joined(node: Any, of: dict[Any, Group]) -> Group | None:
    """The group of an argument that a node can go on with: the latest one."""
    found = [of[base] for term in node.all_input_nodes if (base := base_of(term)) in of]
    for group in sorted(found, key=lambda g: (g.anchor is None, -len(g.members))):
        if len(group.members) < MOST_MEMBERS and _fits(node, group, of) and _is_free(node, group, of):
            return group
    return None


def _fits(node: Any, group: Group, of: dict[Any, Group]) -> bool:
    """Whether a node goes over the elements of a group one by one, and all that it reads does."""
    sizes = _sizes(node)
    if prod(sizes) != prod(group.sizes):
        return False
    walks = [node, *(t for t in terms_of(node, name_of(node)) if hasattr(t, "meta"))]
    for term in walks:
        if of.get(base_of(term)) is group and term is not node:
            if not is_within(term, sizes):
                return False
            continue
        found = lying(term)
        strides = broadcast(found.sizes, found.strides, sizes)
        if reshaped(sizes, strides, group.sizes) is None:
            return False
    return True


def is_within(term: Any, sizes: tuple[int, ...]) -> bool:
    """Whether a value of a group is read element by element, not repeated along an axis."""
    return prod(_sizes(term)) == prod(sizes)


def _is_free(node: Any, group: Group, of: dict[Any, Group]) -> bool:
    """Whether nothing that a node needs waits for the group from outside of it."""
    inside = set(group.members)
    seen: set[Any] = set()
    waiting = [t for t in node.all_input_nodes if base_of(t) not in inside]
    while waiting:
        found = waiting.pop()
        if found in inside:
            return False
        if found in seen:
            continue
        seen.add(found)
        other = of.get(found)
        if other is not None:
            waiting += [i for m in other.members for i in m.all_input_nodes if i not in seen]
        waiting += found.all_input_nodes
    return True


def is_used_outside(node: Any, group: Group) -> bool:
    """Whether a value of a group is needed by another, or by the caller."""
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
    """Whether a reshaped value is read in the group only."""
    return bool(view.users) and all(
        (user in inside and is_within(view, _sizes(user)))
        or (base_of(user) is not user and _leads_inside(user, inside))
        for user in view.users
    )
