"""Make each allocation of Python fail in turn while a result is cached and found, and say what that damaged.

    python tests/failing_memory.py FOLDER      one object on standard output

A process is forked for each allocation. It may end with a MemoryError. The cache is whole in any case: no object
is damaged, no key lacks its object, and what is found is what was kept.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

PAST = 50
"""So many processes in which nothing failed any more end the loop."""
WRONG = 9


def main(folder: Path) -> dict[str, object]:
    """Return how many allocations failed, and the findings."""
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ["ISAMAP_CACHE_DIR"] = str(folder)
    from isamap.source.cache import list_damaged, remember_content

    memory: Any = importlib.import_module("_testcapi")
    remember_content("kind", "0" * 64, "imports what it needs")
    number = failed = past = 0
    findings: list[tuple[int, str]] = []
    while past < PAST:
        number += 1
        child = os.fork()
        if child == 0:
            os._exit(_fail_one(memory, number))
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        failed, past = (failed, past + 1) if code == 0 else (failed + 1, 0)
        if code < 0 or code == WRONG:
            findings.append((number, f"it ended with {code}"))
        findings += [(number, f"damaged: {path.name}") for path in list_damaged()]
        for key in folder.glob("*/keys/[!.]*"):
            if not (key.parent.parent / "objects" / key.read_text(encoding="utf-8")).exists():
                findings.append((number, f"a key without an object: {key.name}"))
        for path in folder.glob("*/*/*"):
            path.unlink()
    return {"failed": failed, "findings": findings}


def _fail_one(memory: Any, number: int) -> int:
    """Return 0 if the content was found, 1 where it was not or memory lacked, and WRONG for other content."""
    from isamap.source.cache import digest, recall_content, remember_content

    key, text = digest(str(number)), f"content {number}"
    try:
        memory.set_nomemory(number, number + 1)
        try:
            remember_content("kind", key, text)
            found = recall_content("kind", key)
        finally:
            memory.remove_mem_hooks()
    except (MemoryError, RuntimeError, TypeError):  # Python's own functions turn the first into the others
        return 1
    return WRONG if found not in (None, text.encode()) else int(found is None)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
