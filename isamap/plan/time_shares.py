"""The time of a scheduled statement in named parts, from the model that priced it."""

from __future__ import annotations

from isamap.source import add_up, dataclass


@dataclass(frozen=True, slots=True)
class TimeShare:
    """A part of the time of a scheduled statement, with its name in reports. Units: nanoseconds.

    In `words`, `{units}` and `{instruction}` stand for the units and the instruction that perform the
    statement.
    """

    name: str
    operand: str
    overlaps: bool
    ns: float
    words: str


@dataclass(frozen=True, slots=True)
class NestTime:
    """The time of one statement, by parts.

    Units: nanoseconds. `total_ns` is the model's cost, which the parts need not add up to.
    """

    statement: int
    total_ns: float
    shares: tuple[TimeShare, ...]

    def sums(self) -> dict[str, float]:
        """Return the nanoseconds of each named part, in order."""
        found: dict[str, float] = {}
        for share in self.shares:
            found[share.name] = found.get(share.name, 0.0) + share.ns
        return found

    @property
    def slowest_ns(self) -> float:
        """The longest of the overlapping parts. Units: nanoseconds."""
        names = {share.name for share in self.shares if share.overlaps}
        return max((ns for name, ns in self.sums().items() if name in names), default=0.0)

    @property
    def rest_ns(self) -> float:
        """The time that the parts do not explain. Units: nanoseconds."""
        names = {share.name for share in self.shares if share.overlaps}
        sums = self.sums()
        return self.total_ns - self.slowest_ns - add_up(ns for name, ns in sums.items() if name not in names)
