"""Weights that kernels take packed: which they are, and a program in which they have been packed, once.

    conv(a0, a1, y0), a1 a constant      conv(a0, a1_packed, y0), a1_packed what `conv_pack_a1` wrote

A kernel is asked for with its weights packed where they are the same in each call, where one sum reads them,
and where there are enough of them not to stay in the nearest cache. What packs runs on this processor when
the model is compiled; the model holds what it wrote, in place of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from isamap.codegen.c import EmittedC
from isamap.codegen.runner import Packer, compile_packers_together, pack_in_process
from isamap.ir import DTYPES, bind
from isamap.machine import Machine
from isamap.onnx.graph import Array
from isamap.onnx.program import Call, Passed, Program, reads_of
from isamap.onnx.types import size_bytes
from isamap.posing.packable import require_packable
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit, reads, statements

LEAST_BYTES = 1 << 18
"""Fewer of weights stay in a near cache, where their order matters little; packing takes longer to plan."""


def packed_of(program: Program) -> dict[str, tuple[str, ...]]:
    """By kernel the operands to be taken packed, one at most."""
    constant: dict[str, set[str]] = {}
    sizes: dict[str, dict[str, int]] = {}
    for step in program.steps:
        if isinstance(step, Call):
            known = {n for n, p in step.reads.items() if p.tensor in program.constants and len(p.shape) > 1}
            constant[step.kernel] = constant.get(step.kernel, known) & known
            sizes[step.kernel] = {n: size_bytes(p.dtype, p.shape) for n, p in step.reads.items()}
    found: dict[str, tuple[str, ...]] = {}
    for kernel, names in constant.items():
        large = [name for name in names if sizes[kernel][name] >= LEAST_BYTES]
        name = max(large, key=lambda n: (sizes[kernel][n], n), default=None)
        if name is not None and _is_summed(program.kernels[kernel], name):
            found[kernel] = (name,)
    return found


def _is_summed(text: str, name: str) -> bool:
    """Whether one sum, and nothing else, reads an operand."""
    kernel = make_guards_explicit(bind(parse_kernel(Source("kernel", text)), {}))
    try:
        require_packable(kernel, (name,))
    except UsageProblem:
        return False
    return any(
        statement.is_reduction and any(read.buffer == name for read in reads(statement.assign.value))
        for statement in statements(kernel)
    )


def with_packed(
    program: Program, kernels: Mapping[str, EmittedC], machine: Machine, *, model: bool
) -> Program:
    """The program whose kernels are given packed what they take packed, and only constants that are read.

    What packs is one library. Raises: as `compile_library`, of what packs.
    """
    packers = compile_packers_together({name: kernels[name] for name in program.kernels}, machine, model)
    made: dict[str, Array] = {}
    steps = tuple(
        _with_packed(step, packers[step.kernel], program, made) if isinstance(step, Call) else step
        for step in program.steps
    )
    read = {passed.tensor for step in steps for passed in reads_of(step)}
    constants = {**program.constants, **made}
    return replace(program, steps=steps, constants={n: a for n, a in constants.items() if n in read})


def _with_packed(step: Call, packers: tuple[Packer, ...], program: Program, made: dict[str, Array]) -> Call:
    """A call of a kernel with what it takes packed; what is packed is added to `made`."""
    given = dict(step.reads)
    for packer in packers:
        passed, target = given.pop(packer.source), packer.target
        assert target.header is not None, "what is packed begins with the name of its layout"
        tensor = f"{passed.tensor}_{target.header.layout}"
        if tensor not in made:
            content = program.constants[passed.tensor].tobytes()
            array = np.frombuffer(content, DTYPES[passed.dtype].numpy()).reshape(passed.shape)
            made[tensor] = pack_in_process(packer, array, {})
        given[target.name] = Passed(tensor, target.dtype.name, made[tensor].shape)
    return replace(step, reads=given)
