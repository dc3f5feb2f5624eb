"""An emulator of another processor, which stands in front of the child process that runs emitted code.

`Emulator.read("qemu-x86_64 -cpu max")` has `qemu-x86_64 -cpu max python worker.py` run in place of
`python worker.py`: any command that runs the words behind its own, and hands on its input and open files.
"""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass

from isamap.source import Diagnostic, MissingTool, UsageProblem

SLOWER = 100
"""How many times as long as a processor an emulator may take until it counts as hung."""
_SHELLS_ADD = 128
_MOST_SIGNALS = 64


@dataclass(frozen=True, slots=True)
class Emulator:
    """The words of a command that runs the command behind them on a processor of its own."""

    words: tuple[str, ...]

    @staticmethod
    def read(text: str) -> Emulator:
        """The emulator that a text names, quoted as for a shell; no shell reads it.

        Raises: UsageProblem for a text without words or with a quote left open; MissingTool where there is no
        such program.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            said = f"`{text}` is no command: {str(error).lower()}"
            raise UsageProblem(Diagnostic("usage", said, help="quote it as for a shell")) from None
        if not words:
            said, help_ = "an emulator needs a command", "such as `qemu-x86_64 -cpu max`"
            raise UsageProblem(Diagnostic("usage", said, help=help_))
        if shutil.which(words[0]) is None:
            help_ = "give its path, or put its folder on PATH"
            raise MissingTool(Diagnostic("no-emulator", f"there is no program `{words[0]}` here", help=help_))
        return Emulator(tuple(words))

    def __str__(self) -> str:
        return shlex.join(self.words)


def ended_by(code: int) -> int:
    """What a process reports that an emulator ended with `code`: minus a signal's number, as of a child.

    Emulators that start what they run as a child of theirs say 128 and the number, as shells do.
    """
    return _SHELLS_ADD - code if _SHELLS_ADD < code <= _SHELLS_ADD + _MOST_SIGNALS else code
