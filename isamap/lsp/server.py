"""The protocol of the language server: answer requests from the analysis of the editor's text.

Texts are analysed a moment after the last change: a description of a thousand instructions takes a second.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any, BinaryIO, Literal, cast
from urllib.parse import unquote, urlparse

from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter

from isamap.ir import DTYPES
from isamap.ir.text_layout import KEYWORDS
from isamap.lsp.analysis import Analysis, analyse, in_language
from isamap.lsp.symbols import BUILT_IN
from isamap.machine.keys import Keys, LeafKey, ListOf, NamedBy, OneOf, Value
from isamap.machine.spec import MACHINE
from isamap.source import Diagnostic, Edit, IsamapError, Source, Span, dataclass, read_limited
from isamap.syntax.parser import format_source
from isamap.version import __version__

PAUSE_SECONDS = 0.25
MAX_BYTES = 64 << 20
"""The most that a message or a file may have."""
_HEADER_BYTES = 1 << 16
_LENGTH = re.compile(rb"Content-Length:[ \t]*([0-9]{1,8})[ \t]*\r?\n$", re.IGNORECASE)
_NO_MESSAGE = b"?"
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
_KINDS = {
    "name": types.CompletionItemKind.Variable,
    "type": types.CompletionItemKind.TypeParameter,
    "function": types.CompletionItemKind.Function,
    "word": types.CompletionItemKind.Keyword,
    "key": types.CompletionItemKind.Property,
    "value": types.CompletionItemKind.Value,
}


class Messages:
    """The input stream. pygls only receives complete messages, because an unexpected header would stop it.

    A header with an invalid length becomes a body that is no JSON, so that one error is answered. The input
    is then skipped to the next header.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._refused = False

    def readline(self) -> bytes:
        """Return the next header line in the form that pygls expects, or b"" at the end."""
        if not self._lines:
            length = self._next_length()
            self._lines = [b"Content-Length: %d\r\n" % length, b"\r\n"] if length else [b""]
        return self._lines.pop(0)

    def read(self, size: int) -> bytes:
        """Return the body of a message."""
        return _NO_MESSAGE if self._refused else self._stream.read(size)

    def _next_length(self) -> int:
        """Return the length of the next message, or 0 at the end."""
        length, was_refused, self._refused = 0, self._refused, False
        while line := self._stream.readline(_HEADER_BYTES):
            if found := _LENGTH.search(line):  # behind the rest of what is skipped, too
                length = int(found[1])
            elif line.strip():
                continue
            elif 0 < length <= MAX_BYTES:
                return length
            elif not was_refused:
                self._refused = True
                return len(_NO_MESSAGE)
        return 0


class Protocol(LanguageServerProtocol):
    """A protocol that answers every request, including malformed ones, which pygls would not answer."""

    def structure_message(self, data: Any) -> Any:
        """Return the object unchanged. pygls also calls this for parts of a message."""
        return data

    def handle_message(self, message: Any) -> None:
        """Handle a message as JSON. Raises: errors to report if there is no request to answer."""
        fields = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
        number = fields.get("id")
        try:
            super().handle_message(self._check_message(fields))
        except JsonRpcException as problem:
            if "id" in fields or isinstance(problem, JsonRpcInvalidRequest):
                known = number if type(number) in (int, str) else None
                self._send_response(cast("int", known), error=problem.to_response_error())

    def _check_message(self, fields: dict[str, Any]) -> Any:
        """Return a message with its fields as objects. Raises: JsonRpcException."""
        method = fields.get("method")
        is_request = "id" in fields and "method" in fields
        if fields.get("jsonrpc") != self.VERSION or ("id" in fields and type(fields["id"]) not in (int, str)):
            raise JsonRpcInvalidRequest('a message has `jsonrpc: "2.0"`, and its id is a number or a text')
        if not isinstance(method, str) and not ("method" not in fields and {"result", "error"} & {*fields}):
            raise JsonRpcInvalidRequest("a message has a method, or is an answer")
        if is_request and self._shutdown:
            raise JsonRpcInvalidRequest("the server is shut down")
        if is_request and self._workspace is None and method != types.INITIALIZE:
            raise JsonRpcServerNotInitialized("the first request is `initialize`")
        if is_request:
            self._get_handler(str(method))
        try:
            found = super().structure_message({"params": None, **fields} if method is not None else fields)
        except RecursionError as deep:
            raise JsonRpcInvalidParams("the parameters are nested too deep") from deep
        except JsonRpcException as problem:
            raise JsonRpcInvalidParams(f"these are no parameters of `{method}`") from problem
        if is_request and not hasattr(found, "id"):
            raise JsonRpcMethodNotFound(f"`{method}` is a notification, which has no id")
        return found


class Server(LanguageServer):
    """A server that reports input which is no JSON-RPC message."""

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Answer a message that is not JSON. Other errors are shown as before."""
        if source is JsonRpcException:
            said = f"this is not a message of 1 to {MAX_BYTES} bytes of JSON: {type(error).__name__}"
            problem = JsonRpcParseError(said).to_response_error()
            self.protocol._send_data(types.ResponseErrorMessage(id=None, error=problem))  # pyright: ignore[reportPrivateUsage] - there is no other way to answer without a request
        else:
            super().report_server_error(error, source)


def _strict_converter() -> Converter:
    """Return a parameter converter that accepts neither fractions as integers nor numbers as text."""
    converter = default_converter()
    for kind in (int, str, bool):
        converter.register_structure_hook(kind, _of_kind)
    return converter


def _of_kind(value: Any, kind: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r:.60} is no {kind.__name__}")
    return value


def serve(stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
    """Serve an editor until it ends the session or closes the pipe."""
    # A server without open texts.
    server = Server("isamap", __version__, protocol_cls=Protocol, converter_factory=_strict_converter)
    _tell_findings(server)
    _answer_places(server)

    # Register the answers about texts: formatting, and fixes for findings.
    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        return [_edit(edit) for edit in layout_edits(_analysis(server, params.text_document.uri))]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION)
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        found = _analysis(server, params.text_document.uri)
        lines = range(params.range.start.line, params.range.end.line + 1)
        return [
            _action(params.text_document.uri, d, found.source)
            for d in found.findings
            if d.edits and d.span is not None and d.span.line - 1 in lines
        ]

    server.start_io(cast("BinaryIO", Messages(stdin or sys.stdin.buffer)), stdout)


def _analysis(server: LanguageServer, uri: str) -> Analysis:
    """Return the analysis of an open text or of a file. Raises: JsonRpcInvalidParams if there is none."""
    try:
        # The file that a URI names, or None for unsaved text.
        parsed = urlparse(uri)
        path = Path(unquote(parsed.path)) if parsed.scheme == "file" else None
        opened = server.workspace.text_documents.get(unquote(uri))
        if opened is not None:
            text = opened.source
        elif path is None:
            raise JsonRpcInvalidParams("this text is not open")
        else:
            data = read_limited(path, MAX_BYTES)
            if len(data) > MAX_BYTES:
                raise JsonRpcInvalidParams(f"the file has more than {MAX_BYTES} bytes")
            text = data.decode()
    except (OSError, ValueError) as problem:
        raise JsonRpcInvalidParams(f"this text cannot be read: {problem}") from problem
    return analyse(Source(path.name if path is not None else uri, text), path)


def _tell_findings(server: LanguageServer) -> None:
    """Publish findings when a text is opened, and a moment after its last change."""

    async def tell(uri: str, pause: float) -> None:
        opened = server.workspace.text_documents
        version = opened[unquote(uri)].version
        await asyncio.sleep(pause)
        if unquote(uri) not in opened or opened[unquote(uri)].version != version:
            return  # it was closed, or changed again, which tells later
        found = await asyncio.to_thread(_analysis, server, uri)
        told = [_diagnostic(d, found.source) for d in found.findings]
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, told, version=version))

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: types.DidOpenTextDocumentParams) -> None:
        await tell(params.text_document.uri, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        await tell(params.text_document.uri, PAUSE_SECONDS)


def _answer_places(server: LanguageServer) -> None:
    """Register the answers about positions: hover, definition and completion."""

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        found = _analysis(server, params.text_document.uri)
        use = found.use_at(_offset(found.source, params.position))
        if use is None:
            return None
        text = types.MarkupContent(types.MarkupKind.Markdown, f"```isamap\n{use.definition.text}\n```")
        return types.Hover(text, _range(use.span))

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(params: types.DefinitionParams) -> types.Location | None:
        found = _analysis(server, params.text_document.uri)
        use = found.use_at(_offset(found.source, params.position))
        if use is None or use.definition.span is None:
            return None
        span = use.definition.span
        if span.source == found.source:
            return types.Location(params.text_document.uri, _range(span))
        path = found.paths.get(span.source.name)
        return types.Location(path.as_uri(), _range(span)) if path is not None else None

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=["@", ":", "{"])
    )
    def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        found = _analysis(server, params.text_document.uri)
        words = complete(found, _offset(found.source, params.position))
        return [types.CompletionItem(w.label, kind=_KINDS[w.kind], detail=w.detail or None) for w in words]


def _offset(source: Source, position: types.Position) -> int:
    return offset_of(source, position.line, position.character)


def _range(span: Span) -> types.Range:
    start, end = (position_of(span.source, offset) for offset in (span.start, span.end))
    return types.Range(types.Position(*start), types.Position(*end))


def _diagnostic(d: Diagnostic, source: Source) -> types.Diagnostic:
    """Return a finding with its notes and next step. A finding in another text is at the top."""
    is_here = d.span is not None and d.span.source == source
    place = _range(_first_line(d.span) if d.span is not None and is_here else Span(source, 0, 0))
    elsewhere = [f"in {d.span}"] if d.span is not None and not is_here else []
    lines = [
        d.message,
        *elsewhere,
        *(f"note: {note}" for note in d.notes),
        *([f"help: {d.help}"] if d.help else []),
    ]
    return types.Diagnostic(
        place, "\n".join(lines), severity=_SEVERITIES[d.severity], code=d.code, source="isamap"
    )


def _first_line(span: Span) -> Span:
    """Return the span to underline: the first line of a longer span."""
    end = span.source.text.find("\n", span.start)
    return span if not span.start <= end < span.end else Span(span.source, span.start, end)


def _edit(edit: Edit) -> types.TextEdit:
    return types.TextEdit(_range(edit.span), edit.replacement)


def _action(uri: str, d: Diagnostic, source: Source) -> types.CodeAction:
    edits = [_edit(edit) for edit in d.edits]
    return types.CodeAction(
        d.help or f"mend: {d.message}",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[_diagnostic(d, source)],
        edit=types.WorkspaceEdit(changes={uri: edits}),
    )


# What may be written at a place: names, types and words of the language; keys and words of a description.
#
# Read from the text around the place, not from its tree: a text that is being written is seldom right.


Kind = Literal["name", "type", "function", "word", "key", "value"]
_HEAD = re.compile(r"\b(?:kernel|instruction|function)\s+[A-Za-z_0-9]*\s*\(([^)]*)\)")
_DECLARED = re.compile(r"\b(?:inout|in|out|temp|let)\s+([A-Za-z_][A-Za-z_0-9]*)\s*[:=]")
_AXES = re.compile(r"\b(?:for|seq)\b([^{};]*)")
_AXIS = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)\s+in\b")
_PARAM = re.compile(r"(?:choose|machine|imm|scalar)?\s*([A-Za-z_][A-Za-z_0-9]*)\s*(?:[:=].*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion: a word and its kind."""

    label: str
    kind: Kind
    detail: str = ""


def complete(analysis: Analysis, offset: int) -> list[Completion]:
    """Return the possible completions at an offset."""
    before = analysis.source.text[:offset]
    if in_language(analysis, offset):
        written = re.sub(r"[A-Za-z_0-9]*$", "", before).rstrip()
        if written.endswith("@"):
            return [Completion(name, "name", "memory") for name in analysis.memories]
        if re.search(r"\b(?:inout|in|out|temp)\s+[A-Za-z_0-9]+\s*:$", written):
            return [Completion(name, "type", BUILT_IN[name].text) for name in DTYPES]
        found = [Completion(name, "name") for name in _names(before)]
        found += [
            Completion(d.name, "type" if d.name in DTYPES else "function", d.text) for d in BUILT_IN.values()
        ]
        return [*found, *(Completion(word, "word") for word in sorted(KEYWORDS))]
    line = before[before.rfind("\n") + 1 :]
    last = re.split(r"[{,]", line)[-1]
    table = _table(before)
    value = _VALUE.search(last)
    if value is not None:
        return _values(analysis, value["key"], table)
    if isinstance(table, Keys):
        return [Completion(key, "key", _show_field(inner)) for key, inner in table.values.items()]
    return []


def _names(before: str) -> Iterable[str]:
    """Return the names that the routine around an offset has declared so far."""
    heads = list(_HEAD.finditer(before))
    if not heads:
        return ()
    params = [
        match[1] for part in heads[-1][1].split(",") if (match := _PARAM.fullmatch(part.strip())) is not None
    ]
    body = before[heads[-1].end() :]
    axes = [axis for loop in _AXES.finditer(body) for axis in _AXIS.findall(loop[1])]
    return dict.fromkeys((*params, *_DECLARED.findall(body), *axes))


# --- descriptions -----------------------------------------------------------------------------------------

_ENTRY = re.compile(r"(?P<indent> *)(?:- )?(?P<key>[A-Za-z_0-9.-]+):")
_VALUE = re.compile(r"(?P<key>[A-Za-z_0-9-]+):\s*[A-Za-z_0-9-]*$")


def _values(analysis: Analysis, key: str, table: Value | None) -> list[Completion]:
    named = {
        "unit": analysis.units,
        "from": analysis.memories,
        "to": analysis.memories,
        "source": analysis.sources,
    }
    if key in named:
        return [Completion(name, "value") for name in named[key]]
    leaf = table.values.get(key) if isinstance(table, Keys) else None
    if isinstance(leaf, LeafKey) and leaf.words is not None:
        return [Completion(word, "value") for word in leaf.words()]
    return [Completion(word, "value") for word in ("true", "false")] if leaf == LeafKey("flag") else []


def _table(before: str) -> Value | None:
    """Return the schema of the mapping around the last line, or None."""
    lines = before.split("\n")
    path = [match["key"] for match in [_flow(lines[-1])] if match is not None]
    width = len(lines[-1]) - len(lines[-1].lstrip(" -"))
    if path:
        entry = _ENTRY.match(lines[-1])
        width = len(entry["indent"]) if entry is not None else width
        if entry is not None and entry["key"] == path[0]:
            width = len(entry["indent"])
    for line in reversed(lines[:-1]):
        entry = _ENTRY.match(line)
        if entry is not None and len(entry["indent"]) + 2 * line.lstrip().startswith("- ") < width:
            path.append(entry["key"])
            width = len(entry["indent"])
    value: Value | None = MACHINE
    for key in reversed(path):
        value = _schema_of_key(value, key)
    return _schema_of_item(value)


def _flow(line: str) -> re.Match[str] | None:
    """Return the key whose `{` is open at the end of a line, or None."""
    opened = [n for n, c in enumerate(line) if c == "{"]
    closed = line.count("}")
    if len(opened) <= closed:
        return None
    return re.search(r"(?P<key>[A-Za-z_0-9-]+):\s*$", line[: opened[-1 - closed]])


def _schema_of_key(value: Value | None, key: str) -> Value | None:
    value = _schema_of_item(value)
    match value:
        case Keys(values):
            return values.get(key)
        case NamedBy(inner):
            return inner
        case _:
            return None


def _schema_of_item(value: Value | None) -> Value | None:
    """Return the schema of a list's items. If it has alternatives, take the one with keys."""
    while isinstance(value, ListOf | OneOf):
        if isinstance(value, ListOf):
            value = value.item
        else:
            value = next((kind for kind in value.kinds if isinstance(kind, Keys | NamedBy)), None)
    return value


def _show_field(value: Value) -> str:
    match value:
        case LeafKey(kind):
            return {"whole": "a whole number", "bytes": "a size", "flag": "true or false"}.get(
                kind, f"a {kind}"
            )
        case ListOf():
            return "a list"
        case _:
            return "a mapping"


# Edits that lay a text out: of a kernel all of it, of a description the language in its literal blocks.
#
# What cannot be read is left as it is.


# Variables of families become names while the text is laid out.
_VARIABLE, _PREFIX = re.compile(r"\$(?=[A-Z])"), "V0_"


def layout_edits(analysis: Analysis) -> list[Edit]:
    """Return the edits that format a text, or [] if it is formatted."""
    text = analysis.source.text
    edits: list[Edit] = []
    for start, end in analysis.regions:
        written = text[start:end]
        laid_out = _format_text(written)
        if laid_out is not None and laid_out != written:
            edits.append(Edit(Span(analysis.source, start, end), laid_out))
    return edits


def _format_text(written: str) -> str | None:
    """Return language text in canonical layout with its indentation kept, or None if it has errors."""
    if _PREFIX in written:
        return None
    body = dedent(written)
    if not body.strip() or "\n" not in written.strip("\n"):
        return None  # a text in a line with its key has no layout of its own
    first = next(line for line in written.splitlines() if line.strip())
    indent = first[: len(first) - len(first.lstrip())]
    try:
        laid_out = format_source(Source("block", _VARIABLE.sub(_PREFIX, body)))
    except IsamapError:
        return None
    lines = [f"{indent}{line}" if line else "" for line in laid_out.replace(_PREFIX, "$").splitlines()]
    ending = written[len(written.rstrip()) :]
    return "\n".join(lines) + (ending or "")


# Places in a text as editors count them: lines from 0, and columns in units of UTF-16.
#
# Characters beyond the first plane count twice: behind `😀` the column is 2.


def position_of(source: Source, offset: int) -> tuple[int, int]:
    """Return the line and the column of a character."""
    line, column = source.position(min(max(offset, 0), len(source.text)))
    before = source.line_text(line)[: column - 1]
    return line - 1, len(before.encode("utf-16-le", errors="surrogatepass")) // 2


def offset_of(source: Source, line: int, column: int) -> int:
    """Return the offset of a line and a column, limited to the end of the line and of the text."""
    if line >= len(source.line_starts):
        return len(source.text)
    units = 0
    text = source.line_text(line + 1)
    for number, character in enumerate(text):
        if units >= column:
            return source.line_starts[line] + number
        units += 2 if ord(character) > 0xFFFF else 1
    return source.line_starts[line] + len(text)
