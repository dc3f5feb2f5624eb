"""What a call of a small product costs, beside what the product itself takes: microseconds, in turns.

python benchmarks/calls.py [MACHINE]       the host's by default
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from statistics import median

import numpy as np
from alternate import turns

import isamap
from isamap.run.arguments import make_call
from isamap.run.in_process import InProcess
from isamap.run.worker import load_function, make_arguments

SIZES = {"M": 4, "N": 16, "K": 4}
ROUNDS, FEW = 101, 11


def main() -> None:
    """Measure and print."""
    kernel = isamap.compile("gemm_f32", sys.argv[1] if len(sys.argv) > 1 else "host", SIZES)
    rng = np.random.default_rng(0)
    shapes = {"A": (4, 4), "B": (4, 16), "C": (4, 16)}
    arrays = {name: rng.random(shape, np.float32) for name, shape in shapes.items()}
    compiled = kernel.prepared.compiled
    function, _ = load_function(str(compiled.library), compiled.interface.name)
    call = make_call(compiled.interface, arrays, {}, {}, in_place=True)
    arguments = make_arguments(call.fields, [t.array.ctypes.data for t in call.tensors])
    pointer = ctypes.addressof(arguments)
    in_full = InProcess(compiled)
    contenders: dict[str, Callable[[], object]] = {
        "the function": lambda: function(pointer, None, None),
        "bound arrays": kernel.bind(**arrays),
        "numpy": lambda: kernel(**arrays),
    }
    try:
        import torch
    except ImportError:
        pass
    else:
        a, b, c = (torch.as_tensor(array) for array in arrays.values())
        contenders["torch"] = lambda: kernel(A=a, B=b, C=c)
        contenders["torch.mm"] = lambda: torch.mm(a, b, out=c)
    found = turns(contenders, ROUNDS) | turns({"checked in full": lambda: in_full(arrays)}, FEW)
    for name, seconds in found.items():
        print(f"{name:16} {1e6 * min(seconds):6.2f} least {1e6 * median(seconds):6.2f} median")


if __name__ == "__main__":
    main()
