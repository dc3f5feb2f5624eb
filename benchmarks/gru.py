"""DeepBench's recurrent layers: as written, as `--transform` rewrites them, with gates parted, and by torch.

    taskset -c 0 python benchmarks/gru.py > gru.txt

f32, one thread; contenders take turns on the same data, and their results are compared. Least and median
milliseconds of processor time, and in brackets how much longer each takes than what `--transform` makes.
DeepBench's time steps, 187 to 1500, are cut to 8: all cost the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np
from alternate import program, ratio, source, turns

from isamap.driver.matching import forms_of
from isamap.driver.request import BEST_FORM, Request
from isamap.machine import load_machine

CASES = ((512, 32), (1024, 32), (1536, 32), (2048, 32), (2560, 32), (2816, 32), (2816, 4), (1536, 1))
"""Units and sequences of the rows of `gru` in DeepBench (rnn.csv): training, and two of inference."""
STEPS = 8
CHOSEN = "chosen"
Arrays = Mapping[str, Any]
Call = Callable[[], object]


def main() -> None:
    """Compile, compare, take turns, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hw", default="x86-avx512")
    parser.add_argument("--cases", type=int, default=len(CASES), help="only so many of them")
    options = parser.parse_args()
    for number, (units, sequences) in enumerate(CASES[: options.cases]):
        calls = _calls({"T": STEPS, "N": sequences, "C": units, "H": units}, options.hw)
        times = turns(calls)
        if number == 0:
            print("units  sequences  steps " + " ".join(f"{name:>15} {'':7}" for name in calls))
        shown = " ".join(
            f"{min(t) * 1e3:7.2f} {median(t) * 1e3:7.2f} ({ratio(times, name, CHOSEN):5.2f})"
            for name, t in times.items()
        )
        print(f"{units:5d}  {sequences:9d}  {STEPS:5d} {shown}", flush=True)


def _calls(sizes: Mapping[str, int], hw: str) -> dict[str, Call]:
    """Return the contenders by name, whose results have been compared."""
    made = forms_of(source("gru"), load_machine(hw), sizes)
    named = [tuple(step.split(":")[0] for step in form.steps) for form in made]
    parted = str(named.index(("expansion", "fission", "fission", "parting")))
    calls: dict[str, Call] = {}
    results: dict[str, Any] = {}
    arrays: Arrays = {}
    for name, form in {"as written": None, CHOSEN: BEST_FORM, "parted": parted}.items():
        request = Request(source("gru"), hw, sizes, transform=form)
        calls[name], arrays, _ = program(source("gru"), hw, sizes, sizes, request=request)
        calls[name]()
        results[name] = arrays["Y"].copy()
    torch_call = _torch(arrays)
    if torch_call is not None:
        calls["torch"] = torch_call
        results["torch"] = torch_call().numpy()
    for name, found in results.items():
        gap = np.abs(found - results["as written"]).max()
        assert gap < 1e-3, f"{name} differs by {gap}"
    return calls


def _torch(arrays: Arrays) -> Callable[[], Any] | None:
    """torch.nn.GRU with the same weights; None where it is not installed. Its gates have the same order."""
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return None
    torch.set_num_threads(1)
    units = arrays["h0"].shape[1]
    layer = torch.nn.GRU(arrays["X"].shape[2], units)
    with torch.no_grad():
        for ours, theirs in (("W", layer.weight_ih_l0), ("U", layer.weight_hh_l0)):
            theirs.copy_(torch.from_numpy(np.concatenate([gate.T for gate in arrays[ours]])))
        for ours, theirs in (("b", layer.bias_ih_l0), ("d", layer.bias_hh_l0)):
            theirs.copy_(torch.from_numpy(arrays[ours].reshape(-1)))
    given, first = torch.from_numpy(arrays["X"]), torch.from_numpy(arrays["h0"])[None]

    def call() -> Any:
        with torch.inference_mode():
            return layer(given, first)[0]

    return call


if __name__ == "__main__":
    main()
