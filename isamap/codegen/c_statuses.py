"""The status codes of a program: success, or the reason why it has not started."""

from __future__ import annotations

STATUSES: tuple[tuple[str, str], ...] = (
    ("OK", "done"),
    ("NULL_POINTER", "args, a tensor, or a workspace that is needed is missing"),
    ("POOL_NOT_NULL", "this program runs on one thread: pool must be NULL"),
    ("SIZE_OUT_OF_RANGE", "a run-time size is outside of the range that the program was made for"),
    (
        "BAD_STRIDE",
        "a stride is no multiple of the element size, not the one it was made for, or lets results overlap",
    ),
    ("REQUIREMENT_NOT_MET", "sizes, strides or alignments do not meet the kernel's requirements"),
    ("WRONG_LAYOUT", "a packed tensor was not packed by this program's own packing, or for other sizes"),
    ("WRONG_LENGTH", "this processor's vectors are not as long as the program was made for"),
    ("BAD_INDEX", "an input of indices holds a value that is out of its range, or below the one before it"),
)
"""The status codes in numeric order, with their meanings."""
