"""What each pass of lowering leaves, written to a folder as it is made: before a failure, all up to it.

01-loops.txt  02-hold.txt  03-stage.txt  …  11-workspace.txt
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isamap.lower.passes import State
from isamap.report.passes import print_state
from isamap.source import Diagnostic, UsageProblem


@dataclass(slots=True)
class Dump:
    """Writes each state that it is told of; files of those names are replaced."""

    folder: Path
    count: int = 0

    def __call__(self, name: str, state: State) -> None:
        """Raises: UsageProblem where nothing can be written."""
        self.count += 1
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{self.count:02}-{name}.txt"
            path.write_text(print_state(state), encoding="utf-8", newline="\n")
        except OSError as error:
            said = f"{self.folder} cannot be written: {error.strerror}"
            raise UsageProblem(Diagnostic("output-unwritable", said, help="name another folder")) from None
