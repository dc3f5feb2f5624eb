"""The scope of a node: the values that it sees by name, operator versions, and the depth of functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isamap.graph.making import Value

Names = dict[str, Value | None]
"""Values by name; None for those whose node was refused."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The names in scope.

    `names` grows with each node. `opsets` has a version for each domain. The depth counts the functions and
    graphs around the node.
    """

    names: Names
    opsets: Mapping[str, int]
    depth: int = 0

    def inside(self, names: Names, opsets: Mapping[str, int] | None = None) -> Scope:
        """Return the scope of a function or graph that is lowered in place, with its own names."""
        return Scope(names, self.opsets if opsets is None else opsets, self.depth + 1)
