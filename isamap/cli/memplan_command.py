"""`isamap memplan`: offsets for buffers with known lifetimes, in a memory of a given size."""

from __future__ import annotations

from pathlib import Path

from isamap.cli.answers import Answer, Finding, write_text
from isamap.cli.option_parser import CommandOptions, argument, one_word
from isamap.driver.inputs import read_file
from isamap.driver.options import BYTES, option, seconds_in
from isamap.source import Diagnostic, Infeasible, dataclass
from isamap.source.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class MemplanOptions(CommandOptions):
    """The options of `memplan`."""

    file: str = argument("FILE", "CSV with the columns id, lower, upper, size.")
    capacity_bytes: int = option("--capacity", "BYTES", "Size of the memory: 1048576, 64KiB, 1MiB.", BYTES)
    output: str | None = one_word("-o", "FILE", "Write here instead of to standard output.")
    limit_s: float = option(
        "--limit", "SECONDS", "Longest time to search.", seconds_in(0.1, 3600), default=60.0
    )


def memplan_command(asked: MemplanOptions) -> Answer:
    """Give each buffer an offset so that buffers that are live at the same time share no bytes."""
    from isamap.plan.placement import print_offsets, read_buffers
    from isamap.scheduler.memory.allocation import allocate

    capacity_bytes, limit_s, output = asked.capacity_bytes, asked.limit_s, asked.output
    table = read_buffers(read_file(Path(asked.file), asked.file))
    with Progress() as progress:
        progress("place")
        found = allocate(table.buffers, capacity_bytes, limit_s)
    payload: dict[str, object] = {
        "status": found.status,
        "capacity_bytes": capacity_bytes,
        "load_bytes": found.load_bytes,
        "buffers": len(table.buffers),
        "method": found.method,
        "seconds": round(found.seconds, 3),
    }
    if found.status == "INFEASIBLE":
        raise Infeasible(_infeasible(found.load_bytes, capacity_bytes))
    if found.status == "UNKNOWN":
        return Answer(payload, findings=(Finding.of(_unknown(limit_s)),), exit=1)
    text = print_offsets(table, found.offsets)
    if output is None:
        return Answer({**payload, "offsets": found.offsets}, text)
    write_text(Path(output), text, overwrite=True)
    high = max((found.offsets[b.name] + b.size_bytes for b in table.buffers), default=0)
    words = f"{output}: {len(table.buffers)} buffers in {high} of {capacity_bytes} bytes"
    return Answer(
        {**payload, "high_bytes": high, "files": [output]}, f"{words}, {found.seconds:.1f} s ({found.method})"
    )


def _infeasible(load_bytes: int, capacity_bytes: int) -> Diagnostic:
    if load_bytes > capacity_bytes:
        message = f"buffers of {load_bytes} bytes are live at one time; the memory has {capacity_bytes}"
        return Diagnostic("memory-too-small", message, help=f"it takes at least {load_bytes} bytes")
    message = f"it is proven that no placement fits into {capacity_bytes} bytes"
    note = f"at most {load_bytes} bytes live at one time, but gaps cannot be avoided"
    return Diagnostic("memory-too-small", message, notes=(note,), help="make the memory larger")


def _unknown(limit_s: float) -> Diagnostic:
    return Diagnostic(
        "memory-limit",
        f"no placement was found in {limit_s:g} s, and no proof that there is none",
        help="give a larger --limit or a larger --capacity",
    )
