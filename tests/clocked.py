"""Which tests take long: a plug-in that notes the processor's time of each, and the list that is made of it.

    CLOCKED=/tmp/clocked .venv/bin/python -m pytest -n 2 -p clocked --tier fast --cov
    .venv/bin/python tests/clocked.py /tmp/clocked.* > tests/slow.txt

Tests named in `slow.txt` are exhaustive ones (tiers.py). It is the processor's time, of children too, so that
what else is running hardly counts.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

SECONDS = 2.5
"""The most processor time of a test of the fast tier, with coverage. Units: seconds."""
LONGEST = 30.0
"""The most processor time of a test that a run may draw. Units: seconds."""


def _spent_s() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note what a test took, in a file of this process."""
    before = _spent_s()
    result = yield
    with Path(f"{os.environ['CLOCKED']}.{os.getpid()}").open("a") as file:
        file.write(json.dumps([item.nodeid, _spent_s() - before]) + "\n")
    return result


if __name__ == "__main__":
    noted = [json.loads(line) for name in sys.argv[1:] for line in Path(name).read_text().splitlines()]
    print("\n".join(sorted(("! " if s > LONGEST else "") + name for name, s in noted if s > SECONDS)))
