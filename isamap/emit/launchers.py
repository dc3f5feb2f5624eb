"""Print a host in C that launches the kernels of a plan through their device's driver.

    typedef struct { void *module, *kernels[1]; } product_device;
    int product_open(product_device *d);
    int product_launch(const product_device *d, void *stream, void *workspace, const uint16_t *A, …);
    int product_close(product_device *d);

`lanes.py` makes the plan. The driver's functions are named by the family of the device (`hw_specs/families`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from isamap.emit.c_names import CNames, compute_type, storage_type
from isamap.emit.device_call import launches_of
from isamap.ir.dtypes import DTYPES

_ALIGNMENT = 256
"""The alignment of buffers in the workspace: it suffices for all accesses of a device. Units: bytes."""


def print_launcher(name: str, plan: Mapping[str, Any]) -> dict[str, str]:
    """Return a C file that launches the kernels of a plan, and its header, by name."""
    reserved = {launch["kernel"]: launch["reserved_bytes"] for launch, _ in launches_of(plan["launches"])}
    kernels = list(reserved)
    names = CNames()
    for own in ("d", "stream", "workspace", "given", "status", "numbers"):
        names.take(own)
    declared: list[str] = []
    for array in plan["arrays"]:
        const = "const " if array["role"] == "in" else ""
        declared.append(f"{const}{storage_type(DTYPES[array['dtype']])} *{names.take(array['name'])}")
    declared += [f"{compute_type(DTYPES[s['dtype']])} {names.take(s['name'])}" for s in plan["scalars"]]
    at, buffers = 0, list[str]()
    for buffer in plan["buffers"]:
        buffers.append(f"  char *const {names.take(buffer['name'])} = (char *)workspace + {at};")
        at += -(-buffer["bytes"] // _ALIGNMENT) * _ALIGNMENT
    listed = ",\n    ".join((f"const {name}_device *d", "void *stream", "void *workspace", *declared))
    driver = plan["driver"]
    header = [
        f"/* Functions return 0, or the status of the driver's function that failed ({driver['library']}). */",
        *("#pragma once", "#include <stdint.h>", f"#define {name.upper()}_WORKSPACE_BYTES {at}"),
        f"typedef struct {{ void *module, *kernels[{len(kernels)}]; }} {name}_device;",
        "/* Load the kernels into the context that is current. */",
        f"int {name}_open({name}_device *d);",
        "/* Launch the kernels on a stream. Arrays lie in the device's memory, row behind row, and so does",
        f"   the workspace, aligned to {_ALIGNMENT} bytes. */",
        f"int {name}_launch(\n    {listed});",
        "/* Unload the kernels. */",
        f"int {name}_close({name}_device *d);",
    ]
    finds = [
        f'  if (!status) status = {driver["find"]}(&d->kernels[{number}], d->module, "{kernel}");'
        for number, kernel in enumerate(kernels)
    ]
    large = any(reserved.values())
    permits = [f"extern int {driver['permit']}(void *kernel, int attribute, int value);"] if large else []
    finds += [
        f"  if (!status) status = {driver['permit']}(d->kernels[{number}], {plan['permitted']}, {size_bytes});"
        for number, size_bytes in enumerate(reserved.values())
        if size_bytes
    ]
    image = f"{name}.{plan['image']}"
    source = [
        f"/* The launches of {name}, by {driver['library']}. Compile {image} before it. */",
        f'#include "{name}.h"',
        "#include <stddef.h>\n",
        f"extern int {driver['load']}(void **module, const void *image);",
        f"extern int {driver['find']}(void **kernel, void *module, const char *name);",
        *permits,
        f"extern int {driver['unload']}(void *module);",
        f"extern int {driver['launch']}(void *kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,",
        "    unsigned shared, void *stream, void **given, void **extra);\n",
        f'__asm__(".section .rodata\\n.balign 64\\n{name}_image:\\n.incbin \\"{image}\\"\\n.previous\\n");',
        f"extern const char {name}_image[];\n",
        f"int {name}_open({name}_device *d) {{",
        f"  int status = {driver['load']}(&d->module, {name}_image);",
        *(*finds, "  return status;", "}\n"),
        f"int {name}_close({name}_device *d) {{ return {driver['unload']}(d->module); }}\n",
        f"int {name}_launch(\n    {listed}) {{",
        *(*buffers, "  (void)workspace;", "  int status = 0;"),
        *_steps(plan["launches"], kernels, names, driver["launch"], 1),
        *("  return status;", "}"),
    ]
    return {f"{name}.h": "\n".join(header) + "\n", f"{name}_launch.c": "\n".join(source) + "\n"}


def _steps(
    steps: Sequence[Mapping[str, Any]], kernels: Sequence[str], names: CNames, call: str, depth: int
) -> Iterator[str]:
    """Yield the statements of launches, and of the loops around them."""
    space = "  " * depth
    for step in steps:
        if "counter" in step:
            inside = names.inside()
            counter = inside.take(step["counter"])
            yield f"{space}for (int64_t {counter} = 0; {counter} < {step['trips']}; {counter}++) {{"
            yield from _steps(step["launches"], kernels, inside, call, depth + 1)
            yield f"{space}}}"
            continue
        numbers = [a["number"] for a in step["arguments"] if "number" in a]
        left = iter(range(len(numbers)))
        given = [
            f"(void *)&numbers[{next(left)}]"
            if "number" in a
            else f"(void *)&{names.of(next(iter(a.values())))}"
            for a in step["arguments"]
        ]
        yield f"{space}{{"
        if numbers:
            yield f"{space}  const int64_t numbers[] = {{{', '.join(map(str, numbers))}}};"
        yield f"{space}  void *given[] = {{{', '.join(given) or 'NULL'}}};"
        number = kernels.index(step["kernel"])
        size = f"{step['blocks']}, 1, 1, {step['lanes']}, 1, 1, {step['reserved_bytes']}"
        yield f"{space}  status = {call}(d->kernels[{number}], {size}, stream, given, NULL);"
        yield f"{space}  if (status) return status;"
        yield f"{space}}}"
