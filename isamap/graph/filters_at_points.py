"""Replace convolutions with constant filters by variants that compute at points (Winograd).

    conv_relu_1a2b(x, w)      conv_relu_1a2b_36(x, w_conv_relu_1a2b_36): 36 products for each tile of 4 x 4 results

The filters are evaluated at the points when the model is compiled, in f64, and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from isamap.driver.oracle import spares_operations
from isamap.graph.graph import Array
from isamap.graph.model_program import KernelCall, ModelProgram, TensorView
from isamap.ir import DTYPES, Kernel, interpret, print_routine, round_to
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform.winograd import split_ahead, winograd_forms


@dataclass(frozen=True, slots=True)
class FormAtPoints:
    """A kernel that reads transformed `filters`, and the kernel that computes them from the operand `given`."""

    name: str
    text: str
    ahead: Kernel
    given: str
    filters: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the transformed filters."""
        return tuple(size.value or 0 for size in self.ahead.operand(self.filters).shape)


def forms_at_points(program: ModelProgram) -> dict[str, list[FormAtPoints]]:
    """Return the variants of each kernel whose filters are whole constants in every call."""
    constant: dict[str, set[str]] = {}
    for step in program.steps:
        if isinstance(step, KernelCall):
            is_whole = {n for n, p in step.reads.items() if p.tensor in program.constants and not p.is_part}
            constant[step.kernel] = constant.get(step.kernel, is_whole) & is_whole
    found = {kernel: _forms(kernel, program.kernels[kernel], names) for kernel, names in constant.items()}
    return {kernel: forms for kernel, forms in found.items() if forms}


def _forms(name: str, text: str, constant: set[str]) -> list[FormAtPoints]:
    parsed = parse_kernel(Source(name, text))
    found: list[FormAtPoints] = []
    for form in () if parsed.params else winograd_forms(parsed):
        split = split_ahead(form.kernel, (form.filters,)) if form.filters in constant else None
        if split is None:
            continue
        ahead, rest = split
        if not spares_operations(rest, parsed):
            continue
        filters = next(o.name for o in ahead.operands if o.role == "out")
        own = f"{name}_{ahead.operand(filters).shape[0]}"
        found.append(FormAtPoints(own, print_routine(replace(rest, name=own)), ahead, form.filters, filters))
    return found


def with_forms(program: ModelProgram, chosen: Mapping[str, FormAtPoints]) -> ModelProgram:
    """Return the program in which calls of some kernels use these variants, with transformed filters."""
    constants = dict(program.constants)
    steps = tuple(
        _with_form(step, chosen[step.kernel], constants)
        if isinstance(step, KernelCall) and step.kernel in chosen
        else step
        for step in program.steps
    )
    kernels = {name: text for name, text in program.kernels.items() if name not in chosen}
    kernels |= {form.name: form.text for form in chosen.values()}
    return replace(program, steps=steps, kernels=kernels, constants=constants)


def _with_form(step: KernelCall, form: FormAtPoints, constants: dict[str, Array]) -> KernelCall:
    """Return the call of a variant. Its filters are added to the constants, once for all calls that share them."""
    reads = dict(step.reads)
    passed = reads.pop(form.given)
    tensor = f"{passed.tensor}_{form.name}"  # another form may order its axes in another way
    dtype = DTYPES[passed.dtype]
    if tensor not in constants:
        given = constants[passed.tensor].reshape(-1).view(dtype.numpy()).reshape(passed.shape)
        wide = interpret(form.ahead, {form.given: given}, {}, exact=True)[form.filters]
        constants[tensor] = np.ascontiguousarray(round_to(wide, dtype))
    reads[form.filters] = TensorView(tensor, passed.dtype, form.shape)
    return replace(step, kernel=form.name, reads=reads)


def cheapest_forms(
    forms: Mapping[str, Sequence[FormAtPoints]], costs: Mapping[str, float]
) -> dict[str, FormAtPoints]:
    """Return the cheapest variant of each kernel, if it costs less than the kernel. Units: nanoseconds by name."""
    best = {kernel: min(of, key=lambda form: costs[form.name]) for kernel, of in forms.items()}
    return {kernel: form for kernel, form in best.items() if costs[form.name] < costs[kernel]}
