"""The Python interface: the functions of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

from isamap.adjoint import differentiate
from isamap.driver.compiling import compile_program
from isamap.driver.inputs import given_text, load_machine, machine_of, named_kernel, read_file
from isamap.driver.options import given_choice, given_flag, given_names, given_word
from isamap.driver.request import Request, complete_sizes, given_sizes, make_request, take_choices
from isamap.driver.runnable import CompiledKernel, prepare
from isamap.driver.verifying import Case, all_cases
from isamap.ir import bind, print_routine
from isamap.match import CountMode
from isamap.match import Mapping as KernelMapping
from isamap.match import find_mappings as find_all
from isamap.run.child import Emulator
from isamap.source import Source
from isamap.syntax import parse_kernel

Sizes = Mapping[str, SupportsIndex | str]
"""By name integers, of Python or numpy, and ranges."""
COUNTS: tuple[CountMode, ...] = ("complete", "fixed", "amos")


def compile(  # noqa: A001 - written as `isamap.compile`, it hides nothing
    kernel: str | Path,
    machine: str | Path,
    sizes: Sizes | None = None,
    *,
    schedule: str | Path | None = None,
    heuristic: str = "cpsat",
    isolate: bool = False,
    profile: str = "default",
    threads: int = 1,
    limit_s: float = 10.0,
    fix: Mapping[str, SupportsIndex | None] | None = None,
    tune: int = 0,
    search: str = "",
    tuned: bool = False,
    packed: Sequence[str] = (),
    cold: bool = False,
    transform: bool | SupportsIndex = False,
    objective: str = "time",
    within: str = "",
) -> CompiledKernel:
    """Return the kernel, compiled for a machine and a number of threads.

    `kernel` is a shipped name, the path of an .ir file, or a text of the language. `machine` is a name, a
    path or "host". Sizes are numbers, or ranges such as "1..8192@512", which stay open until the call.
    `schedule` is a text to replay, or the path of one. `profile` is "default" (the newest that fits), "none" or
    a path. `limit_s` is the longest time for the solver. `fix` are decisions that the solver must not change:
    {"block.k": 256}, or {"block": None} for those of `schedule`. `tune` is the number of schedules to measure,
    0 for none. They are the model's best ones, or those that the searcher `search` proposes. The fastest is used
    and stored (docs/command-tune.md). `tuned` uses the stored one. `packed` names inputs that calls receive packed
    (`CompiledKernel.pack`). `cold` states that no cache has a call's operands yet, which excludes `tune` and
    `tuned`. `transform` rewrites the kernel if that is faster, and a number selects that variant
    (docs/transformations.md). `objective` is "time", "energy" or "edp". `within` is a bound such as "time=1.1"
    (docs/energy.md). Arguments are checked before any work begins. Raises: IsamapError of any kind.
    """
    is_isolated = given_flag("isolate", isolate)
    request = _request(
        kernel, machine, sizes, schedule=schedule, heuristic=heuristic, profile=profile, threads=threads,
        limit_s=limit_s, fix=fix, tune=tune, search=search, tuned=tuned, packed=packed, cold=cold,
        transform=transform, objective=objective, within=within,
    )  # fmt: skip
    return CompiledKernel(prepare(request), is_isolated)


def compile_only(kernel: str | Path, machine: str | Path, **asked: Any) -> None:
    """Cache the plain C that `compile` would build for a model machine. Raises: as `compile`."""
    compile_program(_request(kernel, machine, **asked))


def find_mappings(
    kernel: str | Path, machine: str | Path, sizes: Sizes | None = None, mode: CountMode = "complete"
) -> tuple[KernelMapping, ...]:
    """Return every mapping of a kernel onto a machine's instructions, without sizes for all allowed sizes.

    `mode` is the set that is counted: "complete", "fixed" or "amos" (docs/matching.md).
    """
    counted, given = given_choice("mode", mode, COUNTS), given_sizes(sizes)
    routine = parse_kernel(source_of(kernel))
    if given:
        routine = bind(routine, complete_sizes(routine, given))
    return find_all(routine, load_machine(machine), counted)


def gradient(kernel: str | Path, of: Sequence[str] = (), by: Sequence[str] = ()) -> str:
    """Return the text of the kernel of the gradients of a kernel's results by its inputs (docs/gradients.md).

    `of` names results and `by` names inputs. Without names, all results and inputs of floats are meant.
    Raises: IsamapError if a name is unknown or an operation has no derivative.
    """
    named = given_names("of", of), given_names("by", by)
    return print_routine(differentiate(parse_kernel(source_of(kernel)), *named).backward)


def gradient_pair(
    kernel: str | Path, of: Sequence[str] = (), by: Sequence[str] = (), *, keep: Sequence[str]
) -> tuple[str, str]:
    """Return the texts of the kernel with additional results `keep`, and of the gradient kernel that reads them.

    Raises: IsamapError as `gradient`, and where an array is not one that would be computed again.
    """
    named = given_names("of", of), given_names("by", by), given_names("keep", keep)
    routine = parse_kernel(source_of(kernel))
    made = differentiate(routine, *named)
    forward = made.forward if made.forward is not None else routine
    return print_routine(forward), print_routine(made.backward)


def verify(
    kernel: str | Path,
    machine: str | Path,
    sizes: Sizes | None = None,
    *,
    schedule: str | Path | None = None,
    heuristic: str = "cpsat",
    threads: int = 1,
    packed: Sequence[str] = (),
    emulator: str | None = None,
) -> tuple[Case, ...]:
    """Return the comparisons of a compiled kernel with the interpreter, each with `ok`.

    An `emulator` is a command that runs the one behind it on a processor of its own: "qemu-x86_64 -cpu max".
    """
    request = _request(
        kernel, machine, sizes,
        schedule=schedule, heuristic=heuristic, threads=threads, packed=packed, profile="none",
    )  # fmt: skip
    under = Emulator.read(given_word("emulator", emulator, "a command")) if emulator is not None else None
    return tuple(all_cases(prepare(request, emulator=under), (), guard=True))


def source_of(kernel: str | Path) -> Source:
    """Return the source of a kernel: of a shipped one, of a file, or the text itself. Raises: UsageProblem."""
    found = given_text("kernel", kernel, "a name, a path or a text")
    if isinstance(found, Path):
        return read_file(found, str(found))
    return found if isinstance(found, Source) else named_kernel(found)


def _request(kernel: str | Path, machine: str | Path, sizes: Sizes | None = None, **given: object) -> Request:
    """Return the request of a call, with each part checked. Raises: UsageProblem."""
    source, named, choices = source_of(kernel), machine_of(machine), take_choices(given)
    return make_request(source, named, given_sizes(sizes), choices, dash="")
