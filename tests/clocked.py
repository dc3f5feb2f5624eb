"""Find the tests that take long: a plug-in notes the processor time of each, and this file prints the list.

    .venv/bin/python check.py
    .venv/bin/python tests/clocked.py .pytest_cache/clocked.* > /tmp/slow && mv /tmp/slow tests/slow.txt

Tests named in `slow.txt` are exhaustive ones (tiers.py). Lines of it that were not measured again stay. The time is
the processor's, of children too, so that other work of the computer hardly counts.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping
from itertools import accumulate
from pathlib import Path

import pytest

SECONDS = 1.0
"""The most processor time of a test of the fast tier. Units: seconds."""
TOGETHER = 0.3
"""The same of all cases of one test. The shortest cases stay in the fast tier. Units: seconds."""
SHORT = 0.2
"""Cases that take less stay in the fast tier, however many there are. Units: seconds."""
LONGEST = 30.0
"""The most processor time of a test that a run may draw. Units: seconds."""
ALWAYS = """
    errors mutations properties test_brute_force test_commands_in_c test_dsp_words test_gemmini_words
    test_hostile test_house_rules test_instruction_sets test_kills test_machine_edges test_machine_load
    test_lanes_over_short_axes test_machine_picture test_match_idle_numbers test_outputs test_packaging
    test_places test_planted_races test_process_ends test_several_lengths test_simt_kernels test_conformance
    test_site test_tour test_vector_lengths test_verify_matrix test_vta_words test_wheel
"""
"""Folders and files whose cases differ in kind: each is about a shipped file, a text, a fault, or a way to end."""


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


def long_tests(times: Mapping[str, float]) -> set[str]:
    """Return the tests that the fast tier leaves to the others, of tests with the processor time of each.

    The shortest test of a file stays in the fast tier, unless it is one that no run may draw.
    """
    cases: dict[str, list[str]] = {}
    shortest: dict[str, str] = {}
    for name in sorted(times, key=lambda name: times[name]):
        file = name.partition(".py")[0]
        if times[name] <= LONGEST:
            shortest.setdefault(file, name)
        if not {*Path(file).parts} & {*ALWAYS.split()}:
            cases.setdefault(name.partition("[")[0], []).append(name)
    return {
        name
        for names in cases.values()
        for name, together in zip(names, accumulate(times[name] for name in names), strict=True)
        if times[name] > SECONDS or (name != names[0] and times[name] > SHORT and together > TOGETHER)
    } - {*shortest.values()}


if __name__ == "__main__":
    noted = [json.loads(line) for name in sys.argv[1:] for line in Path(name).read_text().splitlines()]
    spent = {str(name): float(seconds) for name, seconds in noted}
    long = long_tests(spent)
    print(
        f"{sum(spent.values()):.0f} s, {sum(spent[name] for name in long):.0f} s of them long",
        file=sys.stderr,
    )
    lines = {("! " if spent[name] > LONGEST else "") + name for name in long}
    kept = (Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").splitlines()
    print("\n".join(sorted(lines | {line for line in kept if line.removeprefix("! ") not in spent})))
