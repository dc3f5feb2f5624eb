"""`isamap grad`: the kernel that computes another one's derivatives, as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, check_new, write_text
from isamap.cli.early_words import read_sizes
from isamap.cli.option_parser import KERNEL, SIZES, CommandOptions, one_word
from isamap.source import UsageProblem, dataclass
from isamap.source.progress import Progress

if TYPE_CHECKING:
    from isamap.driver.keeping import KeptPrice
    from isamap.ir import Kernel

AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class GradOptions(CommandOptions):
    """The options of `grad`."""

    kernel: str = KERNEL.field()
    of: str | None = one_word("--of", "NAMES", "Results, with commas between; all of floats by default.")
    by: str | None = one_word("--by", "NAMES", "Inputs, with commas between; all of floats by default.")
    keep: str | None = one_word(
        "--keep", "NAMES",
        "Arrays that the forward pass keeps, instead of computing them again; `auto` chooses by "
        "the prices of --hw.",
    )  # fmt: skip
    forward: str | None = one_word("--forward", "FILE", "Write the kernel that keeps them there.")
    hw: str | None = one_word("--hw", "MACHINE", "The machine whose prices count.")
    sizes: tuple[str, ...] = SIZES.field()
    output: str | None = one_word("-o", "FILE", "Write it there.")


def grad_command(asked: GradOptions) -> Answer:
    """Write the kernel that computes the derivatives of a kernel's results by its inputs."""
    from isamap.adjoint import differentiate
    from isamap.driver.inputs import machine_of, read_kernel
    from isamap.driver.keeping import choose_kept
    from isamap.ir import print_routine
    from isamap.syntax import parse_kernel

    keep, forward, hw, output = asked.keep, asked.forward, asked.hw, asked.output
    _check(asked)
    routine, names = parse_kernel(read_kernel(asked.kernel)), (_names(asked.of), _names(asked.by))
    for path in (output, forward):
        if path is not None:
            check_new(Path(path))
    prices: tuple[KeptPrice, ...] = ()
    if keep == AUTO and hw is not None:
        with Progress() as progress:
            chosen = choose_kept(routine, *names, machine_of(hw), read_sizes(asked.sizes), progress)
        made, prices = chosen.made, chosen.prices
    else:
        made = differentiate(routine, *names, _names(keep))
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


def _check(asked: GradOptions) -> None:
    """Check that the options can be combined. Raises: UsageProblem."""
    if asked.forward is not None and asked.keep is None:
        raise _usage("`--forward` writes the kernel that keeps arrays", "name them by --keep, or --keep auto")
    if asked.keep == AUTO and asked.hw is None:
        raise _usage("`--keep auto` chooses by prices", "name the machine by --hw, and sizes by -D")
    if asked.keep != AUTO and (asked.hw is not None or asked.sizes):
        raise _usage("`--hw` and `-D` say whose prices count for `--keep auto`", "leave them out")


def _usage(said: str, help_: str) -> UsageProblem:
    return UsageProblem.of("usage", said, help=help_)


def _payload(made: Kernel, text: str, file: str | None) -> Mapping[str, object]:
    inputs = [o.name for o in made.operands if o.role == "in"]
    outputs = [o.name for o in made.operands if o.role == "out"]
    return {"kernel": made.name, "inputs": inputs, "outputs": outputs, "text": text, "file": file}


def _price(price: KeptPrice) -> dict[str, object]:
    return {
        "kept": list(price.kept),
        "forward_ns": round(price.forward_ns, 1),
        "backward_ns": round(price.backward_ns, 1),
    }


def _names(words: str | None) -> list[str]:
    return [word.strip() for word in words.split(",")] if words else []
