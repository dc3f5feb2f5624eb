"""Kernels of groups, each text compiled once in a process; others find it in isamap's cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isamap.driver.api import compile as compile_kernel
from isamap.driver.runnable import CompiledKernel
from isamap.source import Diagnostic, UsageProblem


@dataclass(frozen=True, slots=True)
class Options:
    """How kernels are compiled, as `torch.compile(…, options={…})` says it."""

    machine: str = "host"
    threads: int = 1
    heuristic: str = "greedy"
    limit_s: float = 10.0
    pack: bool = False

    @staticmethod
    def of(given: dict[str, Any] | None) -> Options:
        """The options by name. Raises: UsageProblem for one that is not there."""
        known = Options.__dataclass_fields__
        for name in given or {}:
            if name not in known:
                message = f"the backend `isamap` has no option `{name}`"
                notes = (f"options: {', '.join(known)}",)
                raise UsageProblem(Diagnostic("usage", message, notes=notes))
        return Options(**(given or {}))


_KERNELS: dict[tuple[str, Options, tuple[str, ...]], CompiledKernel] = {}


def kernel_of(text: str, options: Options, packed: tuple[str, ...] = ()) -> CompiledKernel:
    """The kernel of a text, which takes some operands packed. Raises: IsamapError of every kind."""
    known = _KERNELS.get((text, options, packed))
    if known is None:
        known = compile_kernel(
            text,
            options.machine,
            {},
            threads=options.threads,
            heuristic=options.heuristic,
            limit_s=options.limit_s,
            packed=packed,
        )
        _KERNELS[text, options, packed] = known
    return known
