"""Inputs of every reader, changed in a few bytes or tokens at random, as haste or malice change them.

kernel_case(Random(1))  ->  Case(("fmt", "x.ir"), {"x.ir": b"kernel gemm(M, M, K) {"})
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, cast

ROOT = Path(__file__).parents[2]
KERNELS, MACHINES = sorted((ROOT / "kernels").glob("*.ir")), sorted((ROOT / "hw_specs").glob("*.yaml"))

NUMBERS = (
    "0", "1", "2", "3", "7", "-1", "16", "4096", "65536", "2147483647", "2147483648", "4294967296", "1e300",
    "9007199254740993", "9223372036854775807", "18446744073709551616", "100000000000000000", "1" * 400, "1.5",
    "0.0", "-0", "nan", "inf", "1e-300", "0x10", "٣",
)  # fmt: skip
BYTES = (
    b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\t", b"\x1b[31m", "\u2028".encode(), b"\"", b"'",
    b"{", b"}", b"[", b"]", b"(", b")", b",", b";", b":", b"#", b"&a ", b"*a ", b"!x ", b"- ", b"..", b"|\n",
)  # fmt: skip
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\s+|.", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


NAMES = (
    "../secret", "link", "hard", "a b", "x y\n", "<script>alert(1)</script>", "$(id)", "x;id", "*/ x /*",
    "-x", "x.", "CON", "nul.txt", "é", "for", "int", "main", "x" * 300,
)  # fmt: skip
"""Names that reach a path, C, a Makefile or a page, of which some leave a folder."""


@dataclass(frozen=True, slots=True)
class Case:
    """A command line, and the files that it reads."""

    words: tuple[str, ...]
    files: Mapping[str, bytes]


def mutated(data: bytes, random: Random) -> bytes:
    """Return the input with one to three changes."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        data = random.choice(_CHANGES)(data, random)
    return data


# --- changes ----------------------------------------------------------------------------------------------


def _number(data: bytes, random: Random) -> bytes:
    """Another number."""
    text = data.decode("utf-8", "replace")
    found = list(_NUMBER.finditer(text))
    if not found:
        return data
    at = random.choice(found)
    return (text[: at.start()] + random.choice(NUMBERS) + text[at.end() :]).encode()


def _token(data: bytes, random: Random) -> bytes:
    """Return a token left out, doubled, exchanged with another one, or replaced by it."""
    tokens = _TOKEN.findall(data.decode("utf-8", "replace"))
    if not tokens:
        return data
    one, other = random.randrange(len(tokens)), random.randrange(len(tokens))
    match random.randrange(4):
        case 0:
            del tokens[one]
        case 1:
            tokens.insert(one, tokens[one])
        case 2:
            tokens[one], tokens[other] = tokens[other], tokens[one]
        case _:
            tokens[one] = tokens[other]
    return "".join(tokens).encode()


def _line(data: bytes, random: Random) -> bytes:
    """Return a line left out, doubled many times, or moved."""
    lines = data.split(b"\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(3):
        case 0:
            del lines[one]
        case 1:
            lines[one:one] = [lines[one]] * random.choice((1, 2, 30))
        case _:
            lines.insert(other, lines.pop(one))
    return b"\n".join(lines)


def _bytes(data: bytes, random: Random) -> bytes:
    """Bytes put in, left out, or turned over."""
    at = random.randrange(len(data) + 1)
    match random.randrange(4):
        case 0:
            return data[:at] + random.choice(BYTES) + data[at:]
        case 1:
            return data[:at] + data[at + random.choice((1, 2, 40)) :]
        case 2:
            return (
                data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
                if at < len(data)
                else data
            )
        case _:
            return data[:at]


def _coding(data: bytes, random: Random) -> bytes:
    """Return the text in another coding, or with what marks one."""
    text = data.decode("utf-8", "replace")
    match random.randrange(4):
        case 0:
            return text.encode("utf-16")
        case 1:
            return b"\xef\xbb\xbf" + data
        case 2:
            return data.replace(b"\n", b"\r\n")
        case _:
            return data + b"\x00"


_CHANGES: tuple[Callable[[bytes, Random], bytes], ...] = (
    _number, _number, _number, _token, _token, _token, _line, _line, _bytes, _bytes, _coding,
)  # fmt: skip


# --- readers ----------------------------------------------------------------------------------------------


def kernel_case(random: Random, largest: int | None = None) -> Case:
    """Return a kernel, of at most so many bytes before the change, formatted or matched."""
    data = mutated(_one_of(KERNELS, largest, random).read_bytes(), random)
    words = ("fmt", "x.ir") if random.random() < 0.7 else ("match", "x.ir", "--hw", "model-f32")
    return Case(words, {"x.ir": data})


def machine_case(random: Random, largest: int = 40_000) -> Case:
    """Return a machine, of at most so many bytes before the change, checked."""
    path = _one_of(MACHINES, largest, random)
    return Case(("hw", "check", "--no-calls", path.name), {path.name: mutated(path.read_bytes(), random)})


def _one_of(paths: Sequence[Path], largest: int | None, random: Random) -> Path:
    return random.choice([p for p in paths if largest is None or p.stat().st_size <= largest])


def schedule_case(random: Random, texts: Mapping[tuple[str, ...], str]) -> Case:
    """Return a schedule, replayed as far as it goes."""
    words = random.choice(list(texts))
    data = mutated(_unclaimed(texts[words]).encode(), random)
    return Case(
        (*words, "--profile", "none", "--schedule", "x.schedule", "--stop-after", "lower"),
        {"x.schedule": data},
    )


def _unclaimed(text: str) -> str:
    """Without the digest, so that a change is what it is."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("digest ")) + "\n"


def profile_case(random: Random, text: str) -> Case:
    """Return a profile, read and laid over its machine; mostly signed again after the change."""
    words = ("schedule", "gemm_f32", "--hw", "generic-c", "-D", "M=8", "N=8", "K=8", "--heuristic", "greedy")
    if random.random() < 0.3:
        data = mutated(text.encode(), random)
    else:
        data = signed(changed_value(json.loads(text), random))
    return Case((*words, "--profile", "p.json"), {"p.json": data})


def profile_text() -> str:
    """Return a profile of this processor with figures of all kinds that `generic-c` may have."""
    from isamap.machine import load_machine
    from isamap.machine.processor import this_cpu
    from isamap.source.numbers import Spread
    from isamap.tune.measured_parameters import BandwidthFigure, CacheFigure, InstructionFigure, PackingFigure
    from isamap.tune.profile import Profile, print_profile

    machine = load_machine("generic-c")
    spread = Spread(0.5, 0.6, 0.7, 0.9, 40)
    instructions = tuple(
        InstructionFigure(name, (), spread, spread) for name in list(machine.instructions)[:3]
    )
    return print_profile(
        Profile(
            machine.name,
            machine.digest,
            this_cpu(),
            "gcc 12",
            "2026-11-21T12:00:00+00:00",
            instructions,
            (BandwidthFigure("l1", "read", instructions[0].instruction, 16384, spread),),
            (PackingFigure("straight", 4, spread),),
            spread,
            (CacheFigure("l1", 32768, 8, 64, None, "here"),),
        )
    )


def buffers_case(random: Random) -> Case:
    """Buffers for a memory."""
    text = "id,lower,upper,size,alignment\n" + "".join(f"b{n},{n},{n + 3},{4 * n + 4},4\n" for n in range(6))
    return Case(
        ("memplan", "b.csv", "--capacity", "64", "--limit", "1"), {"b.csv": mutated(text.encode(), random)}
    )


def rows_case(random: Random) -> Case:
    """Sizes, one row each."""
    data = mutated(b"M,N,K,name\n4,4,4,a\n8,2,4,b\n", random)
    words = ("schedule", "gemm_f32", "--hw", "generic-c", "--heuristic", "greedy", "--rows", "r.csv")
    return Case((*words, "--profile", "none"), {"r.csv": data})


def signed(content: Mapping[str, Any]) -> bytes:
    """Return a profile with the digest of what it says."""
    kept = {key: value for key, value in content.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    return json.dumps({**kept, "sha256": digest}).encode()


def changed_value(value: dict[str, Any], random: Random) -> dict[str, Any]:
    """Return the JSON with another value somewhere, or without one."""
    places = list(_places(value))
    where, key = random.choice(places)
    if random.random() < 0.2:
        del where[key]
        return value
    holder, other = random.choice(places)
    where[key] = random.choice(
        [None, True, "", "x\x00y", [], {}, [1], {"a": 1}, 0, -1, 0.0, 1e-300, 1e300, 10**17, 10**400,
         float("nan"), float("inf"), "l1", *NAMES, deepcopy(holder[other])]
    )  # fmt: skip
    return value


def changed_json(data: bytes, random: Random) -> bytes:
    """Return JSON with another value in some places; a text that is none with other bytes."""
    try:
        value = json.loads(data)
        for _ in range(random.choice((1, 1, 2, 4))):
            value = changed_value(value, random)
        return json.dumps(value).encode()
    except (ValueError, IndexError, RecursionError, AttributeError):
        return mutated(data, random)


def changed_program(data: bytes, random: Random) -> bytes:
    """Return a program with another value in its header, whose length is right, or with other words."""
    start = 16 + int.from_bytes(data[12:16], "little")
    header, words = data[16:start], data[start:]
    if random.random() < 0.7:
        header = changed_json(header, random)
    else:
        words = _bytes(words, random)
    header += b" " * (-len(header) % 16)
    return data[:12] + len(header).to_bytes(4, "little") + header + words


def changed_array(data: bytes, random: Random) -> bytes:
    """Return an array of numpy with another header, whose length is right, or with other bytes."""
    end = 10 + int.from_bytes(data[8:10], "little")
    if random.random() < 0.3:
        return mutated(data, random)
    header = random.choice((_number, _token, _bytes))(data[10:end], random)[:60_000]
    return data[:8] + len(header).to_bytes(2, "little") + header + data[end:]


def changed_onnx(data: bytes, random: Random) -> bytes:
    """Return a model of ONNX with another value in some fields; what is not a protobuf with other bytes."""
    onnx: Any = import_module("onnx")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        for _ in range(random.choice((1, 1, 2, 4))):
            _change_field(model, random)
        return bytes(model.SerializeToString())
    except Exception:  # noqa: BLE001 - protobuf raises errors of its own for bytes and for values
        return _bytes(data, random)


def _change_field(model: Any, random: Random) -> None:
    """Give a field of a message another value, that of another field of its kind among them."""
    found = list(_messages(model))
    message = random.choice(found)
    field = random.choice(message.DESCRIPTOR.fields)
    name, is_list = field.name, not field.has_presence
    others = [m for m in found if m.DESCRIPTOR.full_name == message.DESCRIPTOR.full_name]
    other = random.choice(others)
    if random.random() < 0.2:
        message.ClearField(name)
    elif random.random() < 0.4:
        message.ClearField(name)
        message.MergeFrom(_only(other, name))
    elif field.message_type is not None:
        inner = getattr(message, name)
        if is_list and inner and random.random() < 0.5:
            del inner[random.randrange(len(inner))]
        else:
            given = [m for m in found if m.DESCRIPTOR.full_name == field.message_type.full_name]
            if given:
                (inner.append if is_list else inner.CopyFrom)(deepcopy(random.choice(given)))
    else:
        value = _field_value(field, found, random)
        if is_list:
            inner = getattr(message, name)
            inner.insert(random.randrange(len(inner) + 1), value)
            if random.random() < 0.7:
                del inner[random.randrange(len(inner))]
        else:
            setattr(message, name, value)


def _messages(message: Any) -> Iterator[Any]:
    """Return a message and all those inside."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in (value,) if field.has_presence else value:
                yield from _messages(inner)


def _only(message: Any, name: str) -> Any:
    """Return a copy of a message that has one field alone."""
    made = deepcopy(message)
    for field, _ in message.ListFields():
        if field.name != name:
            made.ClearField(field.name)
    return made


def _field_value(field: Any, found: Sequence[Any], random: Random) -> object:
    """Return a value of a field's kind."""
    match field.cpp_type:
        case field.CPPTYPE_STRING:
            texts = [v for m in found for f, v in m.ListFields() if f.type == field.type and f.has_presence]
            text = random.choice([*texts, *NAMES])
            if field.type == field.TYPE_BYTES:
                return _bytes(text if isinstance(text, bytes) else text.encode(), random)
            return text
        case field.CPPTYPE_FLOAT | field.CPPTYPE_DOUBLE:
            return random.choice((0.0, -1.0, 0.5, 1e30, 1e-30, float("inf"), float("nan")))
        case _:
            return random.choice((*range(-2, 9), 16, 64, 1000, 1 << 20, 1 << 31, (1 << 31) - 1, -(1 << 31)))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place of a JSON value, as what holds it and the key there."""
    items: list[tuple[Any, Any]]
    if isinstance(value, dict):
        items = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Any]", value)))
    else:
        return []
    holder = cast("Any", value)
    return [place for key, inner in items for place in ((holder, key), *_places(inner))]
