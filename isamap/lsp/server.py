"""The protocol: what editors ask, answered from the analysis of the text that they have.

Texts are analysed a moment after the last change: a description of a thousand instructions takes a second.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import unquote, urlparse

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from isamap.lsp.analysis import Analysis, analyse
from isamap.lsp.completions import complete
from isamap.lsp.layouts import layout_edits
from isamap.lsp.positions import offset_of, position_of
from isamap.source import Diagnostic, Edit, Source, Span
from isamap.version import __version__

PAUSE_SECONDS = 0.25
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


def path_of(uri: str) -> Path | None:
    """The file that a URI names; None for a text that has none."""
    parsed = urlparse(uri)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else None


def make_server() -> LanguageServer:
    """A server that knows nothing yet."""
    server = LanguageServer("isamap", __version__)
    _tell_findings(server)
    _answer_places(server)
    _answer_texts(server)
    return server


def _analysis(server: LanguageServer, uri: str) -> Analysis:
    path = path_of(uri)
    text = server.workspace.get_text_document(uri).source
    return analyse(Source(path.name if path is not None else uri, text), path)


def _tell_findings(server: LanguageServer) -> None:
    """Findings are published when a text is opened, and a moment after its last change."""

    async def tell(uri: str, pause: float) -> None:
        version = server.workspace.get_text_document(uri).version
        await asyncio.sleep(pause)
        if server.workspace.get_text_document(uri).version != version:
            return  # it was changed again, which tells later
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
    """What a name is, where it is declared, and what may be written at a place."""

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


def _answer_texts(server: LanguageServer) -> None:
    """How a text is laid out, and what would mend its findings."""

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


def _offset(source: Source, position: types.Position) -> int:
    return offset_of(source, position.line, position.character)


def _range(span: Span) -> types.Range:
    start, end = (position_of(span.source, offset) for offset in (span.start, span.end))
    return types.Range(types.Position(*start), types.Position(*end))


def _diagnostic(d: Diagnostic, source: Source) -> types.Diagnostic:
    """A finding, with its notes and the next step; one without a place, or of another text, stands on top."""
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
    """What is underlined: of an instruction its head, not all of it."""
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
