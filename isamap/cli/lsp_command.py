"""`isamap lsp`: the language server, which an editor starts and talks to on standard input and output."""

from __future__ import annotations

from importlib.util import find_spec

from isamap.cli.answers import Answer
from isamap.source import MissingTool


def lsp_command() -> Answer:
    """Serve editors: diagnostics, hover, completion, definitions and formatting of kernels and machines."""
    if find_spec("pygls") is None:
        said = "the language server needs pygls, which is not installed"
        raise MissingTool.of("no-language-server", said, help="`pip install 'isamap[lsp]'`")
    from isamap.lsp.server import serve

    serve()
    return Answer()
