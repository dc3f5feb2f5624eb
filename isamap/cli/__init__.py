"""The command line: `isamap COMMAND …`. Requests without need of other modules are answered before any import."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

INTERRUPTED = 130
YOUNG = 200_000
"""So many new objects, some 20 MB, wait for the first search for cycles in this process."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of a command line, by default this process's. Ctrl-C ends it with 130."""
    if arguments is None:
        gc.set_threshold(
            YOUNG
        )  # cycles are rare here, and a search after each 700 objects takes a tenth of the time
    try:
        code = _main(arguments)
    except KeyboardInterrupt:  # while modules are imported: behind that `run` catches it
        sys.stderr.write("interrupted\n")
        code = INTERRUPTED
    if code == INTERRUPTED and arguments is None:
        # Python dies of the signal after all where it came inside of an `exec`, as dataclasses have them.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)
    if arguments is None:
        gc.freeze()  # else Python searches all objects for cycles before it ends: a quarter of a compilation
    return code


def _main(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        from isamap.cli.terminal import prepare_streams, write_answer
        from isamap.version import describe_version

        prepare_streams()
        return write_answer(f"{describe_version()}\n", 0)
    if words[:1] == ["--complete"]:
        from isamap.cli.completion import complete
        from isamap.cli.terminal import write_answer

        return write_answer("".join(f"{word}\n" for word in complete(words[1:])), 0)
    from isamap.cli.command_line import run

    return run(words)
