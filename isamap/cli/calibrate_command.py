"""`isamap hw calibrate`: measure instructions and memories on this processor, and store a profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, Finding
from isamap.cli.option_parser import CommandOptions, argument, one_word
from isamap.driver.inputs import machine_of
from isamap.driver.options import NAMES, option, seconds_in
from isamap.report.columns import align, bytes_text
from isamap.report.mappings import time_text
from isamap.source import Diagnostic, dataclass
from isamap.source.progress import Progress

if TYPE_CHECKING:
    from isamap.machine import Machine
    from isamap.source.numbers import Spread
    from isamap.tune.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateOptions(CommandOptions):
    """The options of `hw calibrate`."""

    name: str = argument("[MACHINE]", "A shipped machine's name, `host`, or a path.", default="host")
    instructions: tuple[str, ...] = option(
        "--instructions", "NAME",
        "Only this one, or several with commas between; may be repeated. Leaves memories out.",
        NAMES, default=(),
    )  # fmt: skip
    budget_s: float = option(
        "--budget",
        "SECONDS",
        "How long to measure; compiling comes on top.",
        seconds_in(0.1, 3600),
        default=10.0,
    )
    output: str | None = one_word("-o", "FILE", "Write the profile here instead of your data folder.")


def calibrate_command(asked: CalibrateOptions) -> Answer:
    """Measure a machine's instructions and memories on this processor."""
    from isamap.machine import load_machine
    from isamap.tune.calibrate import calibrate
    from isamap.tune.store import keep_profile

    machine, selected, output = load_machine(machine_of(asked.name)), list(asked.instructions), asked.output
    findings = busy()
    with Progress() as progress:
        profile = calibrate(machine, selected or None, asked.budget_s, progress)
    partial = bool(selected) and output is None
    path = None if partial else keep_profile(profile, Path(output) if output is not None else None)
    # A profile in the form of its file.
    import json

    from isamap.tune.profile import print_profile

    stored: dict[str, object] = json.loads(print_profile(profile))
    payload: dict[str, object] = {
        **stored,
        "digest": profile.digest,
        "files": [str(path)] if path is not None else [],
    }
    last = (
        f"wrote {path}" if path is not None else "not stored: it lacks the other instructions (-o stores it)"
    )
    return Answer(payload, "\n".join([*_text(machine, profile), "", last]), findings)


def busy() -> tuple[Finding, ...]:
    """Return a warning if other programs use the processors that threads would run on."""
    import os

    if not hasattr(os, "getloadavg"):
        return ()
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    if load < processors:
        return ()
    said = f"this computer is busy: {load:.1f} programs are ready to run on {processors} processors"
    advice = "least times hold all the same, but not that of starting threads: measure again when it is idle"
    return (Finding.of(Diagnostic("calibrate-busy", said, severity="warning", help=advice)),)


def _text(machine: Machine, profile: Profile) -> Iterator[str]:
    from isamap.tune.overlay import compare

    yield f"{profile.machine} on {profile.cpu.describe()}, {profile.compiler}"
    stated_of = {(a.subject, a.what): a.stated for a in compare(machine, profile)}
    rows = [("instruction", "interval ns", "stated", "latency ns", "stated", "")]
    for f in profile.instructions:
        name = " ".join((f.instruction, *(f"{n}={v}" for n, v in f.params)))
        rows.append(
            (
                name,
                _least(f.interval),
                _number(stated_of.get((name, "interval"))),
                _least(f.latency),
                _number(stated_of.get((name, "latency"))) if f.latency else "",
                f.said if f.interval is None else "",
            )
        )
    yield from ("", align(rows))
    if profile.caches:
        yield from (
            "",
            align(
                [
                    ("memory", "capacity", "stated", "ways", "line in bytes", "kept for", ""),
                    *_caches(machine, profile),
                ]
            ),
        )
    if profile.bandwidths:
        lines = [("memory", "access", "bytes/ns", "buffer in bytes", "with")]
        lines += [
            (b.memory, b.access, f"{1 / b.ns_per_byte.least:.1f}", str(b.size_bytes), b.instruction)
            for b in profile.bandwidths
        ]
        yield from ("", align(lines))
    if profile.rows or profile.unmeasured_rows:
        yield from ("", align(_rows(profile, stated_of)))
    if profile.streams or profile.unmeasured_streams:
        yield from ("", align(_streams(profile)))
    if profile.pieces or profile.unmeasured_pieces:
        yield from ("", align(_pieces(profile)))
    if profile.packing or profile.unmeasured_packing:
        ways = [("packing", "bytes of an element", "ns for each", "")]
        ways += [(p.way, str(p.element_bytes), _number(p.ns_per_element.least), "") for p in profile.packing]
        ways += [(p.way, "–", "–", f"{p.dtype}: {p.said}") for p in profile.unmeasured_packing]
        yield from ("", align(ways))
    if (start := profile.thread_start) is not None:
        stated = stated_of["threads", "start"]
        numbers = f"{start.least:.0f} ns ({stated:.0f} stated), median {start.middle:.0f} ns"
        yield from ("", f"a second thread starts in {numbers}")


def _rows(profile: Profile, stated_of: Mapping[tuple[str, str], float]) -> list[tuple[str, ...]]:
    """Return the table of times to start rows of each memory."""
    head = (
        "rows of", "pieces of bytes", "start ns", "hinted", "stated", "followed", "computing shows",
        "traffic", "crowded ns", "a piece", "late ns", "hinted", "traffic", "of rows", "",
    )  # fmt: skip
    lines = [
        (
            r.memory,
            str(r.piece_bytes),
            _number(r.start_ns),
            _number(r.hinted_start_ns),
            _number(stated_of.get((f"rows of {r.memory}", "start"))),
            str(r.swept_count),
            f"{r.computing_factor:.0%}",
            f"{r.traffic_factor:.0%}",
            _number(r.crowded_ns),
            _number(r.crowded_piece_ns),
            _number(r.swept_ns),
            _number(r.hinted_swept_ns if r.hinted_swept_count else None),
            "–" if r.hinted_traffic_factor is None else f"{r.hinted_traffic_factor:.0%}",
            str(r.hinted_swept_count or "–"),
            "",
        )
        for r in profile.rows
    ]
    return [head, *lines, *((r.memory, *["–"] * 13, r.said) for r in profile.unmeasured_rows)]


def _streams(profile: Profile) -> list[tuple[str, ...]]:
    """Return the table of rows that stream from memory: measured times, or the reason for unknown ones."""
    head = ("rows that stream", "computing shows", "start ns", "")
    if (lost := profile.unmeasured_streams) is not None:
        return [head, (lost.memory, "–", "–", lost.said)]
    found = profile.streams
    assert found is not None, "one of both is there"
    return [
        head,
        (found.memory, f"{found.computing_factor:.0%}", _number(found.start_ns), ""),
        ("hinted", f"{found.hinted_computing_factor:.0%}", _number(found.hinted_start_ns), ""),
    ]


def _pieces(profile: Profile) -> list[tuple[str, ...]]:
    """Return the table of long pieces that stream: measured times, or the reason for unknown ones."""
    head = ("long pieces that stream", "start ns", "")
    if (lost := profile.unmeasured_pieces) is not None:
        return [head, (lost.memory, "–", lost.said)]
    found = profile.pieces
    assert found is not None, "one of both is there"
    ways = (
        ("hinted", found.hinted_start_ns),
        ("rows, each by its own loads", found.swept_start_ns),
        ("the same, hinted", found.hinted_swept_start_ns),
    )
    known = [(way, _number(ns), "") for way, ns in ways if ns is not None]
    return [head, (found.memory, _number(found.long_start_ns), ""), *known]


def _caches(machine: Machine, profile: Profile) -> Iterator[tuple[str, ...]]:
    for c in profile.caches:
        stated = machine.memories[c.memory].capacity_bytes
        numbers = (_size(c.size_bytes), _size(stated), str(c.ways or "–"), str(c.line_bytes or "–"))
        yield (c.memory, *numbers, "–" if c.kept_ns is None else time_text(c.kept_ns), c.said)


def _size(value: int | None) -> str:
    return "–" if value is None else bytes_text(value)


def _least(spread: Spread | None) -> str:
    return "–" if spread is None else _number(spread.least)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
