"""A machine is read and checked once; what the cache holds of it is verified, and never replaces its texts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from isamap.hw_specs import families_text
from isamap.ir import F32, Const, Index
from isamap.ir.index import FloorDiv
from isamap.kernels import kernel_path, list_kernels
from isamap.machine import Machine, allowed, checks, load_machine
from isamap.machine.chain import File, read_chain
from isamap.machine.checks import MACHINES, restore_machine
from isamap.machine.model import Unit
from isamap.source import Source, Span, SpecProblem
from isamap.source.cache import Cache
from isamap.source.codec import read_value, write
from isamap.syntax import parse_kernel

WORDS = Path(__file__).parents[1] / "data" / "machines" / "words.yaml"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a cache that is empty, as a new process finds it."""
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))
    checks._load.cache_clear()  # pyright: ignore[reportPrivateUsage] - as another process begins
    return tmp_path / "cache"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a description of our own, which a test may change."""
    path = tmp_path / "words.yaml"
    path.write_bytes(WORDS.read_bytes())
    return path


def load_again(name: str | Path) -> Machine:
    """Load a machine as another process does."""
    checks._load.cache_clear()  # pyright: ignore[reportPrivateUsage] - as another process begins
    return load_machine(str(name))


def as_text(machine: Machine, name: str | Path) -> str:
    return write(machine, [file.source for file in read_chain(str(name))], merges=True)


def refuse(*_: object) -> None:
    raise AssertionError("a description is read again")


def cached_text() -> tuple[str, tuple[File, ...]]:
    """Return a machine as the cache holds it, and its files."""
    return as_text(load_machine(str(WORDS)), WORDS), read_chain(str(WORDS))


SHIPPED = sorted(path.stem for path in (Path(__file__).parents[2] / "hw_specs").glob("*.yaml"))


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize("name", [str(WORDS), *SHIPPED])
def test_a_machine_is_read_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_machine(name)
    monkeypatch.setattr("isamap.machine.load.load_files", refuse)
    again = load_again(name)
    assert again is not first
    assert again is load_machine(name)
    assert (again.word, again.digest) == (first.word, first.digest)
    assert as_text(again, name) == as_text(first, name)


def test_an_instruction_of_the_cache_names_its_place_in_the_text() -> None:
    first, again = load_machine(str(WORDS)), load_again(WORDS)
    spans = [(item.span, again.instructions[name].span) for name, item in first.instructions.items()]
    assert all(one is not None and one == other and str(one) == str(other) for one, other in spans)


def test_equal_objects_are_written_once_where_this_is_asked_for() -> None:
    values = (Const(1, F32), Const(1, F32), Const(1.0, F32), Const(0.0, F32), Const(-0.0, F32), (1,), (True,))
    apart, merged = read_value(write(values)), read_value(write(values, merges=True))
    assert repr(apart) == repr(merged) == repr(values)
    assert apart[0] is not apart[1]
    assert [one is merged[0] for one in merged] == [True, True, *[False] * 5]
    assert len({id(one) for one in merged}) == 6


def test_a_changed_text_is_read(own: Path) -> None:
    before = load_machine(str(own))
    own.write_text(own.read_text().replace("interval_cycles: 1", "interval_cycles: 7"))
    assert load_again(own).digest != before.digest


def test_a_change_of_the_program_reads_machines_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    load_machine(str(WORDS))
    monkeypatch.setattr("isamap.machine.checks.program_state", lambda: "another")
    monkeypatch.setattr("isamap.machine.load.load_files", refuse)
    with pytest.raises(AssertionError, match="read again"):
        load_again(WORDS)


def test_a_mistake_is_never_cached(own: Path, cache: Path) -> None:
    own.write_text(own.read_text().replace("interval_cycles:", "intervall:"))
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(SpecProblem) as found:
            load_again(own)
        said.append(found.value.diagnostics[0].render())
    assert said[0] == said[1]
    assert not list((cache / MACHINES / "objects").iterdir())


def test_the_machine_of_other_texts_is_refused(own: Path) -> None:
    text, files = cached_text()
    assert restore_machine(text.encode(), files) is not None
    own.write_text(own.read_text() + "# changed\n")
    assert restore_machine(text.encode(), read_chain(str(own))) is None


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("classes", 0), "pathlib:Path"),
        (("classes", 0), "isamap.machine.checks:load_machine"),
        (("classes", 0), "isamap.machine.nowhere:X"),
        (("root",), 10**9),
        (("root",), "x"),
        (("rows",), {}),
        (("rows", -1), [99]),
        (("rows", 0), [1, "key"]),
        (("rows", 0), []),
    ],
)
def test_what_the_cache_did_not_write_is_refused(place: tuple[Any, ...], value: object) -> None:
    text, files = cached_text()
    data: Any = json.loads(text)
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    assert restore_machine(json.dumps(data).encode(), files) is None


@pytest.mark.parametrize("data", [b"", b"null", b"[" * 100_000, b'{"classes": [], "rows": []}', b"\xff"])
def test_bytes_that_are_no_machine_are_refused(data: bytes) -> None:
    assert restore_machine(data, read_chain(str(WORDS))) is None


def test_a_value_of_another_type_is_refused_in_fields_that_are_drawn() -> None:
    text, files = cached_text()
    data: Any = json.loads(text)
    random = Random(1)
    rows: list[Any] = [row for row in data["rows"] if row[0] > 2 and len(row) > 1]
    wrong: list[str] = []
    for row in random.sample(rows, 100):
        place = random.randrange(1, len(row))
        before, row[place] = row[place], [["no value"]]
        if restore_machine(json.dumps(data).encode(), files) is not None:
            wrong.append(f"{data['classes'][row[0] - 3]}, field {place}")
        row[place] = before
    assert not wrong


def test_fields_are_compared_with_their_annotations() -> None:
    for value in (Unit("fma", 2), Const(1.5, F32), Index.of("p") * 2, Span(Source("x", "text"), 0, 1)):
        assert read_value(write(value)) == value
    assert read_value(write(FloorDiv(Index.of("x"), Index.of(2)))) == FloorDiv(Index.of("x"), Index.of(2))
    for text in (write(Unit("fma", 2)).replace("[2]", '"2"'), write(Unit("fma", 2)).replace('"fma"', "[1]")):
        with pytest.raises(ValueError, match="of another type"):
            read_value(text)


def test_objects_that_share_their_parts_many_times_are_not_hashed() -> None:
    rows: list[Any] = [[0, "x"], *([0, n, n] for n in range(60)), [2, 60]]
    with pytest.raises(ValueError, match="keys are numbers"):
        read_value(json.dumps({"classes": [], "rows": rows, "root": 61}))


def test_a_folder_that_others_may_write_to_is_not_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_machine(str(WORDS))
    cache.chmod(0o777)
    monkeypatch.setattr("isamap.machine.load.load_files", refuse)
    with pytest.raises(AssertionError, match="read again"):
        load_again(WORDS)
    cache.chmod(0o700)


@pytest.mark.parametrize(("old", "new"), [(b"}", b""), (b"scale", b"scald")])
def test_a_damaged_machine_is_read_anew(old: bytes, new: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    load_machine(str(WORDS))
    (path,) = (Cache.open(MACHINES).folder / "objects").iterdir()
    damaged = path.read_bytes().replace(old, new)
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    monkeypatch.setattr("isamap.machine.load.load_files", refuse)
    with pytest.raises(AssertionError, match="read again"):
        load_again(WORDS)


def test_families_are_read_once_and_as_their_files_say(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = families_text()
    first = allowed._read_families(texts)  # pyright: ignore[reportPrivateUsage] - what is cached
    assert json.loads(json.dumps(first)) == first
    allowed.families.cache_clear()
    features = allowed.features()
    monkeypatch.setattr("isamap.machine.allowed._read_families", refuse)
    allowed.families.cache_clear()
    assert allowed.features() == features


def test_shipped_kernels_of_the_cache_equal_those_of_their_texts() -> None:
    different: list[str] = []
    for name in list_kernels():
        source = Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8"))
        found = [parse_kernel.__wrapped__(source) for _ in range(2)]
        first, again = [write(kernel, [source]) for kernel in found]
        if first != again or found[0] != found[1] or found[0] is found[1]:
            different.append(name)
    assert different == []


def test_a_kernel_that_is_cached_needs_no_parser() -> None:
    program = (
        "import sys; from isamap.source import Source; from isamap.syntax import parse_kernel;"
        "print(parse_kernel(Source('k.ir', 'kernel k(N) { inout A: f32[N]; for i in N { A[i] = 1.0; } }')).name,"
        " 'lark' in sys.modules)"
    )
    told = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert told == ["k True\n", "k False\n"]
