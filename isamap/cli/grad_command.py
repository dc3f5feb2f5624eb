"""`isamap grad`: the kernel that computes another one's derivatives, as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isamap.cli.answers import Answer, check_new, write_text
from isamap.cli.options import AsJson, KernelName, SizeWords
from isamap.cli.terminal import Progress
from isamap.cli.words import read_sizes
from isamap.source import Diagnostic, UsageProblem

if TYPE_CHECKING:
    from isamap.driver.keeping import Price
    from isamap.ir import Kernel

AUTO = "auto"


ResultNames = Annotated[
    str | None,
    typer.Option("--of", metavar="NAMES", help="Results, with commas between; all of floats by default."),
]
InputNames = Annotated[
    str | None,
    typer.Option("--by", metavar="NAMES", help="Inputs, with commas between; all of floats by default."),
]
KeptNames = Annotated[
    str | None,
    typer.Option(
        "--keep",
        metavar="NAMES",
        help="Arrays that the forward pass keeps, instead of computing them again; `auto` chooses by "
        "the prices of --hw.",
    ),
]
ForwardFile = Annotated[
    str | None, typer.Option("--forward", metavar="FILE", help="Write the kernel that keeps them there.")
]
PricedMachine = Annotated[
    str | None, typer.Option("--hw", metavar="MACHINE", help="The machine whose prices count.")
]
KernelFile = Annotated[
    str | None, typer.Option("-o", metavar="FILE", help="Write it there.", show_default=False)
]


def grad_command(
    kernel: KernelName,
    of: ResultNames = None,
    by: InputNames = None,
    keep: KeptNames = None,
    forward: ForwardFile = None,
    hw: PricedMachine = None,
    sizes: SizeWords = None,
    output: KernelFile = None,
    as_json: AsJson = False,
) -> Answer:
    """Write the kernel that computes the derivatives of a kernel's results by its inputs."""
    from isamap.adjoint import derivative
    from isamap.driver.inputs import machine_of, read_kernel
    from isamap.driver.keeping import choose_kept
    from isamap.ir import print_routine
    from isamap.syntax import parse_kernel

    _check(keep, forward, hw, sizes)
    routine, names = parse_kernel(read_kernel(kernel)), (_names(of), _names(by))
    for path in (output, forward):
        if path is not None:
            check_new(Path(path))
    prices: tuple[Price, ...] = ()
    if keep == AUTO and hw is not None:
        with Progress() as progress:
            chosen = choose_kept(routine, *names, machine_of(hw), read_sizes(sizes or ()), progress)
        made, prices = chosen.made, chosen.prices
    else:
        made = derivative(routine, *names, _names(keep))
    text = print_routine(made.backward)
    ahead = print_routine(made.forward if made.forward is not None else routine)
    for path, written in ((output, text), (forward, ahead)):
        if path is not None:
            write_text(Path(path), written, overwrite=False)
    payload = {
        **_payload(made.backward, text, output),
        "kept": list(made.kept),
        "again": list(made.again),
        "forward": {"text": ahead, "file": forward} if keep else None,
        "prices": [_price(price) for price in prices],
    }
    said = [text.rstrip("\n") if output is None else f"{made.backward.name}: {output}"]
    if keep == AUTO:
        said.append(f"// kept: {', '.join(made.kept) or 'nothing'}")
    return Answer(payload, "\n".join(said))


def _check(keep: str | None, forward: str | None, hw: str | None, sizes: list[str] | None) -> None:
    """Nothing, where these go together. Raises: UsageProblem."""
    if forward is not None and keep is None:
        raise _usage("`--forward` writes the kernel that keeps arrays", "name them by --keep, or --keep auto")
    if keep == AUTO and hw is None:
        raise _usage("`--keep auto` chooses by prices", "name the machine by --hw, and sizes by -D")
    if keep != AUTO and (hw is not None or sizes):
        raise _usage("`--hw` and `-D` say whose prices count for `--keep auto`", "leave them out")


def _usage(said: str, help_: str) -> UsageProblem:
    return UsageProblem(Diagnostic("usage", said, help=help_))


def _payload(made: Kernel, text: str, file: str | None) -> Mapping[str, object]:
    inputs = [o.name for o in made.operands if o.role == "in"]
    outputs = [o.name for o in made.operands if o.role == "out"]
    return {"kernel": made.name, "inputs": inputs, "outputs": outputs, "text": text, "file": file}


def _price(price: Price) -> dict[str, object]:
    return {
        "kept": list(price.kept),
        "forward_ns": round(price.forward_ns, 1),
        "backward_ns": round(price.backward_ns, 1),
    }


def _names(words: str | None) -> list[str]:
    return [word.strip() for word in words.split(",")] if words else []
