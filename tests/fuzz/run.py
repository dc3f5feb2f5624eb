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
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
MEMORY_MB = 2048
"""Of the whole process, which holds the coverage and the inputs as well."""
CPU_SECONDS = 10
"""That one input may take, of the processor: a busy machine makes no finding."""
HANG_SECONDS = 600
"""After which an input that does not come back is a finding, by the clock."""
MOST_BYTES = 20_000
FINDING = "finding-"
"""What the names of inputs begin with on which a run ended."""


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
    from isamap.plan.parse import parse_schedule
    from isamap.source import Source

    parse_schedule(Source("x.schedule", text))


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
    for name in ("lark", "ruamel.yaml", "numpy"):  # theirs is not the coverage that guides
        importlib.import_module(name)
    with atheris.instrument_imports(include=["isamap"]):
        from isamap.source import IsamapError

        importlib.import_module("isamap.machine")
        importlib.import_module("isamap.syntax")
        importlib.import_module("isamap.plan.parse")

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
