"""How far apart the copies of a buffer lie that threads have of their own."""

from __future__ import annotations

from dataclasses import replace

from isamap.ir import Index
from isamap.lower.parallel_parts import copy_stride
from isamap.machine import line_bytes, load_machine


def test_copies_of_threads_are_whole_lines_of_the_machine_apart() -> None:
    stated, unstated = load_machine("generic-c"), load_machine("model-f32")
    longer = replace(unstated.model, line_bytes=1024)
    assert (line_bytes(stated), line_bytes(unstated)) == (64, 0)
    strides = [
        copy_stride(Index.of(65), 4, machine).value
        for machine in (stated, replace(stated, model=longer), unstated, replace(unstated, model=longer))
    ]
    assert strides == [128, 128, 128, 256], "a model's line counts only where caches state none"
