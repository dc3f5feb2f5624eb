"""A recurrent layer as written, with its input's product in front of the loop, and with its gates parted.

    python benchmarks/gru.py > benchmarks/results/DATE-gru.txt

One thread; contenders take turns. Least and median milliseconds, and how much longer the first two take.
"""

from __future__ import annotations

from statistics import median

from alternate import program, ratio, source, turns

from isamap.driver.request import Request
from isamap.driver.rewriting import forms_of
from isamap.machine import load_machine

MACHINE = "x86-avx512"
CASES = ((512, 16, 4), (1024, 16, 2), (1536, 16, 2))
"""Units, sequences, steps."""


def main() -> None:
    """Compile the three, take turns, print."""
    print("units  sequences  steps   as written       hoisted        parted   written  hoisted")
    for units, sequences, steps in CASES:
        sizes = {"T": steps, "N": sequences, "C": units, "H": units}
        made = forms_of(source("gru"), load_machine(MACHINE), sizes)
        named = [tuple(step.split(":")[0] for step in form.steps) for form in made]
        hoisted = ("expansion", "fission", "fission")
        forms = {"written": None, "hoisted": hoisted, "parted": (*hoisted, "parting")}
        calls = {
            name: program(
                source("gru"),
                MACHINE,
                sizes,
                sizes,
                request=Request(
                    source("gru"),
                    MACHINE,
                    sizes,
                    heuristic="greedy",
                    transform=None if form is None else str(named.index(form)),
                ),
            )[0]
            for name, form in forms.items()
        }
        times = turns(calls)
        shown = "  ".join(f"{min(t) * 1e3:5.2f} {median(t) * 1e3:6.2f}" for t in times.values())
        ratios = "  ".join(f"{ratio(times, name, 'parted'):7.2f}" for name in ("written", "hoisted"))
        print(f"{units:5d}  {sequences:9d}  {steps:5d}  {shown}  {ratios}", flush=True)


if __name__ == "__main__":
    main()
