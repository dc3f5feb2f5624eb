"""Memory for workspaces: zeros of the size that is asked for, which begin on a large page where that pays."""

from __future__ import annotations

import ctypes
import mmap
import re
from pathlib import Path

import numpy as np
import pytest

from isamap.run.in_process import LEAST_BYTES, PAGE_BYTES, large_room
from isamap.run.worker import GuardedMemory, private_memory
from isamap.source.files import release

_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) .*\n((?:[A-Z].*\n)+)", re.MULTILINE)


@pytest.mark.parametrize("size_bytes", [0, 1, 4096, LEAST_BYTES, PAGE_BYTES, 3 * PAGE_BYTES + 5])
def test_a_room_is_as_large_as_asked_for_and_zero(size_bytes: int) -> None:
    room = large_room(size_bytes)
    assert len(room) == max(size_bytes, 1)
    assert bytes(room) == bytes(max(size_bytes, 1))
    room[-1] = b"x"
    assert room[-1] == b"x"


def test_a_large_room_begins_on_a_large_page() -> None:
    assert ctypes.addressof(large_room(PAGE_BYTES)) % PAGE_BYTES == 0


def test_a_room_outlives_what_it_was_made_of() -> None:
    rooms = [large_room(LEAST_BYTES) for _ in range(20)]
    for number, room in enumerate(rooms):
        ctypes.memset(room, number, LEAST_BYTES)
    assert [room[0][0] for room in rooms] == list(range(20))


@pytest.mark.parametrize("advice", [None, 9999])
def test_a_system_without_large_pages_gives_small_ones(
    advice: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python does not know them, or the system refuses: here advice that no system knows."""
    if advice is None:
        monkeypatch.delattr("mmap.MADV_HUGEPAGE", raising=False)
    else:
        monkeypatch.setattr("mmap.MADV_HUGEPAGE", advice, raising=False)
        with pytest.raises(OSError, match="Invalid argument"):
            mmap.mmap(-1, 4096).madvise(advice)
    assert len(large_room(PAGE_BYTES)) == PAGE_BYTES
    assert GuardedMemory(4 * PAGE_BYTES, "at-end").size == 4 * PAGE_BYTES


def test_large_memory_may_have_large_pages() -> None:
    """Linux ignores the request for shared memory unless its administrator allows it there."""
    smaps = Path("/proc/self/smaps")
    if not smaps.exists() or not hasattr(mmap, "MADV_HUGEPAGE"):
        pytest.skip("this system does not list the flags of its mappings")
    room, guarded = large_room(PAGE_BYTES), GuardedMemory(4 * PAGE_BYTES, "free")
    own = {"a room": ctypes.addressof(room), "memory of a tensor": guarded.address}
    found: dict[str, tuple[str, bool]] = {}
    for first, last, rights, rest in _MAPPING.findall(smaps.read_text()):
        for name, address in own.items():
            if int(first, 16) <= address < int(last, 16):
                found[name] = rights[3], " hg" in rest
    assert found == dict.fromkeys(own, ("p", True))


def test_releasing_a_file_keeps_memory_of_this_process() -> None:
    memory = private_memory(PAGE_BYTES, large_pages=True)
    memory[:4] = b"kept"
    release(np.frombuffer(memory, np.uint8))
    assert memory[:4] == b"kept"
