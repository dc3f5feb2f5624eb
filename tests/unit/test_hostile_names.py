"""Names of strangers in all that isamap writes: no name ends a comment, opens an element or names a device.

Each source of names is given each hostile text, and every file that comes of it is read as its readers do:
C by a preprocessor that knows trigraphs, HTML and SVG by a parser, JSON as JSON, a Makefile by its variables.
A source that refuses a name writes nothing.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from onnx_models import make

from isamap.cli import main

WORD = "INJECTED"
HOSTILE = (
    f"*/ {WORD} /*",
    f"*??/\n/ {WORD} /*",
    f"*\\\n/ {WORD} /*",
    f'"\n{WORD}\n#include "x',
    f"x\n{WORD} = $(shell touch {WORD})\n",
    f"</script></style></title></textarea>--><{WORD} x='\"><{WORD}>",
    f"\u202e{WORD}\u2066",
    f"con/../aux.{WORD}",
)
DEVICES = ("con", "NUL", "Com1", "aux", "prn", "LPT9")
_ALONE = re.compile(rf"\b{WORD}\b")
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
KERNEL = "kernel {name}(N) {{ in x: f32[N]; out y: f32[N]; for n in N {{ y[n] = x[n] + 1; }} }}\n"
COMPILE = ("-D", "N=8", "--heuristic", "greedy", "--no-cache")


class Elements(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(name for name, _ in attrs)}


def wrong_in(path: Path) -> list[str]:
    """Return what is wrong with a file that was written: its name, or what a hostile name does in it."""
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    found = [f"{path.name} is a device"] if _DEVICE.fullmatch(path.name) else []
    match path.suffix:
        case ".c" | ".h":
            bare = re.sub(r"^ *#.*$", "", text, flags=re.MULTILINE)
            words = ["gcc", "-std=c11", "-trigraphs", "-E", "-P", "-"]
            read = subprocess.run(words, input=bare, capture_output=True, text=True, check=True).stdout
            lines = [*read.splitlines(), *re.findall(r"#include (.*)", text)]
            found += [f"{path.name}: {line}" for line in lines if _ALONE.search(line)]
            found += [f"{path.name}: U+{ord(c):x}" for c in text if 0x202A <= ord(c) <= 0x202E]
        case ".html" | ".svg":
            page = Elements()
            page.feed(text)
            found += [f"{path.name}: <{name}>" for name in page.found if WORD.lower() in name]
        case ".json":
            json.loads(text)
        case _ if path.name == "Makefile":
            found += [f"Makefile: {line}" for line in text.splitlines() if _ALONE.search(line)]
        case _:
            pass
    return found


def compiling(kernel: Path, hw: str, out: Path, page: Path) -> list[str]:
    """Return the command that compiles a kernel, with its report as a folder."""
    return ["compile", str(kernel), "--hw", hw, *COMPILE, "-o", str(out), "--report", str(page)]


# --- sources of names, each with a function that writes all that it can -------------------------------------


def of_kernels_file(folder: Path, name: str) -> list[list[str]]:
    """The name of a kernel's file; a name that no file can have is one of a folder's that is not there."""
    path = folder / f"{name.replace('/', '_')}.ir"
    path.write_text(KERNEL.format(name="k"))
    return [compiling(path, "generic-c", folder / "out", folder / "page")]


def of_machine(folder: Path, name: str) -> list[list[str]]:
    """What a machine says of itself, and of its sources."""
    (folder / "k.ir").write_text(KERNEL.format(name="k"))
    own, text = folder / "own.yaml", json.dumps(name)
    own.write_text(f"isamap: 1\nname: own\nextends: generic-c\nsummary: {text}\nsources: {{s: {text}}}\n")
    return [
        compiling(folder / "k.ir", str(own), folder / "out", folder / "page"),
        ["hw", "show", str(own), "--svg", str(folder / "machine.svg")],
    ]


def of_parts_of_a_machine(folder: Path, name: str) -> list[list[str]]:
    """The names of a machine, a unit and an instruction, in turn."""
    (folder / "k.ir").write_text(KERNEL.format(name="k"))
    made: list[list[str]] = []
    for number, (machine, unit, instruction) in enumerate(
        ((name, "u", "i"), ("m", name, "i"), ("m", "u", name))
    ):
        path = folder / str(number) / f"{machine.replace('/', '_')}.yaml"
        path.parent.mkdir()
        meaning = f"instruction {instruction}() {{ in a: f32 @ reg; out z: f32 @ reg; z = a + 1; }}"
        path.write_text(
            f"isamap: 1\nname: {json.dumps(machine)}\nextends: generic-c\nsummary: s\nsources: {{s: s}}\n"
            f"units: {{{json.dumps(unit)}: {{count: 1, source: s}}}}\n"
            f"instructions:\n  - semantics: {json.dumps(meaning)}\n    emit: semantics\n    source: s\n"
            f"    cost: {{unit: {json.dumps(unit)}, interval_cycles: 0.1, latency_cycles: 1}}\n"
        )
        out, page = folder / f"out{number}", folder / f"page{number}"
        made.append(compiling(folder / "k.ir", str(path), out, page))
        made.append(["hw", "show", str(path), "--svg", str(folder / f"m{number}.svg")])
    return made


def of_kernel(folder: Path, name: str) -> list[list[str]]:
    """The names of a kernel, a size, an array and an axis, in turn."""
    made: list[list[str]] = []
    for number, (kernel, size, array, axis) in enumerate(
        ((name, "N", "x", "n"), ("k", name, "x", "n"), ("k", "N", name, "n"), ("k", "N", "x", name))
    ):
        path = folder / f"k{number}.ir"
        path.write_text(
            f"kernel {kernel}({size}) {{ in {array}: f32[{size}]; out y: f32[{size}]; "
            f"for {axis} in {size} {{ y[{axis}] = {array}[{axis}] + 1; }} }}\n"
        )
        out, page = folder / f"out{number}", folder / f"page{number}"
        size_of = ["-D", f"{size}=8", *COMPILE[2:]]
        made.append(
            ["compile", str(path), "--hw", "generic-c", *size_of, "-o", str(out), "--report", str(page)]
        )
        made.append(
            ["compile", str(path), "--hw", "generic-c", "--hw", "x86-avx2", *size_of, "-o", f"{out}-both"]
        )
    return made


def of_model(folder: Path, name: str) -> list[list[str]]:
    """The names of a model's file, graph, nodes, tensors, sizes and domains, all of them at once."""
    import numpy as np

    pytest.importorskip("onnx")
    model: Any = make(
        [("Exp", [f"{name}i"], [f"{name}t"], {}), ("Neg", [f"{name}t"], [f"{name}o"], {})],
        {f"{name}i": np.ones(8, np.float32)},
        [f"{name}o"],
    )
    model.graph.name = model.producer_name = model.doc_string = name
    for node in model.graph.node:
        node.name = node.doc_string = name
    model.opset_import.add(domain=name, version=1)
    path = folder / f"{name.replace('/', '_')[:40]}.onnx"
    path.write_bytes(model.SerializeToString())
    greedy = ["--heuristic", "greedy", "--no-cache"]
    return [
        ["import", str(path), "-o", str(folder / "graph")],
        ["compile", str(path), "--hw", "generic-c", *greedy, "-o", str(folder / "out")],
        [
            "compile",
            str(folder / "graph" / "graph.json"),
            "--hw",
            "generic-c",
            *greedy,
            "-o",
            str(folder / "out2"),
        ],
    ]


def of_graph_file(folder: Path, name: str) -> list[list[str]]:
    """The names of a graph file, of its kernels and of its ports."""
    tensor = {"type": "f32", "shape": [4]}
    made: list[list[str]] = []
    for number, (graph, kernel, port) in enumerate(
        ((name, "own", "y"), ("m", name, "y"), ("m", "own", name))
    ):
        at = folder / f"g{number}"
        at.mkdir()
        (at / "m.weights").write_bytes(bytes(64))
        (at / "own.ir").write_text(
            f"kernel {kernel}() {{ in a: f32[4]; out y: f32[4]; for m in 4 {{ y[m] = a[m]; }} }}"
        )
        step = {
            "kernel": kernel,
            "reads": {"a": {"tensor": "c", **tensor}},
            "writes": {"y": {"tensor": "t", **tensor}},
        }
        whole = {
            "isamap": "model/1",
            "name": graph,
            "inputs": [],
            "outputs": [{"name": port, "tensor": "t", **tensor}],
            "weights": "m.weights",
            "constants": [{"tensor": "c", "offset": 0, "bytes": 16}],
            "kernels": {kernel: "own.ir"},
            "steps": [step],
        }
        (at / "graph.json").write_text(json.dumps(whole))
        made.append(
            [
                "compile",
                str(at / "graph.json"),
                "--hw",
                "generic-c",
                "--heuristic",
                "greedy",
                "--no-cache",
                "-o",
                str(folder / f"out{number}"),
            ]
        )
    return made


SOURCES: tuple[Callable[[Path, str], list[list[str]]], ...] = (
    of_kernels_file,
    of_machine,
    of_parts_of_a_machine,
    of_kernel,
    of_model,
    of_graph_file,
)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="C is read by gcc")
@pytest.mark.exhaustive(fast=8)
@pytest.mark.parametrize("name", [*HOSTILE, *DEVICES])
@pytest.mark.parametrize("source", SOURCES)
def test_no_name_says_more_than_a_name(
    source: Callable[[Path, str], list[list[str]]],
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = tmp_path / "given"
    given.mkdir()
    commands = source(given, name)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    codes = [main(words) for words in commands]
    said = capsys.readouterr()
    assert set(codes) <= {0, 2, 3}, said.err
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path not in before]
    assert [problem for path in written for problem in wrong_in(path)] == []
    assert "\u202e" not in said.err
    assert not Path(WORD).exists()


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("source", SOURCES)
def test_usual_names_are_written(
    source: Callable[[Path, str], list[list[str]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [main(words) for words in source(tmp_path, "usual")]
    assert set(codes) == {0}, capsys.readouterr().err
