"""A contender ends with the process that started it, however that one ended.

It is stopped outside its turns, and what is stopped does not see that its pipe was closed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # Linux, prctl(2)


def end_with(parent: int) -> None:
    """Has the system kill this process when its parent ends, on Linux; at once where it has ended already."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
