"""Every reader of a file that a stranger may send: its function, what its inputs start from, how they change.

    READERS["npy"].read(b"\\x93NUMPY…", folder)     reads an array, or refuses it with an IsamapError
    READERS["npy"].seeds()                         the arrays that the inputs start from

A reader goes as far as a command goes before anything is solved, compiled or run. The folder holds the files
that an input may name, and links that leave it. Imports stand in the functions, for `run.py` imports nothing
of isamap before it is instrumented.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from isamap.ir import Kernel, Range
    from isamap.machine import Machine
    from isamap.plan.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
SEEDS = Path(__file__).parent / "seeds"
"""A folder for each reader, with inputs that once deceived it; `beside` has the files that they name."""
WORDS = ROOT / "tests" / "data" / "machines" / "words.yaml"
"""A machine whose instructions have words: it reads programs."""
QUARTER = "kernel quarter(M) { in x: f32[M]; out y: f32[M]; for i in M { y[i] = x[i] * 0.25; } }"
GEMM = """isamap schedule 1
kernel gemm_f32
machine generic-c
sizes K = 16, M = 16, N = 16

nest 0 {
  map mac_f32 (a = A[m, k], b = B[k, n]);
  stage b;
  for m by 3 {
    for n by 3 {
      hold;
      for k by 1 {
        unroll n by 1 {
          unroll m by 1 {
            issue;
          }
        }
      }
    }
  }
}
"""


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of bytes, which may write to a folder. `change` names the change of `mutated_inputs`."""

    read: Callable[[bytes, Path], None]
    given: Callable[[], list[bytes]]
    change: str = "mutated"

    def changed(self, data: bytes, random: Random) -> bytes:
        """Return the input with another value somewhere, as its format has values."""
        from properties import mutated_inputs

        return getattr(mutated_inputs, self.change)(data, random)


def make_folder(folder: Path) -> None:
    """Make the folder in which readers work, beside a secret that nothing in it may lead to."""
    folder.mkdir(parents=True, exist_ok=True)
    secret = folder.parent / "secret"
    for path in (SEEDS / "beside").iterdir():
        shutil.copy(path, folder / path.name)
        shutil.copy(path, secret)
    for name in ("link", "hard"):
        (folder / name).unlink(missing_ok=True)
    (folder / "link").symlink_to(secret)
    (folder / "hard").hardlink_to(secret)


# --- models -----------------------------------------------------------------------------------------------


def read_onnx(data: bytes, folder: Path) -> None:
    """Read a model and lower its nodes; a program of it has names for C only."""
    from isamap.graph.importing import lower_model
    from isamap.onnx.onnx_models import parse_model

    program = lower_model(parse_model(data, folder / "x.onnx"), "x", {}, {}).program
    if program is not None:
        _check_names(program.name, *program.kernels)


def onnx_seeds() -> list[bytes]:
    """Return models at the edges of operators, and models that lie, of the other tests."""
    from onnx_edges import EDGES
    from onnx_models import make
    from unit.test_onnx_hostile import LIES

    models: list[Any] = [make(e.nodes, e.inputs, e.outputs, e.constants, e.opset) for e in EDGES.values()]
    models += [made for made, _ in LIES.values()]
    return [model.SerializeToString() for model in models]


def read_graph(data: bytes, folder: Path) -> None:
    """Read a graph file with the files beside it."""
    from isamap.graph.graph_file import read_folder

    (folder / "graph.json").write_bytes(data)
    program = read_folder(folder / "graph.json")
    _check_names(program.name, *program.kernels)


def graph_seeds() -> list[bytes]:
    """Return a graph file that is read."""
    wrong = json.loads((SEEDS / "graph" / "weights-symlink.json").read_bytes())
    return [json.dumps(wrong | {"weights": "m.weights"}).encode()]


def _check_names(*names: str) -> None:
    wrong = [name for name in names if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
    assert not wrong, f"{wrong} would stand in C"


def read_array(data: bytes, folder: Path) -> None:
    """Read the array of a constant."""
    from isamap.graph.graph_file import constants_of

    (folder / "x.npy").write_bytes(data)
    constants_of({"w": str(folder / "x.npy")})


def array_seeds() -> list[bytes]:
    """Return arrays of several types and sizes."""
    import io

    import numpy as np

    found: list[bytes] = []
    for dtype, shape in (("<f4", (2, 3)), (">i8", (4,)), ("?", ()), ("<f2", (1, 0, 2)), ("u1", (3, 3))):
        for order in ("C", "F"):
            file = io.BytesIO()
            np.save(file, np.ones(shape, dtype, order=order))
            found.append(file.getvalue())
    return found


# --- programs ---------------------------------------------------------------------------------------------


def read_program(data: bytes, folder: Path) -> None:
    """Read a program, perform it and price it: `verify --program`."""
    from isamap.driver.encoded_programs import load_program, program_cases, program_kernel
    from isamap.source import Source
    from isamap.stream.execute import count_instructions
    from isamap.stream.timing import stream_time

    (folder / "x.program").write_bytes(data)
    machine = words_machine()
    program = load_program(str(folder / "x.program"), machine)
    kernel = program_kernel(program, Source("quarter.ir", QUARTER))
    cases = list(program_cases(program, machine, kernel, ("random",)))
    if all(case.checked != "nothing" for case in cases):
        count_instructions(program, machine)
        stream_time(program, machine)


@cache
def words_machine() -> Machine:
    """Return a machine whose instructions have words."""
    from isamap.machine import load_machine

    return load_machine(str(WORDS))


@cache
def program_seeds() -> list[bytes]:
    """Return programs of several sizes."""
    from isamap.driver.encoded_programs import compile_words
    from isamap.driver.request import Request
    from isamap.source import Source
    from isamap.stream.program_file import write_program

    source = Source("quarter.ir", QUARTER)
    asked = [Request(source, str(WORDS), {"M": size}, heuristic="greedy") for size in (8, 24)]
    return [write_program(compile_words(request)[0]) for request in asked]


# --- what costs are taken from ----------------------------------------------------------------------------


def read_profile(data: bytes, folder: Path) -> None:
    """Read a profile, which is signed again, and lay it over its machine."""
    from properties.mutated_inputs import signed

    from isamap.driver.inputs import find_profile, with_profile
    from isamap.machine import load_machine

    try:
        stored: Any = json.loads(data)
    except (ValueError, RecursionError):
        stored = None
    (folder / "x.json").write_bytes(
        signed(cast("dict[str, Any]", stored)) if isinstance(stored, dict) else data
    )
    with_profile(load_machine("generic-c"), find_profile(str(folder / "x.json"), "generic-c"))


def profile_seeds() -> list[bytes]:
    """Return a profile of this processor."""
    from properties.mutated_inputs import profile_text

    return [profile_text().encode()]


def read_library(data: bytes, folder: Path) -> None:
    """Read the description of a library, look for its file, and for a call that performs a kernel."""
    from isamap.libraries.description import read_library
    from isamap.libraries.installed import find_installed
    from isamap.libraries.recognise import find_call

    (folder / "x.yaml").write_bytes(data)
    library = read_library(folder / "x.yaml", "x.yaml")
    find_installed(library)
    find_call(_kernel(), library, frozenset())


def library_seeds() -> list[bytes]:
    """Return the shipped descriptions, short ones of them whole."""
    return [path.read_bytes() for path in sorted((ROOT / "isamap" / "library_calls").glob("*.yaml"))]


@cache
def _kernel() -> Kernel:
    from isamap.source import Source
    from isamap.syntax import parse_kernel

    return parse_kernel(Source("k.ir", (ROOT / "kernels" / "gemm_f32.ir").read_text(encoding="utf-8")))


# --- tables -----------------------------------------------------------------------------------------------


def read_buffers(data: bytes, folder: Path) -> None:
    """Read the buffers of `memplan`, and place them."""
    from isamap.driver.inputs import read_file
    from isamap.plan.placement import print_offsets, read_buffers

    (folder / "x.csv").write_bytes(data)
    table = read_buffers(read_file(folder / "x.csv", "x.csv"))
    print_offsets(table, dict.fromkeys((b.name for b in table.buffers), 0))


def buffers_seeds() -> list[bytes]:
    """Return tables of the public suite of MiniMalloc, and one of our own."""
    own = b"id,lower,upper,size,alignment\nb0,0,3,4,4\nb1,1,4,8,4\n"
    return [own, *(p.read_bytes() for p in sorted((ROOT / "tests/data/minimalloc").glob("*.csv")))]


def read_sizes(data: bytes, folder: Path) -> None:
    """Read sets of sizes, a line each (`verify --sizes`), and as a table (`schedule --rows`)."""
    from isamap.cli.early_words import read_sizes_file
    from isamap.cli.schedule_command import read_rows
    from isamap.driver.inputs import read_file
    from isamap.driver.request import Request
    from isamap.source import IsamapError, Source

    (folder / "x.csv").write_bytes(data)
    text = (ROOT / "kernels" / "gemm_f32.ir").read_text(encoding="utf-8")
    try:
        read_rows(Request(Source("k.ir", text), "generic-c", {}), str(folder / "x.csv"))
    except IsamapError:
        read_sizes_file(read_file(folder / "x.csv", "x.csv"))


def sizes_seeds() -> list[bytes]:
    """Return a table and lines."""
    return [b"M,N,K,name\n4,4,4,a\n8,2..9@4,4,b\n", b"M=4 N=1..8@3, K=4 # first\nM=5\n"]


def read_rows(data: bytes, folder: Path) -> None:
    """Read the rows that an earlier run kept (`--resume`)."""
    from isamap.bench.kept_rows import ROWS_FILE, open_rows
    from isamap.bench.simulated_suite import SimulatedRow

    (folder / ROWS_FILE).write_bytes(data)
    open_rows(folder, True, SimulatedRow.from_json)


def rows_seeds() -> list[bytes]:
    """Return two rows."""
    from isamap.bench.simulated_suite import SimulatedRow

    rows = [SimulatedRow(n, "s", "k", f"l{n}", "c", {"M": 1 + n}, "f", 1, "m") for n in range(2)]
    return ["".join(json.dumps(row.as_json()) + "\n" for row in rows).encode()]


# --- texts ------------------------------------------------------------------------------------------------


def read_kernel(data: bytes, folder: Path) -> None:
    """Read a kernel, and print it again."""
    from isamap.driver.inputs import named_kernel
    from isamap.syntax import parse_kernel
    from isamap.syntax.parser import format_source

    (folder / "x.ir").write_bytes(data)
    source = named_kernel(str(folder / "x.ir"))
    parse_kernel(source)
    format_source(source)


def kernel_seeds() -> list[bytes]:
    """Return the shipped kernels."""
    return [path.read_bytes() for path in sorted((ROOT / "kernels").glob("*.ir"))]


def read_machine(data: bytes, folder: Path) -> None:
    """Read a description with all that it extends."""
    from isamap.machine import load_machine

    (folder / "x.yaml").write_bytes(data)
    load_machine(str(folder / "x.yaml"))


def machine_seeds() -> list[bytes]:
    """Return the shipped descriptions, each by the name of the file that the reader gets."""
    found = (path.read_bytes() for path in sorted((ROOT / "hw_specs").glob("*.yaml")))
    return [re.sub(rb"(?m)^name: .*", b"name: x", data) for data in found]


def read_schedule(data: bytes, folder: Path) -> None:
    """Replay a schedule up to the program, with the question that `GEMM` answers."""
    from isamap.driver.inputs import read_file
    from isamap.lower.passes import lower
    from isamap.plan.check import check_schedule
    from isamap.plan.text import parse_schedule

    (folder / "x.schedule").write_bytes(data)
    schedule = parse_schedule(read_file(folder / "x.schedule", "x.schedule"))
    kernel, machine, problem, sizes = _asked()
    if not check_schedule(schedule, problem):
        lower(kernel, machine, schedule, sizes)


@cache
def _asked() -> tuple[Kernel, Machine, Problem, dict[str, int | Range]]:
    from isamap.formulate.build import build_problem
    from isamap.ir import bind
    from isamap.machine import load_machine

    sizes: dict[str, int | Range] = dict.fromkeys("MNK", 16)
    kernel, machine = bind(_kernel(), sizes), load_machine("generic-c")
    return kernel, machine, build_problem(kernel, machine, sizes), sizes


def schedule_seeds() -> list[bytes]:
    """Return the schedules of the documentation, and one that replays."""
    return [GEMM.encode(), *(path.read_bytes() for path in sorted((ROOT / "docs").rglob("*.schedule")))]


def read_opened(data: bytes, folder: Path) -> None:
    """Read a kernel or a description as the language server does while it is written."""
    from isamap.lsp.analysis import analyse
    from isamap.lsp.server import complete
    from isamap.source import Source

    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    name = "x.ir" if "kernel" in text[:200] else "x.yaml"
    found = analyse(Source(name, text), folder / name)
    for offset in range(0, len(text), max(1, len(text) // 5)):
        complete(found, offset)
        found.use_at(offset)


def opened_seeds() -> list[bytes]:
    """Return kernels and descriptions."""
    return [*kernel_seeds()[::6], *machine_seeds()[::6]]


def read_cached(data: bytes, folder: Path) -> None:
    """Read a value as the cache holds it, its digest being right, and a machine of its texts."""
    from isamap.machine.chain import read_chain
    from isamap.machine.checks import restore_machine
    from isamap.source import Diagnostic, UsageProblem
    from isamap.source.codec import read_value

    files = read_chain(str(WORDS))
    restore_machine(data, files)
    try:
        read_value(data, [file.source for file in files])
    except ValueError as error:
        raise UsageProblem(Diagnostic("file-unreadable", str(error))) from None


def cached_seeds() -> list[bytes]:
    """Return a machine as the cache holds it, and its units alone, which are small."""
    from isamap.machine.chain import read_chain
    from isamap.source.codec import write

    machine, known = words_machine(), [file.source for file in read_chain(str(WORDS))]
    return [write(value, known).encode() for value in (machine, *machine.units.values())]


READERS: dict[str, Reader] = {
    "cached": Reader(read_cached, cached_seeds, "changed_json"),
    "onnx": Reader(read_onnx, onnx_seeds, "changed_onnx"),
    "graph": Reader(read_graph, graph_seeds, "changed_json"),
    "npy": Reader(read_array, array_seeds, "changed_array"),
    "program": Reader(read_program, program_seeds, "changed_program"),
    "library": Reader(read_library, library_seeds),
    "profile": Reader(read_profile, profile_seeds, "changed_json"),
    "buffers": Reader(read_buffers, buffers_seeds),
    "sizes": Reader(read_sizes, sizes_seeds),
    "rows": Reader(read_rows, rows_seeds),
    "kernel": Reader(read_kernel, kernel_seeds),
    "machine": Reader(read_machine, machine_seeds),
    "schedule": Reader(read_schedule, schedule_seeds),
    "opened": Reader(read_opened, opened_seeds),
}
"""By risk: what is newest, and what strangers send most, comes first."""


def seeds(reader: str, most_bytes: int) -> list[bytes]:
    """Return what the inputs of a reader start from: right ones, and those of its folder in `seeds`."""
    kept = sorted((SEEDS / reader).glob("*"))
    found = [*READERS[reader].given(), *(path.read_bytes() for path in kept)]
    return [data for data in found if len(data) <= most_bytes]
