"""Trace a compiler's error messages back to the emissions in the description that caused them.

    gemm_f32.c:63:14: error: implicit declaration of function '_mm256_fmad_ps'. Did you mean …

names a function that the `emit` of fma_ymm_f32 calls, which is at my-cpu.yaml:52:15. A message without a
name refers to a line of the emitted C, and that line calls a function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from isamap.machine import EmitCall, EmitSteps, Machine, MachineInstruction
from isamap.source import Diagnostic, Span, dataclass, field

_MOST = 5
_NEAR = 0.85  # intrinsics are alike: most of them share half of their letters
_MESSAGE = re.compile(r"(?P<file>[^\s:]+):(?P<line>[0-9]+):[0-9]+: (?:fatal )?error: (?P<said>.*)")
_NO_FLAG = re.compile(r"target specific option mismatch|requires target feature")
_UNDECLARED = re.compile(r"implicit declaration|undeclared")
_PROPOSED = re.compile(r"did you mean '([A-Za-z0-9_]+)'")
_WORD = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]*\b")
_DEFINITION = re.compile(r"^[A-Za-z0-9_][^;=]*?([A-Za-z0-9_]+)\(.*\{$")


@dataclass(frozen=True, slots=True)
class Emissions:
    """Instructions with emissions to be compiled. `owners` are those for which a C function is written."""

    machine: Machine
    owners: Mapping[str, str] = field(default_factory=dict[str, str])

    def of_function(self, name: str) -> tuple[MachineInstruction, ...]:
        """Return the instructions whose emissions call a function."""
        return tuple(
            i for i in self._all() if isinstance(i.emit, EmitCall | EmitSteps) and name in i.emit.functions
        )

    @property
    def functions(self) -> frozenset[str]:
        """All functions that emissions call."""
        return frozenset(
            f for i in self._all() if isinstance(i.emit, EmitCall | EmitSteps) for f in i.emit.functions
        )

    def _all(self) -> tuple[MachineInstruction, ...]:
        return (*self.machine.instructions.values(), *self.machine.hints.values())


@dataclass(frozen=True, slots=True)
class _Fault:
    """A message of a compiler: its function, the instruction to blame, and other instructions that call it."""

    message: str
    function: str
    blamed: MachineInstruction
    others: tuple[str, ...]


def find_refused_emissions(
    compiler: str, says: str, files: Mapping[str, str], emissions: Emissions
) -> tuple[Diagnostic, ...]:
    """Return a finding for each instruction whose emission a compiler rejects."""
    found: dict[str, _Fault] = {}
    for fault in _faults(says, files, emissions):
        found.setdefault(fault.blamed.name, fault)
    more = len(found) - _MOST
    last = (f"{more} more emissions are not accepted, either",) if more > 0 else ()
    shown = list(found.values())[:_MOST]
    return tuple(_describe_fault(compiler, f, emissions, last if f is shown[-1] else ()) for f in shown)


def _faults(says: str, files: Mapping[str, str], emissions: Emissions) -> Iterator[_Fault]:
    """Yield the faults of the messages that concern an emission."""
    functions = emissions.functions
    for message in says.splitlines():
        match = _MESSAGE.match(message)
        if match is None:
            continue
        # What is wrong inside of a compiler's own header is said of the function alone.
        before = files.get(match["file"], "").splitlines()[: int(match["line"])]
        words = (*_WORD.findall(match["said"]), *_WORD.findall(before[-1] if before else ""))
        function = next((word for word in words if word in functions), None)
        if function is None:
            continue
        calling = emissions.of_function(function)
        owner = next((m[1] for line in reversed(before) if (m := _DEFINITION.match(line))), None)
        mine = [i for i in calling if i.name == emissions.owners.get(owner or "")]
        first = (mine or calling)[0]
        others = () if mine else tuple(i.name for i in calling if i is not first)
        yield _Fault(message, function, first, others)


def _describe_fault(compiler: str, fault: _Fault, emissions: Emissions, last: tuple[str, ...]) -> Diagnostic:
    """Return the diagnostic of one instruction."""
    notes = [fault.message[:300]]
    if fault.others:
        shown = ", ".join(fault.others[:_MOST])
        rest = ", …" if len(fault.others) > _MOST else ""
        notes.append(f"`{fault.function}` is also called by {shown}{rest}")
    return Diagnostic(
        "compiler-refused",
        f"{compiler} does not accept the emission of `{fault.blamed.name}`",
        _place(fault),
        notes=(*notes, *last),
        help=_advice(fault, emissions),
    )


def _place(fault: _Fault) -> Span | None:
    """Return the place of the function in the description."""
    emit = fault.blamed.emit
    assert isinstance(emit, EmitCall | EmitSteps), "what is blamed calls a function"
    return next(c.span for c in emit.calls if c.function == fault.function)


def _advice(fault: _Fault, emissions: Emissions) -> str:
    """Return the next step: the function that was probably meant, or the parts that must agree."""
    flags = " ".join(emissions.machine.target.flags)
    if _NO_FLAG.search(fault.message):
        return f"add the instruction set of `{fault.function}` to `target.flags`, which are {flags}"
    if not _UNDECLARED.search(fault.message):
        memories = {o.memory: None for o in fault.blamed.instruction.operands if o.memory}
        named = [m for m in memories if emissions.machine.memories[m].c_types]
        types = f", and with the `c_types` of {', '.join(named)}" if named else ""
        return f"compare the call with the declaration of `{fault.function}`{types}"
    proposed = _PROPOSED.search(fault.message)
    others = emissions.functions - {fault.function}
    near = get_close_matches(fault.function, sorted(others), n=1, cutoff=_NEAR)
    if proposed is not None or near:
        return f"did you mean `{proposed[1] if proposed is not None else near[0]}`?"
    return f"look its name up in the headers of the target, and whether its flags allow it: {flags}"
