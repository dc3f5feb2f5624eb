"""Each shipped kernel is held against numpy: the interpreter computes what the kernel's name says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_references import REFERENCES, SCALARS

from isamap.ir import Kernel, bind, interpret
from isamap.kernels import kernel_path, list_kernels
from isamap.run.fills import make_arrays
from isamap.source import Source
from isamap.syntax import parse_kernel

Array = Any
WIDE = 1e-11
"""The difference that sums of float64 in another order may make, of the largest value compared."""

OF_F32 = 2.0**-22
"""The same for functions that polynomials of f32 define."""


def load(name: str) -> Kernel:
    return parse_kernel(Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8")))


def widened(kernel: Kernel, arrays: dict[str, Array]) -> dict[str, Array]:
    return {
        n: a.astype(np.float64 if kernel.operand(n).dtype.is_float else np.int64) for n, a in arrays.items()
    }


def test_every_shipped_kernel_has_a_reference() -> None:
    assert set(REFERENCES) == set(list_kernels())


@pytest.mark.parametrize("fill", ["integers", "random", "edges"])
@pytest.mark.parametrize("name", REFERENCES)
def test_the_interpreter_computes_what_numpy_does(name: str, fill: str) -> None:
    """Floats are compared without the roundings of their types, and then with them; integers exactly."""
    kernel, row = load(name), REFERENCES[name]
    scalars = {p.name: SCALARS[p.name] for p in kernel.params if p.dtype is not None}
    for sizes in row.sizes:
        bound = bind(kernel, sizes)
        coarsest = min((o.dtype.mantissa_bits for o in bound.operands if o.dtype.is_float), default=0)
        outputs = {o.name: o.dtype for o in bound.operands if o.role in ("out", "inout")}
        arrays = {n: a for n, a in make_arrays(bound, fill).items() if kernel.operand(n).role != "out"}
        with np.errstate(all="ignore"):
            expected = row.of(widened(kernel, arrays), sizes)
            exact = interpret(kernel, arrays, sizes, scalars, exact=True)
            rounded = interpret(kernel, arrays, sizes, scalars)
        for output, dtype in outputs.items():
            right = np.asarray(expected[output])
            if dtype.is_integer:
                assert np.array_equal(rounded[output], right.astype(np.int64).astype(dtype.numpy())), sizes
                continue
            size = np.abs(right[np.isfinite(right)]).max(initial=1.0)
            wide = OF_F32 if row.approximated else WIDE
            np.testing.assert_allclose(exact[output], right, rtol=wide, atol=wide * size, err_msg=str(sizes))
            if fill != "edges":  # rounded sums of large and small values, whose errors depend on their order
                unit = 16 * 2.0**-coarsest
                found = rounded[output].astype(np.float64)
                np.testing.assert_allclose(found, right, rtol=unit, atol=unit * size, err_msg=str(sizes))
