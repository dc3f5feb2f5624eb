"""The child process for graph problems: one problem per input line, one answer per output line.

python -m isamap.scheduler.graphs.graph_solver MEMORY_BYTES
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

from isamap.scheduler.graphs.devices import DeviceWindow, deal
from isamap.scheduler.graphs.window import Window, decide
from isamap.scheduler.process.children import READY
from isamap.scheduler.process.solve import limit_memory
from isamap.source.codec import read_value, write


def main() -> None:
    """Answer problems from standard input until it ends."""
    limit_memory(int(sys.argv[1]))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever is printed is not an answer
    import_module("ortools.sat.python.cp_model")
    answers.write(READY)
    try:
        for line in sys.stdin.buffer:
            job = read_value(line)
            assert isinstance(job, Window | DeviceWindow), type(job)
            found = decide(job) if isinstance(job, Window) else deal(job)
            answers.write(write(found).encode() + b"\n")
    except Exception:  # noqa: BLE001 - the caller reads what it was
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
