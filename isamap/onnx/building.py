"""The emitted files of a model as a shared library, from the cache where it was built before."""

from __future__ import annotations

from pathlib import Path

from isamap.codegen.blame import Emissions
from isamap.codegen.toolchain import COMPILERS, MODEL_FLAGS, build, find_compiler
from isamap.machine import Machine
from isamap.onnx.emitting import Emitted


def build_model(emitted: Emitted, machine: Machine, model: bool) -> Path:
    """The library. `model` says that kernels are plain C. Raises: MissingTool, CompilerRefused."""
    flags = MODEL_FLAGS if model else machine.target.flags
    features = () if model else machine.target.features
    found = find_compiler(flags, COMPILERS if model else machine.target.toolchains, None, features)
    apart = (
        f"{emitted.name}.weights" if emitted.is_apart else ""
    )  # another file of them makes no other library
    files = {name: content for name, content in emitted.files.items() if name != apart}
    return build(found, flags, files, emitted.sources, None if model else Emissions(machine))
