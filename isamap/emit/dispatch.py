"""Combine programs of one kernel for several machines behind one function that selects at run time.

    int gemm(const gemm_args *args, void *workspace, gemm_pool *pool);   tests the processor, calls gemm_on_x86_avx512

The compiler's run-time library detects the processor's features once, when the library is loaded, and each
call tests these bits. The code has no other state, so it is thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.emit.c import EmittedC
from isamap.emit.c_build import COMMON_FLAGS, COMPILER_FLAGS
from isamap.emit.c_interface import Interface, header_text
from isamap.emit.c_names import spell
from isamap.machine import Machine
from isamap.machine.allowed import compiler_flags, permission_numbers, supports
from isamap.source import UsageProblem, dataclass, replace

NO_MACHINE = 64
"""The status that is returned if no machine fits. The programs themselves return smaller numbers."""


@dataclass(frozen=True, slots=True)
class MachineProgram:
    """A program for one machine. Its function is called `NAME_on_MACHINE`."""

    machine: Machine
    emitted: EmittedC


def variant_name(kernel: str, machine: str) -> str:
    """Return the name of a kernel's program for one of several machines."""
    return f"{spell(kernel)}_on_{spell(machine)}"


def order_by_preference(machines: Sequence[Machine]) -> list[int]:
    """Return the positions in the order of selection: the longest `extends` chain, then the most features."""
    return sorted(
        range(len(machines)), key=lambda i: (-len(machines[i].chain), -len(machines[i].target.features), i)
    )


def check_askable(machine: Machine) -> None:
    """Check that a program can detect the features that a machine needs. Raises: UsageProblem if it cannot."""
    if unknown := [f for f in machine.target.features if f not in supports()]:
        raise UsageProblem.of(
            "dispatch-feature",
            f"no program can ask a processor for the feature `{unknown[0]}`, which {machine.name} needs",
            notes=("dispatch asks by `__builtin_cpu_supports` of gcc and clang, on x86",),
            help=f"compile for {machine.name} alone",
        )


def dispatch_files(name: str, variants: Sequence[MachineProgram]) -> dict[str, str]:
    """Return `NAME.h`, `NAME.c` and a Makefile for variants in the order of selection.

    Raises: UsageProblem for programs that are called in different ways.
    """
    first = variants[0].emitted.interface
    for variant in variants:
        if variant.emitted.packs or variant.emitted.interface.fields != first.fields:
            raise UsageProblem.of(
                "dispatch-packed",
                f"the program for {variant.machine.name} takes a tensor in a layout of its own",
                notes=("callers of several machines' code have one layout only",),
                help="leave tensors unpacked, or compile for each machine by itself",
            )
    interface = replace(
        variants[0].emitted.interface,
        name=name,
        takes_pool=any(v.emitted.interface.takes_pool for v in variants),
    )
    return {
        f"{name}.h": _header(interface, variants),
        f"{name}.c": _source(interface, variants),
        "Makefile": _makefile(name, variants),
    }


def _header(interface: Interface, variants: Sequence[MachineProgram]) -> str:
    name = interface.name
    own = [
        "/* Returned where this processor lacks what each of the machines needs. */",
        f"enum {{ {name}_NO_MACHINE = {NO_MACHINE} }};",
        "",
        "/* The machine whose code runs here; NULL where there is none. */",
        f"const char *{name}_machine(void);",
        "",
        "#ifdef __cplusplus",
        "}",
    ]
    title = f"{name} on {', '.join(v.machine.name for v in variants)}: the first that the processor allows"
    return header_text(interface, title).replace("#ifdef __cplusplus\n}", "\n".join(own))


def _source(interface: Interface, variants: Sequence[MachineProgram]) -> str:
    name = interface.name
    asks = any(v.machine.target.permissions for v in variants)
    system = ["", "#include <sys/syscall.h>", "#include <unistd.h>"] if asks else []
    lines = [
        *(["#define _GNU_SOURCE"] if asks else []),
        f'#include "{name}.h"',
        "",
        *(f'#include "{v.emitted.name}.h"' for v in variants),
        *system,
        "",
        *(_GRANTED if asks else ()),
        *_choose_lines(variants),
        f"const char *{name}_machine(void) {{",
        "  switch (chosen()) {",
        *(f'  case {i}: return "{v.machine.name}";' for i, v in enumerate(variants)),
        "  default: return NULL;",
        "  }",
        "}",
        "",
        f"size_t {name}_workspace_bytes(const {name}_args *args) {{",
        "  if (args == NULL) return 0;",
        "  switch (chosen()) {",
    ]
    for i, variant in enumerate(variants):
        made = variant.emitted.name
        lines += [f"  case {i}: {{", *_own_arguments(interface, made)]
        lines += [f"    return {made}_workspace_bytes(&own);", "  }"]
    lines += ["  default: return 0;", "  }", "}", ""]
    lines += [f"int {name}(const {name}_args *args, void *workspace, {name}_pool *pool) {{"]
    lines += [f"  if (args == NULL) return {name}_NULL_POINTER;", "  switch (chosen()) {"]
    for i, variant in enumerate(variants):
        lines += [f"  case {i}: {{", *_own_arguments(interface, variant.emitted.name)]
        lines += [f"    return {variant.emitted.name}(&own, workspace, {_pool(interface, variant)});", "  }"]
    lines += [f"  default: (void)workspace, (void)pool; return {name}_NO_MACHINE;", "  }", "}"]
    return "\n".join(lines) + "\n"


_GRANTED = (
    "/* Whether this process may use a register state that has to be asked for (ARCH_GET_XCOMP_PERM). */",
    "static int granted(int component) {",
    "  unsigned long held = 0;",
    "  return syscall(SYS_arch_prctl, 0x1022, &held) == 0 && (held >> component & 1) != 0;",
    "}",
    "",
)


def _choose_lines(variants: Sequence[MachineProgram]) -> list[str]:
    lines = ["/* Which machine's code runs here: the first whose features are all there. */"]
    lines += ["static int chosen(void) {"]
    for i, variant in enumerate(variants):
        target = variant.machine.target
        needs = [f'__builtin_cpu_supports("{supports()[f]}")' for f in target.features]
        needs += [f"granted({permission_numbers()[p]})" for p in target.permissions]
        lines.append(f"  if ({' && '.join(needs)}) return {i};" if needs else f"  return {i};")
        if not needs:
            break
    else:
        lines.append("  return -1;")
    return [*lines, "}", ""]


def _own_arguments(interface: Interface, made: str) -> list[str]:
    """Return the arguments that a variant's struct has: the same members under another name."""
    values = ", ".join(f"args->{field.member}" for field in interface.fields) or "0"
    return [f"    const {made}_args own = {{{values}}};"]


def _pool(interface: Interface, variant: MachineProgram) -> str:
    """Return the pool argument of a variant, or its absence for a single-threaded one."""
    if variant.emitted.interface.takes_pool:
        return "pool"
    return "NULL" if interface.takes_pool else f"({variant.emitted.name}_pool *)pool"


def _makefile(name: str, variants: Sequence[MachineProgram]) -> str:
    """Return a Makefile that compiles each file with the flags of its machine. Flags of gcc alone are separate."""
    takes_pool = any(v.emitted.interface.takes_pool for v in variants)
    pool = ["isamap_pool.o"] if takes_pool else []
    objects = [f"{name}.o", *(f"{v.emitted.name}.o" for v in variants), *pool]
    of_gcc = " ".join(COMPILER_FLAGS["gcc"])
    lines = [
        "CC = gcc",
        f"# For gcc: {of_gcc}; for clang: nothing.",
        f"OWN_FLAGS = {of_gcc}",
        "",
        f"lib{name}.so: {' '.join(objects)}",
        f"\t$(CC) -shared -o $@ $^ -lm{' -lpthread' if takes_pool else ''}",
        "",
        f"{name}.o: {name}.c {name}.h",
        "\t$(CC) -O2 -std=c11 -fPIC -c -o $@ $<",
    ]
    for v in variants:
        own = compiler_flags(v.machine.target.features, "gcc")
        strict = ["-ffp-contract=off"] if v.emitted.strict else []
        flags = [*v.machine.target.flags, *own, *strict, *COMMON_FLAGS]
        lines += ["", f"{v.emitted.name}.o: {v.emitted.name}.c {v.emitted.name}.h"]
        lines += [f"\t$(CC) {' '.join(flags)} $(OWN_FLAGS) -fPIC -c -o $@ $<"]
    if takes_pool:
        lines += ["", "isamap_pool.o: isamap_pool.c isamap_pool.h", "\t$(CC) -O2 -std=c11 -fPIC -c -o $@ $<"]
    return "\n".join(lines) + "\n"
