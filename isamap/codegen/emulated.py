"""What a program for another architecture is asked, and what it answers: bytes on its standard streams.

The program needs nothing of the other architecture but an emulator of its instructions: emitted functions are
linked statically with `isamap_served.c`, which reads calls and writes results. Numbers have 64 bits, least
byte first. A request is a count of calls. Each of them has a header: the length of the function's name, the
place of operands (free, before a page that must not be touched, or behind one), and how many operands and
numbers there are. The name and the numbers follow; then for each operand how many bytes it has, how many lie
between it and the page, and its bytes.
A result is a status, the bytes of workspace, and the bytes of all operands.

A program's last operand is its struct of arguments, in which pairs of numbers say where addresses belong.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from isamap.codegen.worker import make_arguments

_PLACES = {"free": 0, "at-end": 1, "at-start": 2}
_COUNT_BYTES, _WORD = 8, 8
_HEADER, _MAIN, _TABLE = "isamap_served.h", "isamap_served.c", "isamap_table.c"


@cache
def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def served_files(
    functions: Sequence[str], are_programs: bool, needed: Sequence[tuple[str, int, int]] = ()
) -> dict[str, str]:
    """The files of a program around functions; `needed` are features, and the bits that tell of them."""
    lines = [f'#include "{_HEADER}"']
    rows: list[str] = []
    for name in functions:
        if are_programs:
            lines.append(f"int {name}(const void *, void *, void *);")
            lines.append(f"size_t {name}_workspace_bytes(const void *);")
            rows.append(f'  {{"{name}", {name}, {name}_workspace_bytes, 0}},')
        else:
            lines.append(f"void {name}(unsigned char *const *, const int64_t *);")
            rows.append(f'  {{"{name}", 0, 0, {name}}},')
    lines += ["const isamap_function isamap_functions[] = {", *rows, "  {0, 0, 0, 0},", "};"]
    bits = [f'  {{"{name}", {key}, {bit}}},' for name, key, bit in needed]
    lines += ["const isamap_feature isamap_needed[] = {", *bits, "  {0, 0, 0},", "};"]
    return {_HEADER: _file(_HEADER), _MAIN: _file(_MAIN), _TABLE: "\n".join(lines) + "\n"}


def request_of(job: dict[str, Any]) -> bytes:
    """The bytes that ask for a job's calls, with their operands out of its shared file."""
    with _shared(job) as shared:
        if "calls" in job:
            calls = [_check(shared, *call) for call in job["calls"]]
        else:
            calls = [_program(shared, job, place) for place in _places(job)]
    return b"".join([_words(len(calls)), *calls])


def keep_results(job: dict[str, Any], output: bytes) -> dict[str, Any]:
    """The answer to a job, whose results go to its shared file: those of all calls that returned."""
    with _shared(job) as shared:
        if "calls" in job:
            return _keep_checks(shared, job["calls"], output)
        return _keep_program(shared, job, output)


# --- instructions -----------------------------------------------------------------------------------------


def _check(
    shared: mmap.mmap, name: str, places: Sequence[tuple[int, int, int]], numbers: Sequence[int]
) -> bytes:
    operands = [(shared[offset : offset + size], slack) for offset, size, slack in places]
    return _call(name, "at-end", operands, numbers)


def _keep_checks(shared: mmap.mmap, calls: Sequence[Any], output: bytes) -> dict[str, Any]:
    at = done = 0
    for _, places, _ in calls:
        end = at + 2 * _WORD + sum(size for _, size, _ in places)
        if end > len(output):
            break
        at += 2 * _WORD
        for offset, size, _ in places:
            shared[offset : offset + size] = output[at : at + size]
            at += size
        done += 1
    shared[0:_COUNT_BYTES] = done.to_bytes(_COUNT_BYTES, "little")
    return {"done": done}


# --- programs ---------------------------------------------------------------------------------------------


def _places(job: dict[str, Any]) -> tuple[str, ...]:
    return ("at-end", "at-start") if job["guard"] else ("free",)


def _arguments(job: dict[str, Any]) -> ctypes.Structure:
    """The struct, without its addresses. Both sides lay it out alike: 64 bits, the least byte first."""
    return make_arguments(job["fields"], [0] * len(job["regions"]))


def _program(shared: mmap.mmap, job: dict[str, Any], place: str) -> bytes:
    arguments = _arguments(job)
    operands = [(shared[offset : offset + size], 0) for offset, size in job["regions"]]
    operands.append((bytes(arguments), 0))
    numbers: list[int] = []
    for position, (kind, _, value) in enumerate(job["fields"]):
        if kind == "pointer":
            numbers += [getattr(type(arguments), f"f{position}").offset, value]
    return _call(job["function"], place, operands, numbers)


def _keep_program(shared: mmap.mmap, job: dict[str, Any], output: bytes) -> dict[str, Any]:
    sizes = [size for _, size in job["regions"]]
    whole = 2 * _WORD + sum(sizes) + ctypes.sizeof(_arguments(job))
    runs = [output[n * whole : (n + 1) * whole] for n in range(len(_places(job)))]
    if any(len(run) != whole for run in runs):
        return {}
    first = runs[0]
    data = slice(2 * _WORD, 2 * _WORD + sum(sizes))
    if any(run[data] != first[data] for run in runs[1:]):
        return {"error": "unstable"}
    at = data.start
    for offset, size in job["regions"]:
        shared[offset : offset + size] = first[at : at + size]
        at += size
    status = int.from_bytes(first[:_WORD], "little", signed=True)
    return {
        "status": status,
        "times": [],
        "workspace_bytes": int.from_bytes(first[_WORD : 2 * _WORD], "little"),
    }


# --- bytes ------------------------------------------------------------------------------------------------


def _call(name: str, place: str, operands: Sequence[tuple[bytes, int]], numbers: Sequence[int]) -> bytes:
    word = name.encode()
    parts = [_words(len(word), _PLACES[place], len(operands), len(numbers)), word, _words(*numbers)]
    for data, slack in operands:
        parts += [_words(len(data), slack), data]
    return b"".join(parts)


def _words(*numbers: int) -> bytes:
    return b"".join((n % (1 << 64)).to_bytes(_WORD, "little") for n in numbers)


@contextmanager
def _shared(job: dict[str, Any]) -> Generator[mmap.mmap]:
    with mmap.mmap(job["file"], max(job["size"], 1)) as shared:
        yield shared
