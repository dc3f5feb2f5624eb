"""Memory for workspaces: in large pages, where the system has them.

Packed panels are read again and again. In pages of 4 KiB they lie anywhere in a cache that is found by
physical addresses, so that parts of a panel which would fit evict each other, and there are more pages than
the first TLB holds: docs/decisions/0020-memory-model.md.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

# The worker is a script that nothing of this package can be imported into: what both need stands there.
from isamap.codegen.worker import ask_for_large_pages

PAGE_BYTES = 2 << 20  # of x86-64, and of Arm with pages of 4 KiB; others are asked for what they have
LEAST_BYTES = 128 << 10  # less lies in few small pages


def large_room(size_bytes: int) -> ctypes.Array[Any]:
    """Zeros that stay as long as the array does, in large pages where that pays and the system has them."""
    if size_bytes < LEAST_BYTES:
        return ctypes.create_string_buffer(max(size_bytes, 1))
    pages = -(-size_bytes // PAGE_BYTES)
    room = mmap.mmap(-1, (pages + 1) * PAGE_BYTES)
    ask_for_large_pages(room)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    return (ctypes.c_char * size_bytes).from_buffer(room, -start % PAGE_BYTES)
