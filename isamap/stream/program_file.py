"""The file of a program: a header that any reader understands, followed by the words.

    offset  bytes
    0       8      the letters ISAMPROG
    8       4      version of the format, 1
    12      4      bytes of the header that follows, n
    16      n      the header: a JSON object in UTF-8, blanks behind it up to a multiple of 16
    16 + n  ...    the words, each in as many whole bytes as it needs; all numbers are little endian
    then    ...    the entries of tables, of which there are as many as the header says

The header names kernel, machine (with the digest of its description), sizes, memories with their bytes, and
arrays and tables with their places.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from isamap.ir.dtypes import DTYPES
from isamap.machine.encoding_fields import LEAST_BITS, MOST_BITS
from isamap.source import VerificationFailed, dataclass, read_json, replace
from isamap.stream.memory_layout import StreamArray
from isamap.stream.tables import StreamTable

MAGIC = b"ISAMPROG"
VERSION = 1
_HEAD_BYTES = 16
MOST_IMAGE_BYTES = 1 << 32
"""A file that asks for a larger memory is refused before any is taken."""
MOST_HEADER_BYTES = 1 << 20
MOST_TABLES = 256
MOST_ENTRIES = 1 << 20
"""So many all tables have at most: one for each instruction of the longest program."""
MOST_AXES = 64


@dataclass(frozen=True, slots=True)
class StreamPart:
    """A step of a network: its number, and its numbers of words and instructions, which follow in order."""

    step: int
    words: int
    instructions: int


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """A program with all data that its reader needs. Units: `memories` in bytes."""

    kernel: str
    machine: str
    machine_sha256: str
    sizes: Mapping[str, int]
    word_bits: int
    instructions: int
    memories: Mapping[str, int]
    arrays: tuple[StreamArray, ...]
    words: tuple[int, ...]
    tables: tuple[StreamTable, ...] = ()
    parts: tuple[StreamPart, ...] = ()
    """The steps of a network, each a program; none in the program of a kernel."""

    @property
    def name(self) -> str:
        """The common prefix of its file names."""
        return f"{self.kernel}-{self.machine}"

    def files(self) -> dict[str, bytes]:
        """Return the bytes of each file by name."""
        return {f"{self.name}.program": write_program(self)}


def write_program(program: ProgramFile) -> bytes:
    """Return the bytes of the file."""
    header = json.dumps(_header(program), ensure_ascii=False).encode()
    header += b" " * (-len(header) % _HEAD_BYTES)
    head = MAGIC + VERSION.to_bytes(4, "little") + len(header).to_bytes(4, "little")
    width = -(-program.word_bits // 8)
    words = b"".join(word.to_bytes(width, "little") for word in program.words)
    return head + header + words + b"".join(table.data for table in program.tables)


def _header(program: ProgramFile) -> dict[str, object]:
    return {
        "kernel": program.kernel,
        "machine": program.machine,
        "machine_sha256": program.machine_sha256,
        "sizes": dict(program.sizes),
        "word_bits": program.word_bits,
        "words": len(program.words),
        "instructions": program.instructions,
        "memories": dict(program.memories),
        "arrays": [
            {
                "name": a.name,
                "role": a.role,
                "memory": a.memory,
                "type": a.dtype.name,
                "shape": list(a.shape),
                "offset": a.offset,
            }
            for a in program.arrays
        ],
        "tables": [
            {
                "name": t.name,
                "memory": t.memory,
                "offset": t.offset,
                "entry_bits": t.entry_bits,
                "entries": len(t.entries),
            }
            for t in program.tables
        ],
        **({"parts": [[p.step, p.words, p.instructions] for p in program.parts]} if program.parts else {}),
    }


def read_program(data: bytes, name: str) -> ProgramFile:
    """Return the program in a file's bytes. `name` is for errors. Raises: VerificationFailed if they are invalid."""
    if data[:8] != MAGIC:
        raise _refuse_program(name, "it does not begin with ISAMPROG")
    version, length = (int.from_bytes(data[at : at + 4], "little") for at in (8, 12))
    if version != VERSION:
        raise _refuse_program(name, f"its version is {version}, and this reads {VERSION}")
    try:
        if length > MOST_HEADER_BYTES:
            raise ValueError(length)
        header = read_json(data[_HEAD_BYTES : _HEAD_BYTES + length])
        program = _from_header(header)
        count = _whole(header["words"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _refuse_program(name, "its header is damaged") from None
    width = -(-program.word_bits // 8)
    body = memoryview(data)[_HEAD_BYTES + length :]
    promised = width * count + sum(table.size_bytes for table in program.tables)
    if len(body) != promised:
        raise _refuse_program(name, f"it has {len(body)} bytes of words, and its header promises {promised}")
    words = _numbers(body[: width * count], width)
    beyond = next((at for at, word in enumerate(words) if word >> program.word_bits), None)
    if beyond is not None:
        raise _refuse_program(name, f"word {beyond} has more than {program.word_bits} bits")
    rest = body[width * count :]
    tables: list[StreamTable] = []
    for table in program.tables:
        tables.append(replace(table, entries=_numbers(rest[: table.size_bytes], table.entry_bytes)))
        rest = rest[table.size_bytes :]
    return replace(program, words=words, tables=tuple(tables))


def _numbers(data: memoryview, width: int) -> tuple[int, ...]:
    return tuple(int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width))


def _from_header(header: dict[str, Any]) -> ProgramFile:
    """Return the program of a header. Raises: ValueError, KeyError, TypeError for an invalid header."""
    memories = {str(name): _whole(size) for name, size in header["memories"].items()}
    arrays = tuple(_array(entry) for entry in header["arrays"])
    if len(header.get("tables", [])) > MOST_TABLES:
        raise ValueError("tables")
    if sum(_whole(entry["entries"]) for entry in header.get("tables", [])) > MOST_ENTRIES:
        raise ValueError("entries")
    tables = tuple(_table(entry) for entry in header.get("tables", []))
    if len({a.name for a in arrays}) < len(arrays):
        raise ValueError("one name twice")
    for a in (*arrays, *tables):
        if a.offset + a.size_bytes > memories[a.memory]:
            raise ValueError(a.name)
    if (
        sum(memories.values()) > MOST_IMAGE_BYTES
        or not LEAST_BITS <= _whole(header["word_bits"]) <= MOST_BITS
    ):
        raise ValueError("sizes")
    return ProgramFile(
        str(header["kernel"]),
        str(header["machine"]),
        str(header["machine_sha256"]),
        {str(name): _whole(size) for name, size in header["sizes"].items()},
        header["word_bits"],
        _whole(header["instructions"]),
        memories,
        arrays,
        (),
        tables,
        _parts(header),
    )


def _parts(header: dict[str, Any]) -> tuple[StreamPart, ...]:
    """Return the parts of a network, which comprise all of its words and instructions."""
    parts = tuple(StreamPart(*map(_whole, entry)) for entry in header.get("parts", []))
    if parts:
        words, instructions = sum(p.words for p in parts), sum(p.instructions for p in parts)
        if (words, instructions) != (_whole(header["words"]), _whole(header["instructions"])):
            raise ValueError("parts")
        if sorted({p.step for p in parts}) != [p.step for p in parts]:
            raise ValueError("steps")
    return parts


def _array(entry: dict[str, Any]) -> StreamArray:
    shape = tuple(_whole(extent) for extent in cast("Sequence[Any]", entry["shape"]))
    role = str(entry["role"])
    if len(shape) > MOST_AXES:
        raise ValueError(shape)
    if role not in ("in", "out", "inout", "buffer"):
        raise ValueError(role)
    return StreamArray(
        str(entry["name"]), role, str(entry["memory"]), DTYPES[entry["type"]], shape, _whole(entry["offset"])
    )


def _table(entry: dict[str, Any]) -> StreamTable:
    """Return a table whose entries are read later."""
    bits = _whole(entry["entry_bits"])
    if not LEAST_BITS <= bits <= MOST_BITS:
        raise ValueError(bits)
    count = _whole(entry["entries"])
    return StreamTable(str(entry["name"]), str(entry["memory"]), _whole(entry["offset"]), bits, (0,) * count)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_IMAGE_BYTES:
        raise ValueError(value)
    return value


def _refuse_program(name: str, why: str) -> VerificationFailed:
    return VerificationFailed.of(
        "program-file",
        f"{name} is not a program: {why}",
        help="`isamap compile KERNEL --hw MACHINE --emit program` writes one",
    )
