"""The language server, spoken to as an editor does: a pipe each way, messages with their length in front."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest

from isamap.cli import main
from isamap.kernels import kernel_path
from isamap.lsp.server import offset_of, position_of, serve
from isamap.machine.templates import begin
from isamap.source import Source

GEMM = """kernel gemm(M, N, K) {
  in A: f32[M, K];
  in B: f32[K, N];
  inout C: f32[M, N];
  for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; }
}
"""


class Editor:
    """Speaks the protocol; `told` are the findings that were published last, by URI."""

    def __init__(self, first: Any = None) -> None:
        to_server, from_editor = os.pipe()
        to_editor, from_server = os.pipe()
        self._out = os.fdopen(from_editor, "wb", buffering=0)
        self._in = os.fdopen(to_editor, "rb")
        self._served = os.fdopen(to_server, "rb"), os.fdopen(from_server, "wb")
        self._thread = threading.Thread(target=serve, args=self._served, daemon=True)
        self._thread.start()
        self._number = 0
        self.told: dict[str, list[dict[str, Any]]] = {}
        if first is not None:
            body = json.dumps(first).encode()
            self._out.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            self.first = self._heard(first["id"])
        self.server: dict[str, Any] = self.ask(
            "initialize", {"processId": None, "rootUri": None, "capabilities": {}}
        )
        self.say("initialized", {})

    def say(self, method: str, params: Any, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        body = json.dumps(message if number is None else {**message, "id": number}).encode()
        self._out.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def ask(self, method: str, params: Any) -> Any:
        """Return the answer to a question."""
        message = self.answer(method, params)
        assert "error" not in message, message
        return message["result"]

    def answer(self, method: str, params: Any) -> dict[str, Any]:
        """Return the answer to a question, or the error."""
        self._number += 1
        self.say(method, params, self._number)
        return self._heard(self._number)

    def refusal(self, raw: bytes) -> int:
        """Return the code of the error that bytes get, which name no question."""
        self._out.write(raw)
        code: int = self._heard(None)["error"]["code"]
        return code

    def _heard(self, number: int | None) -> dict[str, Any]:
        while True:
            message = self._hear()
            if "method" not in message and message.get("id") == number:
                return message

    def _hear(self) -> dict[str, Any]:
        length = 0
        while (line := self._in.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message: dict[str, Any] = json.loads(self._in.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.told[message["params"]["uri"]] = message["params"]["diagnostics"]
        return message

    def open(self, path: Path, text: str) -> list[dict[str, Any]]:
        """Return the findings of a text, which need not be in its file."""
        document = {"uri": path.as_uri(), "languageId": "isamap", "version": 1, "text": text}
        self.say("textDocument/didOpen", {"textDocument": document})
        return self.findings(path)

    def findings(self, path: Path) -> list[dict[str, Any]]:
        """Return the next findings of a text."""
        self.told.pop(path.as_uri(), None)
        while path.as_uri() not in self.told:
            self._hear()
        found: list[dict[str, Any]] = self.told[path.as_uri()]
        return found

    def at(self, what: str, path: Path, text: str, mark: str, ahead: int = 0) -> Any:
        """Return what is asked at the first place of a mark in a text."""
        offset = text.index(mark) + ahead
        line, column = text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1)
        place = {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": column}}
        return self.ask(f"textDocument/{what}", place)

    def close(self) -> None:
        self.answer("shutdown", None)  # an error where it was shut down before
        self.say("exit", None)
        self._thread.join(10)
        assert not self._thread.is_alive()
        for stream in (self._out, self._in, *self._served):
            stream.close()


@pytest.fixture
def editor() -> Iterator[Editor]:
    editor = Editor()
    yield editor
    editor.close()


def text_at(text: str, found: Any) -> str:
    """Return what a range covers."""
    lines = text.split("\n")
    start, end = found["start"], found["end"]
    assert start["line"] == end["line"]
    return lines[int(start["line"])][int(start["character"]) : int(end["character"])]


def labels(found: Any) -> set[str]:
    return {item["label"] for item in found}


def test_a_kernel_is_checked_while_it_is_written(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "gemm.ir"
    wrong = GEMM.replace("A[m, k] *", "A[m, j] *")
    (finding,) = editor.open(path, wrong)
    assert (finding["code"], finding["severity"], finding["source"]) == ("unknown-name", 1, "isamap")
    assert text_at(wrong, finding["range"]) == "j"
    changed = {
        "textDocument": {"uri": path.as_uri(), "version": 2},
        "contentChanges": [{"text": GEMM}],
    }
    editor.say("textDocument/didChange", changed)
    assert editor.findings(path) == []


def test_hovering_tells_types_shapes_and_loops(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "gemm.ir"
    editor.open(path, GEMM)
    for mark, said in (
        ("A[m, k] *", "in A: f32[M, K]"),
        ("m, k] *", "m in M: from 0 to M - 1"),
        ("f32[M, K]", "f32: a type of 32 bits (float)"),
        ("M, K];", "M"),
    ):
        found = editor.at("hover", path, GEMM, mark)
        assert found["contents"]["value"] == f"```isamap\n{said}\n```"
    assert editor.at("hover", path, GEMM, "{ C") is None


def test_hovering_tells_what_values_an_array_of_indices_has(editor: Editor, tmp_path: Path) -> None:
    shipped = kernel_path("csr_f32").read_text(encoding="utf-8")
    path, text = tmp_path / "csr.ir", shipped[shipped.index("kernel csr_f32") :]
    editor.open(path, text)
    for mark, said in (
        ("row[m]..", "in row: i32[M + 1] values 0..NNZ ascending"),
        ("col[p]", "in col: i32[NNZ] values 0..K - 1"),
        ("p in row", "p in row[m]..row[m + 1]: from row[m] to row[m + 1] - 1"),
        ("NNZ ascending", "NNZ"),
    ):
        found = editor.at("hover", path, text, mark)
        assert found["contents"]["value"] == f"```isamap\n{said}\n```"
    assert editor.at("hover", path, text, "ascending") is None


def test_a_definition_is_where_a_name_is_declared(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "gemm.ir"
    editor.open(path, GEMM)
    for mark, line in (("A[m, k] *", 1), ("k] *", 4), ("K];", 0)):
        found = editor.at("definition", path, GEMM, mark)
        assert found["uri"] == path.as_uri()
        assert found["range"]["start"]["line"] == line
    assert editor.at("definition", path, GEMM, "f32[M, K]") is None


def test_a_kernel_is_laid_out(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "gemm.ir"
    editor.open(path, GEMM.replace("  in A: f32[M, K];", "in A:f32[M,K];"))
    params = {"textDocument": {"uri": path.as_uri()}, "options": {"tabSize": 2, "insertSpaces": True}}
    (edit,) = editor.ask("textDocument/formatting", params)
    assert edit["newText"] == GEMM
    other = tmp_path / "other.ir"
    editor.open(other, GEMM)
    assert editor.ask("textDocument/formatting", {**params, "textDocument": {"uri": other.as_uri()}}) == []


def test_what_would_mend_a_finding_is_offered(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "gemm.ir"
    text = GEMM.replace("f32[K, N];", "f32[K, N]")
    (finding,) = editor.open(path, text)
    where: Any = {
        "textDocument": {"uri": path.as_uri()},
        "range": finding["range"],
        "context": {"diagnostics": []},
    }
    (action,) = editor.ask("textDocument/codeAction", where)
    (edit,) = action["edit"]["changes"][path.as_uri()]
    assert (action["title"], edit["newText"]) == ("add `;`", ";")


def test_completion_knows_names_types_and_words(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "gemm.ir"
    text = GEMM.replace("* B[k, n]; }", "* ")
    editor.open(path, text)
    found = labels(editor.at("completion", path, text, "* \n", 2))
    assert {"A", "B", "C", "m", "n", "k", "M", "exp", "max", "sat_i8", "for"} <= found
    types = labels(editor.at("completion", path, text, "in A: ", 6))
    assert {"f32", "bf16", "i8"} <= types
    assert "A" not in types


# --- descriptions -----------------------------------------------------------------------------------------


def test_a_description_is_checked_with_what_is_odd(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "edge.yaml"
    text = begin("edge", "matrix", {})
    assert editor.open(path, text) == []
    wrong = tmp_path / "wrong.yaml"
    changed = begin("wrong", "matrix", {}).replace("unit: store", "unit: stor")
    (finding,) = editor.open(wrong, changed)
    assert finding["code"] == "unknown-unit-name"
    assert text_at(changed, finding["range"]) == "stor"
    assert "help: did you mean `store`?" in finding["message"]
    odd = tmp_path / "odd.yaml"
    (finding,) = editor.open(odd, begin("odd", "matrix", {}).replace("  - {from: spad, to: weights,", "  #"))
    assert (finding["code"], finding["severity"]) == ("link-missing", 2)
    assert finding["range"]["start"]["line"] == finding["range"]["end"]["line"], "of an instruction its head"


def test_names_of_a_description_lead_to_where_they_are_declared(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "edge.yaml"
    text = begin("edge", "matrix", {"rows": 8})
    editor.open(path, text)
    for mark, ahead, said, declared in (
        ("@ spad", 2, "memory spad: scratchpad(bytes = 256 KiB, banks = 4)", "memory spad"),
        ("from: spad", 6, "memory spad: scratchpad(bytes = 256 KiB, banks = 4)", "memory spad"),
        (
            "unit: execute",
            6,
            "unit execute: {count: 1, products_per_cycle: 64, source: guess}",
            "  execute: {",
        ),
        ("w[k, n]", 0, "in w: $T[8, 8] @ spad  # T is f32, i8", "in w: $T"),
    ):
        found = editor.at("hover", path, text, mark, ahead)
        assert found["contents"]["value"] == f"```isamap\n{said}\n```"
        place = editor.at("definition", path, text, mark, ahead)["range"]["start"]
        assert declared.strip() in text.split("\n")[place["line"]]


def test_what_is_inherited_leads_into_its_file(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "edge.yaml").write_text(begin("edge", "matrix", {}))
    path = tmp_path / "child.yaml"
    text = """isamap: 1
name: child
summary: more
extends: edge.yaml
instructions:
  - semantics: |
      instruction copy() { in a: i8[4] @ spad; out z: i8[4] @ dram; for i in 4 { z[i] = a[i]; } }
    emit: semantics
    cost: {unit: store, interval_ns: 4, latency_ns: 4}
    source: guess
"""
    assert editor.open(path, text) == []
    found: Any = editor.at("definition", path, text, "@ spad", 2)
    assert found["uri"] == (tmp_path / "edge.yaml").as_uri()
    line = (tmp_path / "edge.yaml").read_text().splitlines()[int(found["range"]["start"]["line"])]
    assert "memory spad: scratchpad" in line


def test_completion_in_a_description_knows_keys_words_and_names(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "edge.yaml"
    text = begin("edge", "matrix", {})
    editor.open(path, text)
    asked = [
        ("\nunits:", 1, {"units", "links", "clock_ghz"}, "count"),
        ("{count: 1, products", 1, {"count", "products_per_cycle", "queued", "source"}, "links"),
        ("{unit: load", 1, {"unit", "interval_cycles", "latency_ns"}, "emit"),
        ("unit: load", 6, {"load", "store", "execute"}, "dram"),
        ("from: dram", 6, {"dram", "spad", "sums", "weights"}, "load"),
        ("source: guess", 8, {"guess"}, "load"),
        ("run: model", 5, {"native", "emulator", "model"}, "gcc"),
        ("    emit: semantics", 4, {"semantics", "emit", "cost", "for"}, "units"),
        ("@ spad", 2, {"dram", "spad", "sums", "weights"}, "i8"),
    ]
    for mark, ahead, expected, other in asked:
        found = labels(editor.at("completion", path, text, mark, ahead))
        assert expected <= found, mark
        assert other not in found, mark


def test_the_language_inside_a_description_is_laid_out(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "edge.yaml"
    text = begin("edge", "matrix", {})
    params = {"textDocument": {"uri": path.as_uri()}, "options": {"tabSize": 2, "insertSpaces": True}}
    editor.open(path, text)
    assert editor.ask("textDocument/formatting", params) == [], "a new description is laid out"
    wrong = tmp_path / "wrong.yaml"
    changed = begin("wrong", "matrix", {}).replace("in w: $T[16, 16] @ spad;", "in w:$T[16,16]@spad;")
    editor.open(wrong, changed)
    (edit,) = editor.ask("textDocument/formatting", {**params, "textDocument": {"uri": wrong.as_uri()}})
    assert "        in w: $T[16, 16] @ spad;\n" in edit["newText"]


PLACE = {"line": 0, "character": 0}
RIGHT: dict[str, dict[str, Any]] = {
    "textDocument/hover": {"position": PLACE},
    "textDocument/definition": {"position": PLACE},
    "textDocument/completion": {"position": PLACE},
    "textDocument/formatting": {"options": {"tabSize": 2, "insertSpaces": True}},
    "textDocument/codeAction": {"range": {"start": PLACE, "end": PLACE}, "context": {"diagnostics": []}},
}
WRONG: tuple[Any, ...] = (None, -1, 0.5, 1e300, 1 << 40, "3", [1, 2], {}, True, {"line": []})


def spoilt(value: object) -> Iterator[Any]:
    """Yield a value with each of its parts left out or replaced."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for key, part in fields.items():
            yield {k: v for k, v in fields.items() if k != key}
            yield from ({**fields, key: other} for other in spoilt(part))
    # An object may stand for a list.
    taken: object = True if value is True else {} if value == [] else "nothing"
    yield from (other for other in WRONG if other != taken)


@pytest.mark.parametrize("method", RIGHT)
def test_every_question_with_wrong_parameters_is_answered_by_an_error(
    editor: Editor, tmp_path: Path, method: str
) -> None:
    path = tmp_path / "gemm.ir"
    editor.open(path, GEMM)
    right = {"textDocument": {"uri": path.as_uri()}, **RIGHT[method]}
    assert "result" in editor.answer(method, right)
    for params in spoilt(right):
        assert editor.answer(method, params).get("error", {}).get("code") == -32602, params
    assert "result" in editor.answer(method, right)


def test_other_questions_that_cannot_be_answered_get_an_error(editor: Editor, tmp_path: Path) -> None:
    asked: list[tuple[str, Any]] = [
        ("x/y", None),
        ("textDocument/didOpen", {}),
        ("workspace/executeCommand", {"command": "x"}),
    ]
    assert all("error" in editor.answer(*each) for each in asked)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(1 << 40)
    files = [Path("/dev/zero"), *(tmp_path / n for n in ("", "pipe", "bytes", "huge", "none", "a\0b"))]
    for uri in [*(f"file://{quote(str(path))}" for path in files), "untitled:x", "file://[::1/x", ""]:
        found = editor.answer("textDocument/hover", {"textDocument": {"uri": uri}, "position": PLACE})
        assert found["error"]["code"] == -32602, uri
    editor.say("textDocument/didChange", {"textDocument": {"uri": "file:///dev/zero", "version": 1}})
    editor.ask("shutdown", None)
    assert editor.answer("x/y", None)["error"]["code"] == -32600
    assert editor.answer("shutdown", None)["error"]["code"] == -32600


def test_before_the_first_question_others_get_an_error() -> None:
    editor = Editor({"jsonrpc": "2.0", "method": "textDocument/hover", "id": 0, "params": {}})
    assert editor.first["error"]["code"] == -32002
    editor.close()


def test_what_is_no_message_gets_an_error_and_the_next_one_its_answer(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "gemm.ir"
    editor.open(path, GEMM)
    heads = [b"abc", b"-5", b"", b"0", b"9" * 17, b"67108865", b"9" * 5000, b"1.5", b"\xff"]
    headed = [b"Content-Length: %s\r\n\r\n{}" % head for head in heads]
    for raw in [*headed, b"GET / HTTP/1.0\r\n\r\n", b"x" * 200_000 + b"\r\n\r\n"]:
        assert editor.refusal(raw) == -32700, raw[:40]
        assert editor.at("hover", path, GEMM, "gemm"), raw[:40]
    for body in [b"hello", b"\xff\xfe", b"[" * 200_000, b'{"jsonrpc": "2.0", ']:
        assert editor.refusal(b"content-length:%d\r\n\r\n%s" % (len(body), body)) == -32700, body[:40]
    ids = ["null", "1.5", "[]", "{}", "true"]
    odd = [f'{{"jsonrpc": "2.0", "method": "textDocument/hover", "id": {i}, "params": {{}}}}' for i in ids]
    for text in [*odd, "[]", "1", "null", "{}", '{"jsonrpc": "1.0", "method": "x"}', '{"jsonrpc": "2.0"}']:
        assert editor.refusal(b"Content-Length: %d\r\n\r\n%s" % (len(text), text.encode())) == -32600, text
    assert editor.at("hover", path, GEMM, "gemm")


@pytest.mark.parametrize(
    ("offset", "place"), [(0, (0, 0)), (2, (0, 2)), (3, (0, 4)), (5, (1, 0)), (7, (1, 3)), (8, (1, 4))]
)
def test_columns_are_counted_as_editors_do(offset: int, place: tuple[int, int]) -> None:
    source = Source("odd", "ab😀\r\nx😀y".replace("\r", "c"))
    assert position_of(source, offset) == place
    assert offset_of(source, *place) == offset


def test_a_place_behind_the_end_is_the_end() -> None:
    source = Source("short", "ab\nc")
    assert [offset_of(source, line, 9) for line in (0, 1, 7)] == [2, 4, 4]
    assert position_of(source, 99) == (1, 1)


def test_without_pygls_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(_name: str) -> None:
        return None

    monkeypatch.setattr("isamap.cli.lsp_command.find_spec", nothing)
    assert main(["lsp"]) == 5
    assert "help: `pip install 'isamap[lsp]'`" in capsys.readouterr().err
