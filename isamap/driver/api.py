"""The Python interface: what the command line does, as functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isamap.driver.callable import CompiledKernel
from isamap.driver.prepare import prepare
from isamap.driver.profiles import find_profile
from isamap.driver.request import Request, Size
from isamap.driver.sizes import complete_sizes
from isamap.driver.verify import Case, all_cases
from isamap.ir import bind
from isamap.kernels import kernel_path, list_kernels
from isamap.machine import detect_machine, load_machine
from isamap.match import CountMode
from isamap.match import Mapping as KernelMapping
from isamap.match import find_mappings as find_all
from isamap.source import Source
from isamap.syntax import parse_kernel

Sizes = Mapping[str, Size]
FILLS = ("integers", "random", "edges")


def compile(  # noqa: A001 - whoever writes `isamap.compile` hides nothing
    kernel: str,
    machine: str,
    sizes: Sizes | None = None,
    *,
    heuristic: str = "cpsat",
    isolate: bool = False,
    profile: str = "default",
    threads: int = 1,
    limit_s: float = 10.0,
    fix: Mapping[str, int] | None = None,
    tune: int = 0,
    tuned: bool = False,
    packed: Sequence[str] = (),
    cold: bool = False,
) -> CompiledKernel:
    """The kernel, compiled for a machine, and for so many threads.

    `kernel` is a shipped name or a text of the language; `machine` a name, a path or "host"; sizes are
    numbers, or ranges such as "1..8192@512", which stay open until the call. `profile` is "default" (the
    newest one that fits), "none" or a path. `limit_s` is the longest time for the solver, `fix` what it may
    not decide: {"block.k": 256}. `tune` is how many of the model's best schedules to measure, of which the
    fastest is taken and kept; `tuned` takes the one that was kept before. `packed` names inputs that calls
    take packed: `CompiledKernel.pack`. `cold` says that each call's operands are in no cache yet; what
    `tune` measures finds them there.
    Raises: IsamapError of every kind.
    """
    name = machine_of(machine)
    request = Request(
        source_of(kernel),
        name,
        sizes or {},
        heuristic=heuristic,
        profile=find_profile(profile, name),
        threads=threads,
        limit_s=limit_s,
        fixed=fix or {},
        tune=tune,
        tuned=tuned,
        packed=tuple(packed),
        cold=cold,
    )
    return CompiledKernel(prepare(request), isolate)


def find_mappings(
    kernel: str, machine: str, sizes: Sizes | None = None, mode: CountMode = "complete"
) -> tuple[KernelMapping, ...]:
    """Every mapping of a kernel onto a machine's instructions; without sizes, for all that it allows.

    `mode` says what is counted: "complete", "fixed" or "amos" (docs/matching.md).
    """
    routine = parse_kernel(source_of(kernel))
    if sizes:
        routine = bind(routine, complete_sizes(routine, sizes))
    return find_all(routine, load_machine(machine_of(machine)), mode)


def verify(
    kernel: str,
    machine: str,
    sizes: Sizes | None = None,
    *,
    heuristic: str = "cpsat",
    threads: int = 1,
    packed: Sequence[str] = (),
) -> tuple[Case, ...]:
    """The comparisons of a compiled kernel with the interpreter; each says whether it is `ok`."""
    request = Request(
        source_of(kernel),
        machine_of(machine),
        sizes or {},
        heuristic=heuristic,
        threads=threads,
        packed=tuple(packed),
    )
    return tuple(all_cases(prepare(request), FILLS, guard=True))


def source_of(kernel: str) -> Source:
    """The text of a shipped kernel, or the text itself."""
    if kernel in list_kernels():
        return Source(f"{kernel}.ir", kernel_path(kernel).read_text(encoding="utf-8"))
    return Source("kernel", kernel)


def machine_of(machine: str) -> str:
    """The machine's name, "host" resolved."""
    return detect_machine() if machine == "host" else machine
