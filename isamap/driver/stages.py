"""The stages of a compilation and the passes of the stage `lower`, in order, with a clock per stage.

| stage | what it makes |
|---|---|
| parse | the kernel's text typed and bound to sizes, the machine's description read |
| transform | guards made explicit; with `--transform`, the form of the kernel that is compiled |
| match | all mappings of every statement |
| formulate | the problem: mappings that may win, with what each costs |
| schedule | the schedule, by the heuristic and the solver |
| check | the schedule judged. Warnings about what is slow |
| lower | the program, pass by pass, judged |
| emit | C |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from isamap.source.records import dataclass, field

STAGES = ("parse", "transform", "match", "formulate", "schedule", "check", "lower", "emit")
# As in the table that is run (`workspace_packing.ALL_PASSES`), which brings most of the compiler.
PASS_NAMES = (
    "loops",
    "hold",
    "stage",
    "parallel",
    "overlap",
    "peel",
    "expand",
    "pipeline",
    "hoist",
    "chains",
    "registers",
    "configure",
    "barriers",
    "workspace",
)


Watch = Callable[[str], None]
"""Told the name of each stage when it begins, or goes on."""


@dataclass(slots=True)
class Clock:
    """The time of each stage without nested stages. Units: `seconds`."""

    watch: Watch = lambda _: None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    running: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    @contextmanager
    def __call__(self, stage: str) -> Generator[None]:
        """Time the code inside. A stage that ran before is resumed."""
        self._stop()
        self.running.append((stage, time.perf_counter()))
        self.watch(stage)
        try:
            yield
        finally:
            self._stop()
            self.running.pop()
            if self.running:
                outer, _ = self.running[-1]
                self.running[-1] = outer, time.perf_counter()
                self.watch(outer)

    def _stop(self) -> None:
        """Add the time since the current stage was resumed."""
        if self.running:
            stage, since = self.running[-1]
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - since
