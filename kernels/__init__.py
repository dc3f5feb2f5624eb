"""The kernels that isamap ships, one `.ir` file each. `kernel_path("gemm_f32")` is the path of one.

So are the functions of the library, in the folder `functions`: `function_path("exp")`.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent
_FUNCTIONS = _FOLDER / "functions"


def list_kernels() -> tuple[str, ...]:
    """Return the names of all shipped kernels, in alphabetical order."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.ir")))


def kernel_path(name: str) -> Path:
    """Return the file of a shipped kernel. Raises: KeyError when there is none of that name."""
    if name not in list_kernels():
        raise KeyError(name)
    return _FOLDER / f"{name}.ir"


def list_functions() -> tuple[str, ...]:
    """Return the names of all functions of the library, in alphabetical order."""
    return tuple(sorted(path.stem for path in _FUNCTIONS.glob("*.ir")))


def function_path(name: str) -> Path:
    """Return the file of a function. Raises: KeyError when there is none of that name."""
    if name not in list_functions():
        raise KeyError(name)
    return _FUNCTIONS / f"{name}.ir"
