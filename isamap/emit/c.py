"""Print lowered programs as C: one source file and the header that its callers include.

The same program gives the same text, byte for byte. In *model mode* every instruction is a call of its
plain-C model, so that a program for absent hardware can be checked on any machine.
"""

from __future__ import annotations

from typing import assert_never

from isamap.emit.c_body import BodyWriter
from isamap.emit.c_build import with_attributes
from isamap.emit.c_commands import CommandIssuer, for_commands, issue_form
from isamap.emit.c_functions import HELPER_NAMES, helper_texts
from isamap.emit.c_interface import Interface, build_interface, entry_text, header_text
from isamap.emit.c_issue import Issuer, image_text
from isamap.emit.c_names import CNames
from isamap.emit.c_parts import run_text
from isamap.lower.program import LoweredProgram
from isamap.lower.walk import issued_names
from isamap.machine import EmitCall, EmitNothing, EmitSemantics, EmitSteps, Machine
from isamap.machine.allowed import compiler_flags
from isamap.source import UsageProblem, dataclass, replace
from isamap.version import __version__

_SYSTEM_HEADERS = ("math.h", "string.h")


@dataclass(frozen=True, slots=True)
class EmittedC:
    """A program in C: `NAME.c`, `NAME.h`, and its interface.

    `strict` programs must be compiled without contraction of a product and a sum into one rounding. `packs`
    are the programs that pack its inputs, `links` the libraries that it calls, by their paths.
    """

    name: str
    source: str
    header: str
    interface: Interface
    model: bool
    strict: bool = False
    packs: tuple[EmittedC, ...] = ()
    links: tuple[str, ...] = ()

    def files(self) -> dict[str, str]:
        """Return all files by name, including those of the packing programs."""
        own = {f"{self.name}.c": self.source, f"{self.name}.h": self.header}
        return own | {name: text for pack in self.packs for name, text in pack.files().items()}


def emit_c(program: LoweredProgram, machine: Machine, *, model: bool = False) -> EmittedC:
    """Return the C of a program. `model` replaces every instruction by its plain-C model.

    Raises: UsageProblem if an instruction of the program has no emission.
    """
    if not model:
        _require_emissions(program, machine)
    names, name = take_names(program)
    interface = build_interface(program, name, () if model else machine.target.lengths)
    lengths = program.lengths
    issuer = Issuer(machine, model, names, asked={lengths.constant: lengths.name} if lengths else {})
    emitted = _emit_files(program, machine, interface, issuer, _how_to_compile(machine, model))
    packs = tuple(emit_c(pack, machine, model=model) for pack in program.packs)
    return replace(emitted, packs=packs)


def emit_commands(program: LoweredProgram, machine: Machine) -> EmittedC:
    """Return C that issues a program's encoded instructions. Raises: UsageProblem for nodes without an encoding."""
    form = issue_form(machine)
    own = for_commands(program, machine)
    names, name = take_names(own)
    scratch = {b.name: b for b in program.buffers if b.memory}
    issuer = CommandIssuer(machine, False, names, scratch=scratch)
    issuer.begin()
    issuer.closing = (form.end,)
    head = [
        f"   Emitted by isamap {__version__}. Compile for the processor that gives the commands, with -O2. */"
    ]
    emitted = _emit_files(own, machine, build_interface(own, name), issuer, head)
    include = f'#include "{name}.h"\n'
    return replace(emitted, source=emitted.source.replace(include, f"{include}\n{form.define}\n", 1))


def take_names(program: LoweredProgram) -> tuple[CNames, str]:
    """Return the identifier scope of a file, and the identifier of its function."""
    names = CNames(taken=HELPER_NAMES)
    name = names.take(program.name)
    for suffix in ("args", "pool", "body", "workspace_bytes", "run", "bytes"):
        names.take(f"{name}_{suffix}")
    return names, name


def _emit_files(
    program: LoweredProgram, machine: Machine, interface: Interface, issuer: Issuer, head: list[str]
) -> EmittedC:
    """Return a program's files without those of its packing programs. `head` ends the first comment."""
    name, model, names = interface.name, issuer.model, issuer.names
    writer = BodyWriter(program, interface, issuer)
    function, body = writer.function()
    entry = entry_text(program, interface, names, issuer.used, function)
    title = emitted_title(program, model)
    standard = {"string.h"} if _copies_bits(issuer.used) else set[str]()
    standard |= {h for h in _SYSTEM_HEADERS if h in issuer.used}
    own = set[str]() if issuer.model else set(machine.target.headers) - {"math.h", "stdint.h"}
    lines = [f"#include <{h}>" for h in sorted(standard | own)]
    parts = [[f"/* {title}", *head], [f'#include "{name}.h"', *([""] if lines else []), *lines]]
    parts += [
        text.splitlines() for text in helper_texts(issuer.used - set(_SYSTEM_HEADERS), machine.target.parts)
    ]
    parts += [image_text(image_name, image) for image, image_name in issuer.images.items()]
    parts += [m.text.splitlines() for m in issuer.models.values()]
    parts += writer.copies
    if interface.takes_pool:
        parts += [run_text(name), *writer.regions]
    parts += [body, entry]
    source = "\n\n".join("\n".join(part) for part in parts) + "\n"
    if not model:
        source = with_attributes(source, machine.target.attributes)
    header, strict = header_text(interface, title), program.kernel.strict
    return EmittedC(name, source, header, interface, model, strict)


def _require_emissions(program: LoweredProgram, machine: Machine) -> None:
    for name in issued_names(program.body):
        emit = machine.instructions[name].emit
        match emit:
            case EmitCall() | EmitSteps() | EmitSemantics():
                pass
            case EmitNothing():
                raise UsageProblem.of(
                    "no-emission",
                    f"`{name}` of {machine.name} has no emission",
                    machine.instructions[name].span,
                    help="give it an `emit`, or run the program as a model of the machine",
                )
            case _:
                assert_never(emit)


def emitted_title(program: LoweredProgram, model: bool) -> str:
    """Return the kernel, the machine and the sizes of a program, for the first comment of its files."""
    sizes = ", ".join(f"{n} = {v}" for n, v in program.sizes)
    ranges = ", ".join(f"{n} in {low}..{high}" for n, low, high in program.symbols)
    with_sizes = "; ".join(t for t in (sizes, ranges) if t)
    how = f"a plain-C model of {program.machine}" if model else program.machine
    note = "\n   A strict kernel: compile with -ffp-contract=off." if program.kernel.strict else ""
    return f"{program.kernel.name} on {how}{': ' if with_sizes else ''}{with_sizes}{note}"


def _how_to_compile(machine: Machine, model: bool) -> list[str]:
    """Return the lines of the first comment that say how to build the file by hand."""
    target = machine.target
    flags = " ".join(("-O2",) if model else (*target.flags, *compiler_flags(target.features, "gcc")))
    return [
        f"   Emitted by isamap {__version__}. Compile with {flags} -fno-strict-aliasing;",
        "   gcc 12 needs -fno-tree-loop-vectorize too, or it loads from behind the last row of a tensor,",
        "   -fno-tree-coalesce-vars and -fno-tree-sink, or it keeps sums on the stack, and",
        "   -fno-tree-loop-distribute-patterns, or it copies rows of a few registers by calls, and",
        "   -fno-predictive-commoning, or it broadcasts out of integer registers;",
        "   with -fno-schedule-insns2 it leaves loads in the order of the schedule. */",
    ]


def _copies_bits(used: set[str]) -> bool:
    return any("memcpy" in text for text in helper_texts(used - set(_SYSTEM_HEADERS)))
