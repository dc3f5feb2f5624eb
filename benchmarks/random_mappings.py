"""Random mappings performed and compared with the kernel's interpreter, until so many have been.

    python benchmarks/random_mappings.py --count 100000 --output random-mappings.txt
    python benchmarks/random_mappings.py --native --count 2000

Kernels, instructions, sizes, orders of fusion and cuts are drawn as in tests/properties/random_mappings.py;
a seed names its mappings for good. Prints the counts, and the story of what was computed wrongly.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]

from properties.random_mappings import trials, verdict  # noqa: E402 - the path has to be set first


def main() -> int:
    """Return the counts by verdict, kind and source; 1 when a mapping computes something else than its kernel."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000, help="performed mappings to reach")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--native", action="store_true", help="compile and run them on this processor")
    parser.add_argument("--output", type=Path, help="where to write the summary as well")
    options = parser.parse_args()
    started = time.monotonic()
    run = _native if options.native else _interpreted
    counts, wrong, seeds = run(options.count, options.first)
    lines = [
        f"command: python benchmarks/random_mappings.py {' '.join(sys.argv[1:])}",
        f"seeds: {options.first}..{seeds}",
        *(f"{name}: {count}" for name, count in sorted(counts.items())),
        f"seconds: {time.monotonic() - started:.0f}",
    ]
    print("\n".join(lines))
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for story in wrong[:5]:
        print(f"\n{story}")
    return 1 if wrong else 0


def _interpreted(expected: int, seed: int) -> tuple[Counter[str], list[str], int]:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    while counts["performed: equal"] < expected:
        for trial in trials(seed):
            found = verdict(trial)
            counts[f"performed: {found}"] += 1
            counts[f"kind: {trial.mapping.kind}"] += 1
            made = trial.pattern.name == "made"
            counts[f"instructions: {'random' if made else 'shipped'}"] += 1
            kernel = trial.subject.alone.name
            counts[f"kernels: {'random' if kernel == 'k' else 'shipped'}"] += 1
            if found == "wrong":
                wrong.append(trial.story())
                print(f"wrong: {wrong[-1]}", flush=True)
        seed += 1
        if seed % 1000 == 0:
            print(f"seed {seed}: {counts['performed: equal']}, wrong {len(wrong)}", flush=True)
    return counts, wrong, seed - 1


def _native(expected: int, seed: int) -> tuple[Counter[str], list[str], int]:
    from properties.native_mappings import run_natively

    return run_natively(expected, seed)


if __name__ == "__main__":
    sys.exit(main())
