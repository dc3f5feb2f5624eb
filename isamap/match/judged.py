"""The conditions of a pairing asked of many groups of axes: of the same few they are asked over and over.

tdpbf16ps of a convolution: 900 mappings are made of some 200 groups
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isamap.match.exact import Space
from isamap.match.mapping import AxisGroup
from isamap.match.validity import Condition, verdict, with_lanes


@dataclass(frozen=True, slots=True)
class Met:
    """A group that was met: its number, with lanes as `%i`, and which conditions speak of it."""

    number: int
    group: AxisGroup
    concerns: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """What is known of the conditions of a pairing: by their numbers and those of the groups concerned.

    Numbers are compared sooner than groups.
    """

    conditions: tuple[Condition, ...]
    space: Space
    met: dict[AxisGroup, Met] = field(default_factory=dict[AxisGroup, Met])
    known: dict[tuple[int, ...], bool] = field(default_factory=dict[tuple[int, ...], bool])

    def hold(self, groups: tuple[AxisGroup, ...]) -> bool:
        """Whether all conditions hold of the groups of a mapping, or of some of them."""
        met = [self.met.get(group) or self._meet(group) for group in groups]
        for number, condition in enumerate(self.conditions):
            question = (number, *[own.number for own in met if own.concerns[number]])
            holds = self.known.get(question)
            if holds is None:
                concerned = tuple([own.group for own in met if own.concerns[number]])
                holds = verdict(condition.sides, concerned, self.space) == "holds"
                self.known[question] = holds
            if not holds:
                return False
        return True

    def _meet(self, group: AxisGroup) -> Met:
        apart, names = with_lanes(group)
        concerns = tuple([not condition.symbols.isdisjoint(names) for condition in self.conditions])
        met = self.met[group] = Met(len(self.met), apart, concerns)
        return met
