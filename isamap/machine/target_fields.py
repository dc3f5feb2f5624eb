"""Read `target` of a description: compilers, flags, headers, features, and the way to run the code.

A description is not trusted. It names an emulator of a processor family, never a path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from isamap.machine import allowed
from isamap.machine.fields import read_mapping, read_names, read_text, read_texts
from isamap.machine.keys import TEXT, Keys, ListOf, NamedBy, one_of
from isamap.machine.tree import Findings, Node, ScalarNode
from isamap.source import Span, dataclass, field

# A processor model, possibly followed by switches: `rv64,v=true,vlen=64*Q`, where Q is a constant of the machine.
_CPU = re.compile(
    r"[a-zA-Z0-9][a-zA-Z0-9_.+-]*(,[a-z0-9][a-z0-9_.-]*=([a-z0-9]+|[0-9]{1,4}\*[A-Z][A-Za-z0-9_]*))*"
)
_MULTIPLE = re.compile(r"([0-9]+)\*([A-Z][A-Za-z0-9_]*)")


def cpu_at(cpu: str | None, values: Mapping[str, int]) -> str | None:
    """Return the model of a processor at values of the machine's constants."""
    return cpu and _MULTIPLE.sub(lambda m: str(int(m[1]) * values.get(m[2], 1)), cpu)


def read_emulator(node: Node | None, findings: Findings) -> str | None:
    """Return the emulator that a target names, or None, with a finding, if no family lists it."""
    text = read_text(node, "`emulator`", findings)
    if text is None or text.text in allowed.emulators():
        return text.text if text is not None else None
    findings.unknown("unknown-emulator", "emulator", text.text, text.span, tuple(allowed.emulators()))
    return None


def read_cpu(node: Node | None, findings: Findings) -> str | None:
    """Return the processor model that a target names, or None, with a finding, if it is invalid."""
    text = read_text(node, "`cpu`", findings)
    if text is None or _CPU.fullmatch(text.text):
        return text.text if text is not None else None
    findings.report(
        "unknown-cpu", f"`{text.text}` is not a model of a processor", text.span,
        "a name, and switches after it, such as `max,sve256=on` or `rv64,v=true,vlen=64*Q`",
    )  # fmt: skip
    return None


@dataclass(frozen=True, slots=True)
class Length:
    """A constant that only the hardware knows: the result of a C function, divided by `divisor`.

    `value` is the number for which a program was compiled; None before a program is compiled. `among` are
    the numbers that the description allows, if it lists them.
    """

    constant: str
    function: str
    divisor: int
    value: int | None = None
    among: tuple[int, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes of emitted functions: `entered` for exported functions, `within` for internal ones."""

    entered: tuple[str, ...] = ()
    within: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartText:
    """A part of elementary functions as written in a file: its name, and the call that performs it."""

    name: ScalarNode
    text: ScalarNode


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """The `target` of one file. A key that the file lacks is None."""

    toolchains: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    run: Literal["native", "emulator", "model"] | None = None
    lengths: tuple[Length, ...] = ()
    emulator: str | None = None
    cpu: str | None = None
    parts: tuple[PartText, ...] = ()
    attributes: Attributes = field(default_factory=Attributes)


_ATTRIBUTES = Keys({key: ListOf(one_of(allowed.attributes)) for key in ("entered", "within")})
TARGET = Keys(
    {
        "toolchains": ListOf(one_of(lambda: allowed.TOOLCHAINS)),
        "flags": ListOf(TEXT),
        "headers": ListOf(one_of(lambda: tuple(allowed.headers()))),
        "features": ListOf(one_of(allowed.features)),
        "permissions": ListOf(one_of(lambda: tuple(allowed.permission_numbers()))),
        "run": one_of(lambda: allowed.RUNS),
        "emulator": one_of(lambda: tuple(allowed.emulators())),
        "cpu": TEXT,
        "lengths": NamedBy(TEXT),
        "parts": NamedBy(TEXT),
        "attributes": _ATTRIBUTES,
    }
)


def read_target(node: Node | None, findings: Findings) -> TargetSpec:
    """Return the value of a `target`."""
    if node is None:
        return TargetSpec()
    keys = read_mapping(node, "`target`", TARGET, findings)
    marked = read_mapping(keys.get("attributes"), "`attributes`", _ATTRIBUTES, findings)

    def texts(
        key: str, what: str, known: tuple[str, ...], given: Mapping[str, Node] = keys
    ) -> tuple[str, ...]:
        def check(text: ScalarNode) -> bool:
            if text.text not in known:
                findings.unknown(f"unknown-{what}", what, text.text, text.span, known)
            return text.text in known

        return read_texts(given.get(key), f"`{key}`", findings, check)

    def check_flag(text: ScalarNode) -> bool:
        fine = allowed.is_flag(text.text)
        if not fine:
            findings.report(
                "unknown-flag", f"the flag `{text.text}` is not allowed", text.span,
                f"allowed are {'; '.join(allowed.shown_flags())}",
            )  # fmt: skip
        return fine

    return TargetSpec(
        texts("toolchains", "toolchain", allowed.TOOLCHAINS),
        read_texts(keys.get("flags"), "`flags`", findings, check_flag),
        texts("headers", "header", tuple(allowed.headers())),
        texts("features", "feature", allowed.features()),
        texts("permissions", "permission", tuple(allowed.permission_numbers())),
        _read_run(keys.get("run"), findings),
        _read_lengths(keys.get("lengths"), findings),
        read_emulator(keys.get("emulator"), findings),
        read_cpu(keys.get("cpu"), findings),
        _read_parts(keys.get("parts"), findings),
        Attributes(*(texts(key, "attribute", allowed.attributes(), marked) for key in ("entered", "within"))),
    )


def _read_run(node: Node | None, findings: Findings) -> Literal["native", "emulator", "model"] | None:
    text = read_text(node, "`run`", findings)
    match text.text if text is not None else None:
        case "native" | "emulator" | "model" as run:
            return run
        case None:
            return None
        case other:
            findings.unknown("unknown-run", "way to run", other, text.span if text else None, allowed.RUNS)
            return None


_LENGTH = re.compile(
    r"(?P<function>[A-Za-z_][A-Za-z0-9_]*)\(\)(?: ?/ ?(?P<divisor>[1-9][0-9]{0,3}))?"
    r"(?: in (?P<among>[1-9][0-9]{0,8}(?:, ?[1-9][0-9]{0,8}){0,31}))?"
)


def _read_lengths(node: Node | None, findings: Findings) -> tuple[Length, ...]:
    """Return the constants that a program reads from the hardware: `Q: __riscv_vlenb() / 8 in 2, 4, 8`."""
    found: list[Length] = []
    for name, value in read_names(node, "`lengths`", findings):
        text = read_text(value, f"`{name.text}` of `lengths`", findings)
        if text is None:
            continue
        written = _LENGTH.fullmatch(text.text)
        if written is None or not allowed.declares(allowed.headers(), written["function"]):
            findings.report(
                "bad-length", f"`{text.text}` is not a way to ask the hardware for a constant", text.span,
                "a call without arguments of a function that a header declares, divided by a number or not,",
                "behind `in` the numbers that it may be",
                advice="write it as in `svcntb() / 16 in 1, 2, 4`",
            )  # fmt: skip
            continue
        among = tuple(sorted({int(number) for number in (written["among"] or "").split(",") if number}))
        divisor = int(written["divisor"] or 1)
        found.append(Length(name.text, written["function"], divisor, among=among, span=name.span))
    return tuple(found)


def _read_parts(node: Node | None, findings: Findings) -> tuple[PartText, ...]:
    found: list[PartText] = []
    for name, value in read_names(node, "`parts`", findings):
        text = read_text(value, f"`{name.text}` of `parts`", findings)
        if text is not None:
            found.append(PartText(name, text))
    return tuple(found)
