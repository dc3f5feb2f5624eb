"""Long work on small immutable trees without the collector of cycles, which there are none of.

It looks through all that is alive again and again: a quarter of the time that a problem took to build.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """No search for cycles inside; afterwards as before. What nothing refers to is freed all the same."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
