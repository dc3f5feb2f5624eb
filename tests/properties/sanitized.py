"""Emitted programs in one executable with the address and undefined-behaviour sanitizers of the C compiler.

Every tensor and workspace is an allocation of its own, of exactly as many bytes as it has: a read or a write
beside it ends the run, as an overflow, a shift too far or a misaligned access does.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from properties.batches import flags_of, sources

from isamap.emit.c import EmittedC
from isamap.machine import Machine
from isamap.run.arguments import CallArguments, make_call
from isamap.run.toolchain import find_compiler

Array = NDArray[Any]

# Unoptimized: the checks multiply what the optimizer has to do, and a read that it would leave out is found.
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1", "-O0")
HEAD = """#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
static void *taken(size_t bytes) {
  void *p = malloc(bytes);
  if (p == NULL || fread(p, 1, bytes, stdin) != bytes) exit(9);
  return p;
}
"""


@dataclass(frozen=True)
class Trial:
    """A program with what it is called with; `story` says what it is."""

    program: EmittedC
    arrays: Mapping[str, Array]
    sizes: Mapping[str, int]
    story: str


def run_sanitized(trials: Sequence[Trial], machine: Machine, folder: Path) -> list[dict[str, Array]]:
    """Return what each program makes of its arrays. Raises: AssertionError with what a sanitizer says."""
    calls = [make_call(t.program.interface, dict(t.arrays), dict(t.sizes), {}, in_place=True) for t in trials]
    flags, toolchains = flags_of([t.program for t in trials], machine)
    for name, text in sources(t.program for t in trials).items():
        (folder / name).write_text(text, encoding="utf-8")
    main = HEAD + '#include "batch.c"\n' + "".join(map(_caller, trials, calls)) + _main(trials)
    (folder / "main.c").write_text(main, encoding="utf-8")
    gcc = find_compiler(flags, toolchains, "gcc").command
    command = [*gcc, *flags, *SANITIZE, "-o", "run", "main.c", "-lm"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-4000:]
    given = b"".join(t.array.tobytes() for call in calls for t in call.tensors)
    ran = subprocess.run([folder / "run"], input=given, capture_output=True, check=False)
    if ran.returncode != 0:
        said = ran.stderr.decode(errors="replace")
        at = next((t.story for t in trials if f"in {t.program.name}" in said), "")
        raise AssertionError(f"{said[:3000]}\n{at}")
    return _outputs(calls, ran.stdout)


def _caller(trial: Trial, call: CallArguments) -> str:
    """Return a C function that reads the tensors of a program, calls it, and writes its results."""
    name = trial.program.interface.name
    lines = [f"static void call_{name}(void) {{", f"  {name}_args args = {{0}};"]
    for n, tensor in enumerate(call.tensors):
        lines.append(f"  void *t{n} = taken({tensor.array.nbytes});")
    for field, (kind, _, value) in zip(trial.program.interface.fields, call.fields, strict=True):
        lines.append(f"  args.{field.member} = {f't{value}' if kind == 'pointer' else value};")
    lines += [
        f"  size_t bytes = {name}_workspace_bytes(&args);",
        "  void *space = bytes ? malloc(bytes) : NULL;",
        f"  if ({name}(&args, space, NULL) != 0) exit(8);",
        "  free(space);",
    ]
    for n, tensor in enumerate(call.tensors):
        lines += [f"  fwrite(t{n}, 1, {tensor.array.nbytes}, stdout);"] if tensor.written else []
        lines.append(f"  free(t{n});")
    return "\n".join([*lines, "}\n"])


def _main(trials: Sequence[Trial]) -> str:
    calls = "".join(f"  call_{t.program.interface.name}();\n" for t in trials)
    return f"int main(void) {{\n{calls}  return 0;\n}}\n"


def _outputs(calls: Sequence[CallArguments], said: bytes) -> list[dict[str, Array]]:
    found: list[dict[str, Array]] = []
    at = 0
    for call in calls:
        results: dict[str, Array] = {}
        for tensor in (t for t in call.tensors if t.written):
            part = np.frombuffer(said, tensor.array.dtype, tensor.array.size, at)
            results[tensor.name] = part.reshape(tensor.array.shape)
            at += tensor.array.nbytes
        found.append(results)
    assert at == len(said)
    return found
