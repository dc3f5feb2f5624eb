"""What is saved when isamap itself fails: enough to do it again, in the private cache, sent nowhere."""

from __future__ import annotations

import json
import platform
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from isamap.codegen.cache import cache_root, digest
from isamap.source import IsamapError
from isamap.version import __version__

MAX_INPUT_BYTES = 1 << 20


def save_bundle(words: Sequence[str], error: BaseException) -> Path | None:
    """The file with the command line, its input files and the traceback; None when nothing can be written."""
    trace = "".join(traceback.format_exception(error))
    bundle = {
        "isamap": __version__,
        "python": sys.version,
        # Not `platform.platform`, which starts a process.
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "words": list(words),
        "traceback": trace,
        "inputs": {word: text for word in words if (text := _read(word)) is not None},
    }
    try:
        folder = cache_root() / "repro"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{digest(trace, *words)[:12]}.json"
        path.write_text(json.dumps(bundle, indent=2), encoding="utf-8")
    except (OSError, IsamapError):
        return None
    return path


def _read(word: str) -> str | None:
    """The text of an input file that was named."""
    path = Path(word)
    try:
        if path.suffix in (".ir", ".yaml", ".yml", ".schedule") and path.stat().st_size <= MAX_INPUT_BYTES:
            return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None
    return None
