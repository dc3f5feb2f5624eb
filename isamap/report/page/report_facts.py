"""The facts of a report about one compilation. Renderers add none.

Report("gemm_f32", "x86-avx512", "bound by the fma units: 91 % …", panes=(Pane("kernel", …), …), …)
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.report.columns import Row
from isamap.report.explained import Explained
from isamap.report.page.memories import MemoryUse
from isamap.report.page.timeline import Timeline
from isamap.report.page.traffic import LevelBytes
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of a line, from character `start` to `end`, with a narrower subject than the line."""

    start: int
    end: int
    own: tuple[str, ...]
    inside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubjectLine:
    """A line of a text with its subjects.

    `own` has the subjects of the line itself: `s0` is a statement, `s0.m.1` a loop, `s0.stage.b` a decision.
    `inside` has these and the subjects around them. Lines of different texts with a common name are highlighted
    together. `marks` are pieces of the line, from the left: several loops, or a loop and its statement.
    """

    text: str
    own: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Pane:
    """A text in lines, such as the kernel, the schedule or the code. `left_out` more lines are not shown."""

    name: str
    title: str
    lines: tuple[SubjectLine, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report page, in display order.

    `figures` are numbers with their units, by label. `explained` has the mapping, its tree of loops, time
    in parts, rooflines and runners-up. `timeline` is None if `no_timeline` gives a reason. `accesses` is a
    table, its header first, of bytes per statement, level and operand. `notes` are warnings of the
    compiler.
    """

    kernel: str
    machine: str
    sizes: str
    sentence: str
    figures: tuple[tuple[str, str], ...]
    panes: tuple[Pane, ...]
    mappings: tuple[Row, ...]
    explained: Explained
    timeline: Timeline | None
    no_timeline: str
    memories: tuple[MemoryUse, ...]
    levels: tuple[LevelBytes, ...]
    accesses: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The kernel and the machine of the compilation."""
        return f"{self.kernel} on {self.machine}"


def names_in(panes: tuple[Pane, ...]) -> Iterator[str]:
    """Yield all names in the lines of panes, without repetitions, in order."""
    yield from dict.fromkeys(name for pane in panes for line in pane.lines for name in line.inside)
