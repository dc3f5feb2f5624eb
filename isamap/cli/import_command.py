"""`isamap import`: a model of ONNX as kernels, a graph file and weights in a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, Finding
from isamap.cli.option_parser import CommandOptions, argument, flag, one_word
from isamap.driver.options import WORDS, Option
from isamap.driver.request import is_range
from isamap.source import UsageProblem, dataclass
from isamap.source.progress import Progress

if TYPE_CHECKING:
    from isamap.graph.elementwise_fusion import Fuse
    from isamap.graph.importing import Imported

SIZES = Option(
    ("-D",), "NAME=VALUE", "Sizes that the model leaves open: a number, or a range such as 1..64.", WORDS, ()
)
CONSTANTS = Option(
    ("--constant",), "NAME=VALUE",
    "A value of an input for all calls: numbers with commas between, or a .npy file.", WORDS, (),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions(CommandOptions):
    """The options of `import`."""

    model: str = argument("MODEL", "The path of an .onnx file.")
    sizes: tuple[str, ...] = SIZES.field()
    constant: tuple[str, ...] = CONSTANTS.field()
    output: str | None = one_word("-o, --output", "FOLDER", "The output folder; MODEL-graph by default.")
    force: bool = flag("--force", "Replace files of FOLDER that were changed since they were written.")


def import_command(asked: ImportOptions) -> Answer:
    """Write a model of ONNX as kernels, a graph file and weights."""
    from isamap.driver.artifacts import check_replaceable, manifest_text, write_folder
    from isamap.graph.graph_file import folder_files

    model, output = asked.model, asked.output
    folder = Path(output if output is not None else f"{Path(model).stem}-graph")
    if output is not None:
        check_replaceable(folder, force=asked.force)
    with Progress() as progress:
        progress("import")
        found = import_file(model, asked.sizes, asked.constant)
    payload: dict[str, object] = {"model": model, "coverage": coverage_json(found)}
    if found.program is None:
        return Answer(payload, coverage_text(found), tuple(Finding.of(d) for d in found.findings), 2)
    files = folder_files(found.program)
    facts: dict[str, object] = {"model": found.name, "kernels": len(found.program.kernels)}
    files["manifest.json"] = manifest_text(facts, files)
    paths = [str(path) for path in write_folder(folder, files, force=asked.force)]
    program = found.program
    counts = f"{len(program.kernels)} kernels, {len(program.steps)} steps"
    payload |= {"kernels": list(program.kernels), "steps": len(program.steps), "files": paths}
    return Answer(payload, f"{coverage_text(found)}\n{counts}\nwrote {folder}")


def import_file(
    model: str,
    sizes: Sequence[str],
    constants: Sequence[str],
    fuse: Fuse | None = None,
    *,
    signed: bool = False,
) -> Imported:
    """Return the model in a file with the given sizes and constant inputs. Raises: UsageProblem."""
    from isamap.graph.elementwise_fusion import fuse_steps
    from isamap.graph.graph_file import constants_of
    from isamap.onnx import import_model

    given: dict[str, int | str] = {}
    for name, value in read_pairs(sizes, "-D").items():
        is_number = value.isascii() and value.isdigit() and len(value) < 10
        if not is_number and not is_range(value):
            said = f"the size `{name}` is a whole number or a range of them, not `{value[:40]}`"
            help_ = f"write -D {name}=1, or -D {name}=1..64"
            raise UsageProblem.of("size-syntax", said, help=help_)
        given[name] = int(value) if is_number else value
    known = constants_of(read_pairs(constants, "--constant"))
    return import_model(model, sizes=given, constants=known, fuse=fuse or fuse_steps, signed=signed)


def read_pairs(words: Sequence[str], option: str) -> dict[str, str]:
    """Return the values of NAME=VALUE words by name. Raises: UsageProblem."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            said = f"{option} takes NAME=VALUE, not `{word[:40]}`"
            raise UsageProblem.of("option-value", said, help=f"write {option} NAME=VALUE")
        found[name] = value
    return found


def coverage_json(found: Imported) -> list[dict[str, object]]:
    """Return each node of a model with its outcome in the import, as JSON."""
    return [
        {
            "node": t.node.called,
            "operator": t.node.op,
            "domain": t.node.domain,
            "taken": t.where,
            "why": t.why,
        }
        for t in found.taken
    ]


def coverage_text(found: Imported) -> str:
    """Return text with each operator and the outcomes of its nodes in the import."""
    rows = Counter((t.node.op, t.where) for t in found.taken)
    lines = [f"{found.name}: {len(found.taken)} nodes"]
    wide = max((len(op) for op, _ in rows), default=0)
    lines += [f"  {op:<{wide}}  {count:4} {_SAID[where]}" for (op, where), count in sorted(rows.items())]
    return "\n".join(lines)


_SAID = {
    "kernel": "by kernels",
    "move": "by moves",
    "view": "nothing to compute",
    "known": "computed now",
    "integers": "part of operators of integers",
    "function": "written by others",
    "library": "graphs that the library calls as data decides",
    "refused": "refused",
}
