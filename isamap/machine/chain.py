"""Find the texts of a machine from its name or path: the file, the file that it extends, and so on.

`read_chain("x86-avx2")` is `x86-avx2.yaml` and `generic-c.yaml`. A description reaches shipped machines and
files in its own folder, nothing else.

Names and digests of machines, from their texts alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

from isamap.hw_specs import FOLDER, machine_path, shipped_drafts, shipped_machines
from isamap.machine.tree import MAX_FILE_BYTES, ScalarNode, decode, nearest, read_tree
from isamap.source.cache import digest, program_state, recall_or_make
from isamap.source.diagnostic import Source, Span, SpecProblem, UsageProblem
from isamap.source.files import LeavesFolder, open_in_folder, read_limited
from isamap.source.records import dataclass

MAX_CHAIN = 16
_SUFFIXES = (".yaml", ".yml")
_LISTED = "`isamap hw list` lists the shipped machines"


@dataclass(frozen=True, slots=True)
class File:
    """A description's text. `path` is None for standard input."""

    source: Source
    path: Path | None

    @property
    def stem(self) -> str | None:
        return self.path.stem if self.path is not None else None


def read_chain(name_or_path: str, stop_before: str | None = None) -> tuple[File, ...]:
    """Return the file and those that it extends, nearest first. `stop_before` is passed to `read_tree`.

    Raises: UsageProblem if there is no such machine, SpecProblem when a file or its `extends` is bad.
    """
    return follow(_open(name_or_path), stop_before)


def follow(file: File, stop_before: str | None = None) -> tuple[File, ...]:
    """Return a file and those that it extends, nearest first. The file may be an unsaved text of an editor.

    Raises: SpecProblem if a file or its `extends` is bad.
    """
    files = [file]
    while (extends := _extends(files[-1], stop_before)) is not None:
        parent = _parent(extends, files[-1])
        if any(parent.path == file.path for file in files):
            names = " → ".join(f.stem or "-" for f in (*files, parent))
            raise _problem("extends-cycle", f"a machine extends itself: {names}", extends.span)
        if len(files) >= MAX_CHAIN:
            raise _problem("extends-too-deep", f"this extends more than {MAX_CHAIN} machines", extends.span)
        files.append(parent)
    return tuple(files)


_PROVIDED: ContextVar[Mapping[str, File]] = ContextVar("_PROVIDED")
"""Files of another computer by the words and paths that name them."""


def files_to_send(words: Iterable[str]) -> dict[str, File]:
    """Return the files of machines that are not shipped, by the words and paths that `read_chain` follows."""
    found: dict[str, File] = {}
    for word in map(split_word, words):
        files = read_chain(word[0], HEADER_END)
        keys = (word[0], *(str(file.path) for file in files[1:]))
        found |= {k: f for k, f in zip(keys, files, strict=True) if f.path is None or f.path.parent != FOLDER}
    return found


@contextmanager
def with_files(files: Mapping[str, File]) -> Generator[None]:
    """Provide files of another computer while the context lasts."""
    token = _PROVIDED.set(files)
    try:
        yield
    finally:
        _PROVIDED.reset(token)


def _open(name: str) -> File:
    if (provided := _PROVIDED.get({}).get(name)) is not None:
        return provided
    if name == "-":
        return _read_once(sys.stdin)
    known = (*shipped_machines(), *shipped_drafts())
    if name in known:
        return _read_file(machine_path(name), f"{name}.yaml")
    path = Path(name)
    if path.suffix in _SUFFIXES:
        return _read_file(path, name)
    near = nearest(name, known)
    raise UsageProblem.of(
        "unknown-machine",
        f"there is no machine called `{name}`",
        notes=(f"{_LISTED}; a path ends in .yaml",),
        help=f"did you mean `{near}`?" if near else None,
    )


@lru_cache(maxsize=1)
def _read_once(stream: TextIO) -> File:
    """Return the text of a stream. It is cached, because a check needs it several times."""
    return File(decode("<stdin>", stream.buffer.read(MAX_FILE_BYTES + 1)), None)


def _read_file(path: Path, name: str) -> File:
    try:
        data = read_limited(path, MAX_FILE_BYTES)
    except (OSError, ValueError) as error:  # a ValueError where the name holds a zero character
        said = getattr(error, "strerror", None) or str(error)
        raise UsageProblem.of("file-unreadable", f"{name} cannot be read: {said}") from None
    return File(decode(name, data), path.resolve())


def _extends(file: File, stop_before: str | None) -> ScalarNode | None:
    """Return the value of the key `extends`, or None. Other errors are reported when the whole file is read.

    A header is read once: every compilation asks for the digest of its machine.
    """
    if (
        "extends" not in file.source.text and "\\" not in file.source.text
    ):  # nor is the key written by escapes
        return None

    def read_header() -> list[Any]:
        value = read_tree(file.source, stop_before).get("extends")
        if not isinstance(value, ScalarNode) or not value.text.strip():
            return []
        return [value.text, value.span.start, value.span.end]

    if stop_before is None:
        found = read_header()
    else:
        key = digest(program_state(), stop_before, file.source.text)
        found = recall_or_make(
            "headers", key, json.loads, read_header, lambda header: json.dumps(header).encode()
        )
    return ScalarNode(found[0], Span(file.source, *found[1:])) if found else None


def _parent(extends: ScalarNode, child: File) -> File:
    name = extends.text
    if name in (shipped := shipped_machines()):
        return _read_file(machine_path(name), f"{name}.yaml")
    if Path(name).suffix not in _SUFFIXES:
        near = nearest(name, shipped)
        raise _problem(
            "extends-unknown", f"there is no machine called `{name}`", extends.span,
            f"{_LISTED}; a file in the same folder is written `NAME.yaml`",
            advice=f"did you mean `{near}`?" if near else None,
        )  # fmt: skip
    if child.path is None:
        raise _problem(
            "extends-leaves", "standard input has no folder: it extends shipped machines only", extends.span
        )
    folder = child.path.parent
    if (provided := _PROVIDED.get({}).get(str((folder / name).resolve()))) is not None:
        return provided
    try:
        with open_in_folder(folder, name) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except LeavesFolder as error:
        raise _problem(
            "extends-leaves", f"`{name}` is not read: {error.strerror}", extends.span,
            advice="put the parent next to this file, or name a shipped machine",
        ) from None  # fmt: skip
    except OSError as error:
        near = nearest(name, [p.name for p in folder.glob("*.yaml") if p != child.path])
        raise _problem(
            "extends-unknown", f"`{name[:40]}` next to this file cannot be read: {error.strerror}",
            extends.span, _LISTED,
            advice=f"did you mean `{near}`?" if near else None,
        ) from None  # fmt: skip
    return File(decode(str(Path(child.source.name).parent / name), data), (folder / name).resolve())


def _problem(code: str, message: str, span: Span, *notes: str, advice: str | None = None) -> SpecProblem:
    return SpecProblem.of(code, message, span, notes=notes, help=advice)


HEADER_END = "instructions"
"""The key before which reading may stop where a machine's instructions do not matter."""


def list_machines() -> tuple[str, ...]:
    """Return the names of the shipped machines, sorted."""
    return shipped_machines()


ANY = "any"
_NAMED = rf"[A-Za-z_][A-Za-z0-9_]*=(?:{ANY}|[0-9]+(?:,[0-9]+)*)"
_GIVEN = re.compile(rf"\A(?P<word>.+)@(?P<values>{_NAMED}(?:,{_NAMED})*)\Z")
_PAIR = re.compile(_NAMED)

Given = Mapping[str, tuple[int, ...]]
"""Values of constants of a machine, in their order; none if those are asked for that it may have."""


def split_word(word: str) -> tuple[str, dict[str, tuple[int, ...]]]:
    """Return the name in a word, and the values of constants after its `@`: `Q=8`, `Q=2,4,8` or `Q=any`."""
    found = _GIVEN.match(word)
    if found is None:
        return word, {}
    given: dict[str, tuple[int, ...]] = {}
    for pair in _PAIR.findall(found["values"]):
        name, values = pair.split("=")
        given[name] = () if values == ANY else tuple(sorted({int(value) for value in values.split(",")}))
    return found["word"], given


def join_word(word: str, given: Given) -> str:
    """Return a word with values of constants appended."""
    stated = ",".join(f"{name}={','.join(map(str, values)) or ANY}" for name, values in given.items())
    return f"{word}@{stated}" if stated else word


def machine_digest(name_or_path: str) -> str:
    """Return the digest of a machine's description. Raises: UsageProblem, or SpecProblem for a bad header."""
    word, given = split_word(name_or_path)
    return digest_at(digest_files(read_chain(word, HEADER_END)), given)


def digest_at(whole: str, given: Given) -> str:
    """Return the digest of a machine whose constants have the given values."""
    stated = join_word("", dict(sorted(given.items())))
    return hashlib.sha256(f"{whole}{stated}".encode()).hexdigest() if given else whole


def digest_files(files: tuple[File, ...]) -> str:
    """Return the sha256 of the names and texts of a chain of descriptions."""
    state = hashlib.sha256()
    for file in files:
        for text in (file.stem or "-", file.source.text):
            data = text.encode(errors="surrogatepass")  # the stem's bytes may be no UTF-8
            state.update(f"{len(data)} ".encode() + data)
    return state.hexdigest()
