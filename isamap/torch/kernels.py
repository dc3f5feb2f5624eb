"""Compile the kernels of groups, each text once per process; other processes find it in isamap's cache."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from isamap.driver import ahead
from isamap.driver.api import compile as compile_kernel
from isamap.driver.api import is_kept, kept_key
from isamap.driver.model_rewrites import has_temporaries
from isamap.driver.options import given_flag
from isamap.driver.runnable import CompiledKernel
from isamap.driver.side_by_side import all_jobs
from isamap.source import Diagnostic, IsamapError, UsageProblem


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `torch.compile(…, options={…})`.

    If no heuristic is named, kernels that are worth a search get one.
    """

    machine: str = "host"
    threads: int = 1
    heuristic: str = ""
    limit_s: float = 10.0
    pack: bool = False
    portfolio: bool = False

    @staticmethod
    def of(given: dict[str, Any] | None) -> Options:
        """Return the options by name. Raises: UsageProblem for one that is not there."""
        known = Options.__dataclass_fields__
        for name in given or {}:
            if name not in known:
                message = f"the backend `isamap` has no option `{name}`"
                notes = (f"options: {', '.join(known)}",)
                raise UsageProblem(Diagnostic("usage", message, notes=notes))
        found = Options(**(given or {}))
        given_flag("pack", found.pack)
        given_flag("portfolio", found.portfolio)
        return found

    def of_kernel(self, *, is_searched: bool) -> Options:
        """Return the same with a heuristic for a kernel."""
        heuristic = self.heuristic or ("cpsat" if is_searched else "greedy")
        return replace(self, heuristic=heuristic, portfolio=False)

    def asked(self) -> dict[str, Any]:
        """Return the options of `isamap.compile` besides the kernel and the machine."""
        return {"heuristic": self.heuristic, "threads": self.threads, "limit_s": self.limit_s}


KernelRequest = tuple[str, Options, tuple[str, ...]]
"""The text of a kernel, how it is compiled, and the operands that it takes packed."""
_KERNELS: dict[KernelRequest, CompiledKernel] = {}


LEAST_AHEAD = 4
"""Kernels for which processes are started: each needs a second or more before its first one."""


def compile_ahead(kernel_requests: Sequence[KernelRequest]) -> None:
    """Compiles kernels that are not kept yet on all cores, where there are several of both."""
    if (jobs := all_jobs()) == 1:
        return
    asked = [_asked(one) for one in dict.fromkeys(kernel_requests) if one not in _KERNELS]
    with suppress(IsamapError):  # which is said where each of them is asked for
        new = [one for one in asked if not is_kept(**one)]
        if len(new) >= LEAST_AHEAD:
            ahead.compile_ahead(new, jobs)


def _asked(kernel_requests: KernelRequest) -> dict[str, Any]:
    """Return the options of `isamap.compile`."""
    text, options, packed = kernel_requests
    own = {"kernel": text, "packed": packed, "transform": has_temporaries(text)}
    return {"machine": options.machine, **own, **options.asked()}


def key_of(kernel_requests: KernelRequest) -> str:
    """Return the sha256 of all that a kernel depends on. Raises: IsamapError of every kind."""
    return kept_key(**_asked(kernel_requests)) or ""


def kernel_of(text: str, options: Options, packed: tuple[str, ...] = ()) -> CompiledKernel:
    """Return the kernel of a text, which takes some operands packed. Raises: IsamapError of every kind."""
    known = _KERNELS.get((text, options, packed))
    if known is None:
        known = compile_kernel(**_asked((text, options, packed)))
        _KERNELS[text, options, packed] = known
    return known
