"""Digests of everything that compilations write, and what differs between two sets of them.

    python benchmarks/outputs.py digest before.json                      # on one state of the code
    python benchmarks/outputs.py digest after.json                       # on another one
    python benchmarks/outputs.py compare before.json after.json          # exit 1 where some text differs

All shipped kernels on all shipped machines by the greedy heuristic: at small sizes, with a size that only a
call knows, at larger sizes by two threads. `--suites` adds shapes of the suites (`scheduling_cases.py`),
`--heuristic cpsat` asks the solver, `--profile` takes measured figures. A refused case is kept as what
the refusal says. Each case is written as it is done; started again, only what the file lacks is done.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from scheduling_cases import all_cases

from isamap.driver.compiling import describe
from isamap.driver.inputs import find_profile
from isamap.driver.length_versions import compile_request
from isamap.driver.request import Request, Size
from isamap.kernels import kernel_path, list_kernels
from isamap.machine import list_machines
from isamap.source import IsamapError, Source
from isamap.syntax import parse_kernel

WINDOWS = ("R", "S")  # a convolution's, which stay small
Digests = dict[str, str]
"""Per file that a compilation writes its sha256, or what the refusal says."""


def main() -> None:
    """Write digests, or compare two files of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    digest = commands.add_parser("digest")
    digest.add_argument("store", type=Path)
    digest.add_argument("--kernels", nargs="*", default=list(list_kernels()))
    digest.add_argument("--machines", nargs="*", default=list(list_machines()))
    digest.add_argument("--suites", nargs="*", default=[])
    digest.add_argument("--heuristic", default="greedy")
    digest.add_argument("--profile", help="measured figures, for machines that they are of")
    digest.add_argument("--every", type=int, default=1, help="one case of so many")
    compare = commands.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        sys.exit(_compare(_stored(options.before), _stored(options.after)))
    _digest(options)


def _digest(options: argparse.Namespace) -> None:
    done = _stored(options.store)
    cases = [*_shipped(options.kernels, options.machines), *_of_suites(options.suites)][:: options.every]
    with options.store.open("a", encoding="utf-8") as store:
        for name, request in cases:
            if name in done:
                continue
            asked = replace(request, heuristic=options.heuristic, cache=False)
            if options.profile:
                asked = replace(asked, profile=find_profile(options.profile, request.machine))
            store.write(json.dumps({"case": name, "files": _digests(asked)}) + "\n")
            store.flush()
    print(f"{len(cases)} cases in {options.store}")


def _shipped(kernels: list[str], machines: list[str]) -> Iterator[tuple[str, Request]]:
    """Yield every kernel on every machine: at small sizes, with an open one, at larger sizes by threads."""
    for kernel in kernels:
        path = kernel_path(kernel)
        source = Source(path.name, path.read_text(encoding="utf-8"))
        given, opened, larger = _sizes(source)
        for machine in machines:
            name = f"{kernel} {machine}"
            yield name, Request(source, machine, given)
            yield f"{name} threads", Request(source, machine, larger, threads=2)
            yield f"{name} open", Request(source, machine, opened)


def _sizes(source: Source) -> tuple[dict[str, Size], dict[str, Size], dict[str, Size]]:
    """Small sizes, the same with the first of them open, and larger ones, worth two threads."""
    rng = random.Random(source.name)
    names = [p.name for p in parse_kernel(source).params if p.default is None and p.dtype is None]
    small = {n: rng.randint(1, 3) if n in WINDOWS else rng.randint(10, 40) for n in names}
    larger: dict[str, Size] = {n: v if n in WINDOWS else 17 * v for n, v in small.items()}
    given: dict[str, Size] = {**small}
    opened = {**given, names[0]: f"1..4096@{small[names[0]]}"} if names else given
    return given, opened, larger


def _of_suites(suites: list[str]) -> Iterator[tuple[str, Request]]:
    for case in all_cases():
        if case.suite in suites:
            yield case.name, Request(case.kernel, case.machine, dict(case.sizes))


def _digests(request: Request) -> Digests:
    try:
        files = describe(request, compile_request(request)).files
    except IsamapError as error:
        return {"refused": "\n".join(d.render() for d in error.diagnostics)}
    except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        return {"broken": repr(error)}
    files = {name: text for name, text in files.items() if name != "manifest.json"}  # has their digests
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(files.items())}


def _stored(path: Path) -> dict[str, Digests]:
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    return {row["case"]: row["files"] for row in rows}


def _compare(before: dict[str, Digests], after: dict[str, Digests]) -> int:
    """Return what differs, a line for each case; the exit code."""
    both = [name for name in before if name in after]
    differing = [name for name in both if before[name] != after[name]]
    for name in differing:
        old, new = before[name], after[name]
        files = sorted(f for f in old.keys() | new.keys() if old.get(f) != new.get(f))
        print(f"{name}: {', '.join(files)}")
    kinds = Counter(next(iter(d)) if len(d) == 1 else "compiled" for d in (after[name] for name in both))
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    alone = len(before) + len(after) - 2 * len(both)
    print(f"{len(both)} cases ({counted}): {len(differing)} differ; {alone} are in one file alone")
    return 1 if differing or alone or not both else 0


if __name__ == "__main__":
    main()
