"""`isamap new`: write a kernel, a machine or a project to start from.

    isamap new kernel scale                           ->   scale.ir, which `isamap verify` accepts
    isamap new machine edge --kind matrix             ->   edge.yaml, which `isamap hw check` accepts
    isamap new project demo                           ->   demo/ with a kernel, a C program and a Makefile

`isamap hw new` is the older name of `isamap new machine`. On a terminal, without `--kind`, it asks.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from isamap.cli.answers import Answer, check_new, write_text
from isamap.cli.option_parser import CommandOptions, argument, flag, one_word
from isamap.cli.terminal import complain
from isamap.driver.options import WORDS, option
from isamap.machine.templates import KINDS, asked_of, begin, read_figure
from isamap.source import Source, UsageProblem, cannot_write, dataclass, did_you_mean, read_limited
from isamap.source.numbers import BYTES_PER_UNIT
from isamap.syntax import parse_kernel

T = TypeVar("T")
_NAME = re.compile("[a-z][a-z0-9_-]{0,63}")
_IDENTIFIER = re.compile("[a-z][a-z0-9_]{0,63}")
_HEAD = 4096  # bytes of a file, of which a machine's description begins with its version

_STEPS = (
    (".ir", "match {} --hw host", "see which instructions perform the kernel"),
    (".ir", "compile {} --hw host -o out", "write its code; the sizes that it lacks are named"),
    (".yaml", "hw check {}", "check the description"),
    (".onnx", "compile {} --hw host -o out", "write the model as one library in C"),
)
"""The next step for each kind of file, in the order of the list."""
_FIRST_STEPS = (
    ("isamap run gemm_f32 --hw host -D M=512 N=512 K=512", "compile a matrix product, verify and time it"),
    ("isamap new project demo", "write a kernel with a C program that calls it"),
    ("isamap new machine mine --kind matrix", "write the description of a machine"),
    ("isamap doctor", "see what this computer has and lacks"),
)

_FILES = Path(__file__).parent
KERNEL = (_FILES / "new_project.ir").read_text(encoding="utf-8")
PROGRAM = (_FILES / "new_project.c").read_text(encoding="utf-8")
MAKEFILE = (_FILES / "new_project.mk").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOptions(CommandOptions):
    """The options of `new machine`."""

    name: str = argument("NAME", "The machine's name, or the path of NAME.yaml.")
    kind: str | None = one_word("--kind", "KIND", f"One of {', '.join(KINDS)}.")
    figures: tuple[str, ...] = option(
        "--set", "NAME=VALUE",
        "; ".join(f"{kind}: {', '.join(p.name for p in KINDS[kind].asked)}" for kind in KINDS) + ".",
        WORDS, default=(),
    )  # fmt: skip
    overwrite: bool = flag("--overwrite", "Replace the file that is there.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions(CommandOptions):
    """The options of `new kernel` and `new project`."""

    name: str = argument("NAME", "The kernel's name, which may have a folder before it.")
    overwrite: bool = flag("--overwrite", "Replace the files that are there.")


def kernel_command(asked: TextOptions) -> Answer:
    """Write a small kernel to start from, which passes `verify`."""
    path = _take_path(asked.name.removesuffix(".ir")).with_suffix(".ir")
    steps = (f"isamap verify {path} --hw generic-c -D M=5 N=7", f"isamap run {path} --hw host -D M=256 N=512")
    return _write_templates({path: KERNEL}, path.stem, steps, overwrite=asked.overwrite)


def project_command(asked: TextOptions) -> Answer:
    """Write a folder with a kernel, a C program that calls it, and a Makefile."""
    folder = _take_path(asked.name)
    files = {folder / f"{folder.name}.ir": KERNEL, folder / "main.c": PROGRAM, folder / "Makefile": MAKEFILE}
    return _write_templates(files, folder.name, (f"make -C {folder}",), overwrite=asked.overwrite)


def _take_path(word: str) -> Path:
    """Return the path of a new kernel or project. Raises: UsageProblem if its name is not an identifier of C."""
    path = Path(word)
    if not _IDENTIFIER.fullmatch(path.name):
        said = f"`{path.name[:40]}` is not a name for a kernel"
        help_ = "small letters, digits and `_`, a letter first: `my_kernel`"
        raise UsageProblem.of("option-value", said, help=help_)
    return path


def _write_templates(
    files: Mapping[Path, str], name: str, steps: Sequence[str], *, overwrite: bool
) -> Answer:
    """Write the templates' files, all or none, and return the answer with the next steps."""
    parse_kernel(Source(f"{name}.ir", KERNEL.replace("NAME", name)))  # refuses names that the language takes
    for path in files:
        if not overwrite:
            check_new(path)
    for path, text in files.items():
        if path.parent != Path():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(path.parent, error) from None
        write_text(path, re.sub(r"NAME(?![A-Z])", name, text), overwrite=overwrite)
    lines = [*(f"wrote {path}" for path in files), "", "next:", *(f"  {step}" for step in steps)]
    return Answer({"files": [str(path) for path in files], "next": list(steps)}, "\n".join(lines))


def new_command(asked: NewOptions) -> Answer:
    """Write a commented description of a new machine, which passes `hw check`."""
    path, kind = _path(asked.name), asked.kind
    if not asked.overwrite:
        check_new(path)
    asks = kind is None and not asked.as_json and sys.stdin.isatty()
    chosen = _ask("kind", f"one of {', '.join(KINDS)}", "vector", _kind) if asks else _kind(kind)
    words = dict(_split_unit(figure) for figure in asked.figures)
    given = {key: read_figure(asked_of(chosen, key), word, BYTES_PER_UNIT) for key, word in words.items()}
    for one in KINDS[chosen].asked if asks else ():
        if one.name not in given:
            read = partial(read_figure, one, sizes=BYTES_PER_UNIT)
            given[one.name] = _ask(one.name, one.question, f"{one.usual:g}", read)
    write_text(path, begin(path.stem, chosen, given), overwrite=asked.overwrite)
    lines = [f"wrote {path}: {KINDS[chosen].summary}", "", "next:", f"  isamap hw check {path}"]
    lines += [f"  isamap compile gemm_f32 --hw {path} -D M=64 N=64 K=64 -o out"]
    return Answer({"file": str(path), "kind": chosen, "figures": given}, "\n".join(lines))


machine_command = new_command  # `isamap new machine`


def suggest_next(folder: Path) -> str:
    """Return suggested commands for the first kernel, machine and model in a folder, or for a beginner."""
    found: dict[str, Path] = {}
    with suppress(OSError):
        for path in sorted(folder.iterdir(), reverse=True):
            is_described = path.suffix == ".yaml" and b"\nisamap:" in b"\n" + read_limited(path, _HEAD)
            if path.is_file() and (is_described or path.suffix != ".yaml"):
                found[path.suffix] = path.relative_to(folder)
    steps = [
        (f"isamap {words.format(shlex.quote(str(found[kind])))}", why)
        for kind, words, why in _STEPS
        if kind in found
    ] or [*_FIRST_STEPS]
    width = max(len(words) for words, _ in steps)
    shown = "\n".join(f"  {words:{width}}   {why}" for words, why in steps)
    return (
        "isamap finds how a machine's instructions perform a kernel, and writes the code.\n\n"
        f"next, for example:\n{shown}\n\n`isamap --help` lists all commands."
    )


def _path(name: str) -> Path:
    """Return the path of a new machine's file. Raises: UsageProblem for an invalid name."""
    path = Path(name if name.endswith(".yaml") else f"{name}.yaml")
    if not _NAME.fullmatch(path.stem):
        said = f"`{path.stem[:40]}` is not a name for a machine"
        help_ = "small letters, digits, `-` and `_`, a letter first: `edge-npu`"
        raise UsageProblem.of("option-value", said, help=help_)
    return path


def _kind(word: str | None) -> str:
    if word is not None and word in KINDS:
        return word
    notes = tuple(f"{kind}: {found.summary}" for kind, found in KINDS.items())
    if word is None:
        help_ = "add `--kind npu`; on a terminal, it is asked for"
        raise UsageProblem.of("missing-argument", "a new machine has a kind", notes=notes, help=help_)
    said = f"there is no kind of machine called `{word[:40]}`"
    raise UsageProblem.of("option-value", said, notes=notes, help=did_you_mean(word, KINDS))


def _split_unit(figure: str) -> tuple[str, str]:
    name, sign, value = figure.partition("=")
    if not sign:
        said = f"--set takes NAME=VALUE, not `{figure[:40]}`"
        raise UsageProblem.of("option-value", said, help="write `--set rows=32`")
    return name.strip(), value


def _ask(name: str, question: str, usual: str, read: Callable[[str], T]) -> T:
    """Return the value that a user types, or the default. After an invalid value, ask again."""
    while True:
        complain(f"{name}, {question} [{usual}]:")
        word = sys.stdin.readline()
        try:
            return read(word.strip() or usual)
        except UsageProblem as error:
            if not word:
                raise
            complain(error.render())
