"""Names of variables, values and buffers of one program, each given once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from isamap.lower.program import Buffer, Pack


@dataclass
class Names:
    """Hands out names; `buffers` collects the workspace as it is claimed, `packs` what is copied before."""

    taken: set[str]
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    packs: list[Pack] = field(default_factory=list[Pack])

    def fresh(self, stem: str) -> str:
        """A name that nothing else has, made from `stem`."""
        stem = re.sub(r"\W", "", stem) or "x"
        while True:
            number = self.counts.get(stem, 0)
            self.counts[stem] = number + 1
            name = f"{stem}{number}"
            if name not in self.taken:
                self.taken.add(name)
                return name

    def exactly(self, name: str) -> str:
        """This name, or one made from it where something else has it."""
        if name in self.taken:
            return self.fresh(name)
        self.taken.add(name)
        return name
