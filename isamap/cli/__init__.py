"""The command line: `isamap COMMAND …`. What need not wait for imports is answered before them."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command line; by default that of this process."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        from isamap.cli.terminal import prepare_streams, write_answer
        from isamap.version import __version__

        prepare_streams()
        return write_answer(f"isamap {__version__}\n", 0)
    from isamap.cli.running import run

    return run(words)
