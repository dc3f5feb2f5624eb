"""Wrap a library call that computes a kernel in the same C function that emitted code has.

    void cblas_sgemm(int32_t, int32_t, …);

    static void gemm_body(const float *restrict A, …, int64_t A_s0, …) {
      cblas_sgemm(101, 111, 111, 64, 64, 64, 1, A, (int32_t)A_s0, B, (int32_t)B_s0, 1, C, (int32_t)C_s0);
    }

The arguments are checked as for emitted code, and also against the library's limits.
"""

from __future__ import annotations

from typing import assert_never

from isamap.emit.c import EmittedC
from isamap.emit.c_functions import HELPER_NAMES, helper_texts
from isamap.emit.c_interface import (
    Interface,
    body_parameters,
    body_symbols,
    build_interface,
    clean_comment,
    entry_text,
    header_text,
)
from isamap.emit.c_names import CNames, literal
from isamap.emit.c_parts import CFunction
from isamap.emit.c_text import cast, index_text
from isamap.ir import Const, Constraint, Kernel, Scalar
from isamap.libraries.description import Parameter
from isamap.libraries.installed import InstalledLibrary
from isamap.libraries.recognise import CallArgument, RecognisedCall
from isamap.lower.program import Condition, LoweredProgram
from isamap.source.records import replace
from isamap.version import __version__


def emit_library_call(
    interface: Interface, kernel: Kernel, performed: RecognisedCall, library: InstalledLibrary
) -> EmittedC:
    """Return the C of a kernel as a library call. `interface` is that of the emitted code it replaces."""
    names = CNames(taken=(*HELPER_NAMES, performed.call.prototype.name))
    name = names.take(interface.name)
    for suffix in ("args", "pool", "body", "workspace_bytes"):
        names.take(f"{name}_{suffix}")
    checks = tuple(_condition(check) for check in performed.checks)
    made = interface.sizes, interface.symbols, interface.tensors
    program = LoweredProgram(kernel.name, kernel, library.library.name, *made, (), (), checks)
    own, used = build_interface(program, name), set[str]()
    inner = names.inside()
    parameters = tuple(body_parameters(program, own, inner))
    symbols = {symbol: inner.of(symbol) for symbol in body_symbols(program)}
    body = CFunction(f"{name}_body", parameters)
    prototype = performed.call.prototype
    given = ", ".join(
        _text(argument, parameter, symbols, inner, used)
        for argument, parameter in zip(performed.arguments, prototype.parameters, strict=True)
    )
    entry = entry_text(program, own, names, used, body)
    sizes = ", ".join(f"{n} = {v}" for n, v in program.sizes)
    ranges = ", ".join(f"{n} in {low}..{high}" for n, low, high in program.symbols)
    of = "; ".join(t for t in (sizes, ranges) if t)
    first = f"{program.kernel.name} by {clean_comment(library.library.name)}{': ' if of else ''}{of}"
    called = clean_comment(f"Calls {library.library.summary} ({library.origin}): link with {library.link}")
    title, memory = f"{first}\n   {called}", f"Uses what memory {library.library.name} takes."
    parts = [
        [f"/* {title}", f"   Emitted by isamap {__version__}. Compile with -O2. */"],
        [f'#include "{name}.h"'],
        *(text.splitlines() for text in helper_texts(used)),
        [f"/* {clean_comment(library.library.summary)} */", prototype.text],
        body.text([f"  {prototype.name}({given});"]),
        entry,
    ]
    source = "\n\n".join("\n".join(part) for part in parts) + "\n"
    made = EmittedC(name, source, header_text(own, title, memory), own, model=False)
    return replace(made, links=(str(library.path),))


def _text(
    argument: CallArgument, parameter: Parameter, symbols: dict[str, str], names: CNames, used: set[str]
) -> str:
    """Return the C of an argument."""
    match argument.kind:
        case "number":
            return argument.text
        case "address":
            return f"&({parameter.base}){{{argument.text}}}"
        case "pointer":
            return names.of(argument.text)
        case "index":
            assert argument.index is not None
            text = index_text(argument.index, symbols.__getitem__, used)
            return text.text if argument.index.value is not None else cast(parameter.base, text).text
        case "value":
            assert isinstance(argument.value, Const | Scalar)
            if isinstance(argument.value, Scalar):
                return names.of(argument.value.name)
            return literal(argument.value.value, argument.value.dtype)
        case _:
            assert_never(argument.kind)


def _condition(check: Constraint) -> Condition:
    """Return a relation as a condition in the form of a program's checks."""
    match check.comparison:
        case "<=" | "<" | "==":
            return check.left, check.comparison, check.right
        case ">=":
            return check.right, "<=", check.left
        case ">":
            return check.right, "<", check.left
        case _:
            raise AssertionError("descriptions with it are refused")
