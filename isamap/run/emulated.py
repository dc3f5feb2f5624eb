"""Run a program for another architecture under an emulator, with calls and results on standard streams.

The program needs only an emulator of the other architecture's instructions: emitted functions are linked
statically with `isamap_served.c`, which reads calls and writes results. Numbers have 64 bits, least byte
first. A request is a count of calls, and then the calls. Each call has a header: the length of the
function's name, the place of operands (free, before a page that must not be touched, or behind one), and
the number of operands and numbers. The name and the numbers follow. Then each operand follows: its bytes,
the gap between it and the page, the bytes of an element, and the data, least byte of each element first. A
program for a big-endian processor swaps them, and swaps results back. A result is a status, the bytes of
workspace, and the bytes of all operands.

A program's numbers are the members of its struct of arguments: for an address the number of its operand,
else the bits of the value. The compiler for that architecture knows their offsets and the size of an
address.
"""

from __future__ import annotations

import mmap
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from isamap.emit.c_interface import Interface
from isamap.run.worker import make_arguments

_PLACES = {"free": 0, "at-end": 1, "at-start": 2}
_COUNT_BYTES, _WORD = 8, 8
_HEADER, _MAIN, _TABLE = "isamap_served.h", "isamap_served.c", "isamap_table.c"


@cache
def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def served_files(
    functions: Sequence[str] | Interface, needed: Sequence[tuple[str, int, int]] = (), support: str = ""
) -> dict[str, str]:
    """Return the files of a program around checks, or around an emitted program.

    `needed` are features, and the bits that tell of them. `support` are functions that libraries may lack.
    """
    lines = [f'#include "{_HEADER}"']
    rows: list[str] = []
    if isinstance(functions, Interface):
        name = functions.name
        lines += _wrap_program(functions)
        rows.append(f'  {{"{name}", call_{name}, bytes_{name}, 0, members, sizeof({name}_args)}},')
    else:
        lines += [f"void {name}(unsigned char *const *, const int64_t *);" for name in functions]
        rows += [f'  {{"{name}", 0, 0, {name}, 0, 0}},' for name in functions]
    lines += ["const isamap_function isamap_functions[] = {", *rows, "  {0, 0, 0, 0, 0, 0},", "};"]
    bits = [f'  {{"{name}", {key}, {bit}}},' for name, key, bit in needed]
    lines += ["const isamap_feature isamap_needed[] = {", *bits, "  {0, 0, 0},", "};"]
    return {_HEADER: _file(_HEADER), _MAIN: _file(_MAIN), _TABLE: "\n".join(lines) + "\n" + support}


def _wrap_program(interface: Interface) -> list[str]:
    """Return functions around an emitted program, and the offsets of its argument struct's members."""
    name = interface.name
    lines = [f'#include "{name}.h"']
    lines.append(f"static int call_{name}(const void *a, void *w, void *p) {{ return {name}(a, w, p); }}")
    lines.append(f"static size_t bytes_{name}(const void *a) {{ return {name}_workspace_bytes(a); }}")
    lines.append("static const isamap_member members[] = {")
    for f in interface.fields:
        at, size = f"offsetof({name}_args, {f.member})", f"sizeof ((({name}_args *)0)->{f.member})"
        lines.append(f"  {{{at}, {size}, {int(f.kind == 'pointer')}}},")
    return [*lines, "  {0, 0, 0},", "};"]


def request_of(job: dict[str, Any]) -> bytes:
    """Return the request for a job's calls, with their operands from its shared file."""
    with _share_memory(job) as shared:
        if "calls" in job:
            calls = [_check(shared, *call) for call in job["calls"]]
        else:
            calls = [_program(shared, job, place) for place in _places(job)]
    return b"".join([_words(len(calls)), *calls])


def keep_results(job: dict[str, Any], output: bytes) -> dict[str, Any]:
    """Store the results of all completed calls in a job's shared file, and return the answer."""
    with _share_memory(job) as shared:
        if "calls" in job:
            return _keep_checks(shared, job["calls"], output)
        return _keep_program(shared, job, output)


# --- instructions -----------------------------------------------------------------------------------------


def _check(
    shared: mmap.mmap, name: str, places: Sequence[tuple[int, int, int, int]], numbers: Sequence[int]
) -> bytes:
    operands = [(shared[offset : offset + size], slack, element) for offset, size, slack, element in places]
    return _call(name, "at-end", operands, numbers)


def _keep_checks(shared: mmap.mmap, calls: Sequence[Any], output: bytes) -> dict[str, Any]:
    at = done = 0
    for _, places, _ in calls:
        end = at + 2 * _WORD + sum(size for _, size, _, _ in places)
        if end > len(output):
            break
        at += 2 * _WORD
        for offset, size, _, _ in places:
            shared[offset : offset + size] = output[at : at + size]
            at += size
        done += 1
    shared[0:_COUNT_BYTES] = done.to_bytes(_COUNT_BYTES, "little")
    return {"done": done}


# --- programs ---------------------------------------------------------------------------------------------


def _places(job: dict[str, Any]) -> tuple[str, ...]:
    return ("at-end", "at-start") if job["guard"] else ("free",)


def _program(shared: mmap.mmap, job: dict[str, Any], place: str) -> bytes:
    operands = [(shared[offset : offset + size], 0, element) for offset, size, element in job["regions"]]
    numbers = [f[2] if f[0] == "pointer" else _bits(f) for f in job["fields"]]
    return _call(job["function"], place, operands, numbers)


def _bits(field: tuple[str, str, Any]) -> int:
    """Return the bits of a member that is no address."""
    return int.from_bytes(bytes(make_arguments([field], [])), "little")


def _keep_program(shared: mmap.mmap, job: dict[str, Any], output: bytes) -> dict[str, Any]:
    sizes = [size for _, size, _ in job["regions"]]
    whole = 2 * _WORD + sum(sizes)
    runs = [output[n * whole : (n + 1) * whole] for n in range(len(_places(job)))]
    if any(len(run) != whole for run in runs):
        return {}
    first = runs[0]
    at = 2 * _WORD
    if any(run[at:] != first[at:] for run in runs[1:]):
        return {"error": "unstable"}
    for offset, size, _ in job["regions"]:
        shared[offset : offset + size] = first[at : at + size]
        at += size
    status = int.from_bytes(first[:_WORD], "little", signed=True)
    return {
        "status": status,
        "times": [],
        "workspace_bytes": int.from_bytes(first[_WORD : 2 * _WORD], "little"),
    }


# --- bytes ------------------------------------------------------------------------------------------------


def _call(name: str, place: str, operands: Sequence[tuple[bytes, int, int]], numbers: Sequence[int]) -> bytes:
    word = name.encode()
    parts = [_words(len(word), _PLACES[place], len(operands), len(numbers)), word, _words(*numbers)]
    for data, slack, element in operands:
        parts += [_words(len(data), slack, element), data]
    return b"".join(parts)


def _words(*numbers: int) -> bytes:
    return b"".join((n % (1 << 64)).to_bytes(_WORD, "little") for n in numbers)


@contextmanager
def _share_memory(job: dict[str, Any]) -> Generator[mmap.mmap]:
    with mmap.mmap(job["file"], max(job["size"], 1)) as shared:
        yield shared
