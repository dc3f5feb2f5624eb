"""The process of one contender: it receives a task, prepares it, and times calls on request.

python -m isamap.bench.contender_process NAME THREADS READ WRITE PARENT

READ and WRITE are the numbers of two pipes, on which requests and answers are lines of JSON, PARENT is the
process with which it ends. Standard output belongs to the library.

A contender ends with the process that started it, even if that one was killed.

It is stopped while others are timed, and a stopped process does not notice that its pipe was closed.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from isamap.bench.kinds import KINDS
from isamap.bench.libraries import NotOffered, Ready
from isamap.bench.ring import Task, map_task
from isamap.source.process import end_with


def main() -> None:
    """Answer requests until the pipe closes."""
    name, threads, read, write, parent = sys.argv[1], *(int(word) for word in sys.argv[2:6])
    end_with(parent)
    ready: Ready | None = None
    with os.fdopen(read, encoding="utf-8") as requests, os.fdopen(write, "w", encoding="utf-8") as answers:
        _send(answers, {"ready": True})  # from here on it may be stopped
        for line in requests:
            request: dict[str, Any] = json.loads(line)
            if "task" in request:
                answer, ready = _prepare(name, threads, request["task"])
            else:
                assert ready is not None
                answer = {"ns": ready.time(request["calls"], request["first"])}
            _send(answers, answer)


def _send(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _prepare(name: str, threads: int, task: dict[str, Any]) -> tuple[dict[str, Any], Ready | None]:
    try:
        kind = KINDS[task["kind"]]
        mapped = map_task(Task[Any].from_json(task, kind.case_type))
        ready = kind.libraries[name](mapped, threads)
    except NotOffered:
        return {"offered": False}, None
    said = {"implementation": ready.implementation, "in_c": ready.in_c, "dispatch_ns": ready.dispatch_ns}
    return {"offered": True, **said}, ready


if __name__ == "__main__":
    main()
