"""Memory for workspaces: zeros of the size that is asked for, which begin on a large page where that pays."""

from __future__ import annotations

import ctypes
import mmap

import pytest

from isamap.run.in_process import LEAST_BYTES, PAGE_BYTES, large_room
from isamap.run.worker import GuardedMemory


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
