"""Coverage-guided fuzzing of a reader, by atheris (`pip install -e '.[fuzz]'`).

    python tests/fuzz/run.py --seconds 300 kernel                    the inputs start from what is shipped
    python tests/fuzz/run.py --seconds 300 schedule --keep FOLDER    inputs that reached new code stay there

A reader reads a text or refuses it with an IsamapError. All else is a finding, on which the run ends with a
code that is not 0 and the input in the folder: other exceptions, recursion that is too deep, more memory than
MEMORY_MB, more than CPU_SECONDS for one input, no end within HANG_SECONDS.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # else they would be imported before they are instrumented
    from isamap.ir import Kernel, Range
    from isamap.machine import Machine
    from isamap.plan.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
MEMORY_MB = 2048
"""Of the whole process, which holds the coverage and the inputs as well."""
CPU_SECONDS = 10
"""That one input may take, of the processor: a busy machine makes no finding."""
HANG_SECONDS = 600
"""After which an input that does not come back is a finding, by the clock."""
MOST_BYTES = 8_000
FINDING = "finding-"
"""What the names of inputs begin with on which a run ended."""


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


def read_kernel(text: str, folder: Path) -> None:
    from isamap.source import Source
    from isamap.syntax import format_source, parse_kernel

    source = Source("x.ir", text)
    parse_kernel(source)
    format_source(source)


def read_machine(text: str, folder: Path) -> None:
    from isamap.machine import load_machine

    (folder / "x.yaml").write_text(text, encoding="utf-8")
    load_machine(str(folder / "x.yaml"))


def read_schedule(text: str, folder: Path) -> None:
    """What replaying does up to the program, with the question that `GEMM` answers."""
    from isamap.lower.lower import lower
    from isamap.plan.check import check_schedule
    from isamap.plan.text import parse_schedule
    from isamap.source import Source

    schedule = parse_schedule(Source("x.schedule", text))
    kernel, machine, problem, sizes = _asked()
    if not check_schedule(schedule, problem):
        lower(kernel, machine, schedule, sizes)


@cache
def _asked() -> tuple[Kernel, Machine, Problem, dict[str, int | Range]]:
    from isamap.ir import bind
    from isamap.machine import load_machine
    from isamap.posing.build import build_problem
    from isamap.source import Source
    from isamap.syntax import parse_kernel

    text = (ROOT / "kernels" / "gemm_f32.ir").read_text(encoding="utf-8")
    sizes: dict[str, int | Range] = dict.fromkeys("MNK", 16)
    kernel, machine = bind(parse_kernel(Source("k.ir", text)), sizes), load_machine("generic-c")
    return kernel, machine, build_problem(kernel, machine, sizes), sizes


Reader = Callable[[str, Path], None]
"""What reads a text, and may write to a folder."""
READERS: dict[str, Reader] = {
    "kernel": read_kernel,
    "machine": read_machine,
    "schedule": read_schedule,
}


def seeds(reader: str) -> list[bytes]:
    """What the inputs start from: the shipped texts of a kind, and the schedules of the documentation."""
    match reader:
        case "kernel":
            paths = (ROOT / "kernels").glob("*.ir")
        case "machine":
            paths = (ROOT / "hw_specs").glob("*.yaml")
        case _:
            paths = (ROOT / "docs").rglob("*.schedule")
    found = [path.read_bytes() for path in sorted(paths)]
    if reader == "machine":  # each by the name of the file that the reader gets
        found = [re.sub(rb"(?m)^name: .*", b"name: x", data) for data in found]
    if reader == "schedule":
        found.append(GEMM.encode())
    return [data for data in found if len(data) <= MOST_BYTES]


def dictionary() -> str:
    """The words of the grammar and of the schedules, as libFuzzer reads them."""
    grammar = (ROOT / "isamap" / "syntax" / "grammar.lark").read_text(encoding="utf-8")
    words = set(re.findall(r'"([^"\\\n]+)"', grammar))
    for data in seeds("schedule"):
        words |= set(re.findall(r"[a-z]{2,}", data.decode("utf-8")))
    for data in seeds("machine")[:4]:
        words |= {f"{key}:" for key in re.findall(r"\b([a-z_]+):", data.decode("utf-8"))}
    return "".join(f'"{word}"\n' for word in sorted(words))


def main() -> None:
    """Fuzzes the reader that the command line names."""
    parser = argparse.ArgumentParser(description="Coverage-guided fuzzing of a reader.")
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument(
        "--keep", type=Path, help="a folder for inputs that reached new code, and for findings"
    )
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix="isamap-fuzz-"))
    fuzz(READERS[given.reader], seeds(given.reader), folder, given.seconds)


def fuzz(
    read: Reader, starting: Sequence[bytes], folder: Path, seconds: int, cpu_seconds: float = CPU_SECONDS
) -> NoReturn:
    """Fuzzes a reader; libFuzzer ends the process, with code 0 where nothing was found."""
    inputs, work = folder / "inputs", folder / "work"
    for path in (inputs, work):
        path.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(starting):
        (inputs / f"seed-{number}").write_bytes(data)
    (folder / "words.dict").write_text(dictionary(), encoding="utf-8")

    sys.path.insert(0, str(ROOT))
    atheris: Any = importlib.import_module("atheris")
    for name in ("lark", "ruamel.yaml", "numpy", "islpy"):  # theirs is not the coverage that guides
        importlib.import_module(name)
    with atheris.instrument_imports(include=["isamap"]):
        from isamap.source import IsamapError

        importlib.import_module("isamap.machine")
        importlib.import_module("isamap.syntax")
        importlib.import_module("isamap.lower.lower")
        importlib.import_module("isamap.posing.build")
        importlib.import_module("isamap.plan.text")

    def try_one(data: bytes) -> None:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return
        begun = time.process_time()
        with contextlib.suppress(IsamapError):
            read(text, work)
        taken = time.process_time() - begun
        assert taken <= cpu_seconds, f"{taken:.1f} seconds of the processor for one input"

    options = [
        f"-max_total_time={seconds}",
        f"-timeout={HANG_SECONDS}",
        f"-report_slow_units={HANG_SECONDS}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-max_len={MOST_BYTES}",
        f"-dict={folder / 'words.dict'}",
        f"-artifact_prefix={folder}/{FINDING}",
        "-print_final_stats=1",
        "-seed=1",
    ]
    print(f"inputs and findings: {folder}", flush=True)
    atheris.Setup([sys.argv[0], *options, str(inputs)], try_one)
    atheris.Fuzz()
    raise AssertionError("libFuzzer ends the process")


if __name__ == "__main__":
    main()
