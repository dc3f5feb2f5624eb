"""isamap maps kernels onto machines that are described as data, and emits the code.

    import isamap
    gemm = isamap.compile("gemm_f32", "host", {"M": 512, "N": 512, "K": 512})
    gemm(A=a, B=b, C=c)  # c += a @ b, in place

Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from isamap.version import __version__

if TYPE_CHECKING:
    from isamap.driver.api import compile, find_mappings, gradient, gradient_pair, verify  # noqa: A004 - said as `isamap.compile`
    from isamap.driver.inputs import load_machine
    from isamap.driver.runnable import CompiledKernel
    from isamap.machine import list_machines
    from isamap.source import IsamapError

_HOMES = {
    "CompiledKernel": "isamap.driver.runnable",
    "IsamapError": "isamap.source",
    "compile": "isamap.driver.api",
    "find_mappings": "isamap.driver.api",
    "gradient": "isamap.driver.api",
    "gradient_pair": "isamap.driver.api",
    "list_machines": "isamap.machine",
    "load_machine": "isamap.driver.inputs",
    "verify": "isamap.driver.api",
}

__all__ = [
    "CompiledKernel",
    "IsamapError",
    "__version__",
    "compile",
    "find_mappings",
    "gradient",
    "gradient_pair",
    "list_machines",
    "load_machine",
    "verify",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
