"""Models of torch by eager torch, by inductor and by isamap, in alternation: medians, minima and ratios.

    python benchmarks/torch_models.py [MODEL …] [--bf16] [--rounds 40] [--machine host] [--processor-time]

isamap twice: by its kernels, and by the portfolio, in which torch performs what it is faster at.
One thread. Contenders take turns in another order each round; a turn is ten calls, each timed by itself. What
compiles takes its time before that, and is printed. Results are compared with those of torch.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from statistics import geometric_mean, median
from typing import Any

import isamap.torch

torch: Any = import_module("torch")
nn: Any = torch.nn

CALLS = 10  # of a turn


class Block(nn.Module):
    """A block of a transformer, norms first."""

    def __init__(self, width: int, heads: int) -> None:
        nn.Module.__init__(self)
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.gates, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.gates(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5, -1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


class Cell(nn.Module):
    """A step of a GRU (3 gates) or an LSTM (4), written out."""

    def __init__(self, inputs: int, width: int, gates: int) -> None:
        nn.Module.__init__(self)
        self.gates = gates
        self.of_input = nn.Linear(inputs, gates * width)
        self.of_state = nn.Linear(width, gates * width)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        if self.gates == 4:
            i, f, g, o = (self.of_input(x) + self.of_state(h)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            return torch.sigmoid(o) * torch.tanh(c)
        r, z, n = self.of_input(x).chunk(3, 1)
        old_r, old_z, old_n = self.of_state(h).chunk(3, 1)
        z = torch.sigmoid(z + old_z)
        n = torch.tanh(n + torch.sigmoid(r + old_r) * old_n)
        return (1 - z) * n + z * h


def _convolutions() -> Any:
    def part(inputs: int, outputs: int, stride: int) -> list[Any]:
        across = nn.Conv2d(inputs, inputs, 3, stride=stride, padding=1, groups=inputs)
        return [across, nn.ReLU6(), nn.Conv2d(inputs, outputs, 1), nn.ReLU6()]

    first = [nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.ReLU6()]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100)]
    return nn.Sequential(*first, *part(32, 64, 1), *part(64, 128, 2), *last)


def _mlp() -> Any:
    return nn.Sequential(
        nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 256)
    )


def _head() -> Any:
    return nn.Sequential(nn.LayerNorm(512), nn.Linear(512, 1000), nn.Softmax(-1))


def _state(gates: int) -> tuple[Any, Sequence[Any]]:
    return Cell(64, 256, gates), (torch.randn(16, 64), torch.randn(16, 256), torch.randn(16, 256))


MODELS: dict[str, Callable[[], tuple[Any, Sequence[Any]]]] = {
    "mlp": lambda: (_mlp(), (torch.randn(16, 256),)),
    "block": lambda: (Block(512, 8), (torch.randn(1, 128, 512),)),
    "convolutions": lambda: (_convolutions(), (torch.randn(1, 3, 64, 64),)),
    "gru": lambda: _state(3),
    "lstm": lambda: _state(4),
    "head": lambda: (_head(), (torch.randn(64, 512),)),
}


def _compiled(name: str, model: Any, options: dict[str, Any]) -> Callable[..., Any]:
    match name:
        case "eager":
            return model
        case "inductor":
            return torch.compile(model, options={"freezing": True})
        case _:
            options = {**options, "portfolio": name == "portfolio"}
            return torch.compile(model, backend=isamap.torch.backend, options=options)


def _turn(call: Callable[[], Any], clock: Callable[[], float]) -> list[float]:
    """Each call by itself, after one that brings back what others took from the caches."""
    call()
    found: list[float] = []
    for _ in range(CALLS):
        start = clock()
        call()
        found.append((clock() - start) * 1e6)
    return found


def measure(
    name: str, dtype: Any, rounds: int, options: dict[str, Any], clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Microseconds of each call by contender; compilations and errors are printed."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, given = MODELS[name]()
    model, inputs = model.eval().to(dtype), [x.to(dtype) for x in given]
    calls: dict[str, Callable[[], Any]] = {}
    wanted = model(*inputs)
    for contender in ("eager", "inductor", "isamap", "portfolio"):
        start = time.perf_counter()
        found = _compiled(contender, model, options)
        error = (found(*inputs) - wanted).abs().max().item()
        calls[contender] = lambda found=found: found(*inputs)
        spent = time.perf_counter() - start
        print(f"  {contender}: first call {spent:.1f} s, largest difference to eager {error:.2g}", flush=True)
    times: dict[str, list[float]] = {contender: [] for contender in calls}
    for _ in range(rounds):
        for contender in random.sample(sorted(calls), len(calls)):
            times[contender] += _turn(calls[contender], clock)
    return times


def main() -> None:
    """Prints a row for each model."""
    parser = argparse.ArgumentParser(description="Models of torch by several compilers, in alternation.")
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--machine", default="host")
    parser.add_argument("--heuristic", default="greedy")
    parser.add_argument("--pack", action="store_true")
    parser.add_argument(
        "--processor-time", action="store_true", help="Beside other programs: of this thread."
    )
    asked = parser.parse_args()
    clock = time.thread_time if asked.processor_time else time.perf_counter
    torch.set_num_threads(1)
    dtype = torch.bfloat16 if asked.bf16 else torch.float32
    options = {"machine": asked.machine, "heuristic": asked.heuristic, "pack": asked.pack}
    ratios: dict[str, list[float]] = {"isamap": [], "portfolio": []}
    with torch.no_grad():
        for name in asked.models:
            print(f"{name}, {dtype}", flush=True)
            times = measure(name, dtype, asked.rounds, options, clock)
            for contender, found in times.items():
                print(f"  {contender:10} median {median(found):9.1f} µs, least {min(found):9.1f} µs")
            fastest = min(median(times["eager"]), median(times["inductor"]))
            for own, found in ratios.items():
                found.append(fastest / median(times[own]))
                print(f"  the faster of eager and inductor over {own}: {found[-1]:.2f}", flush=True)
            pairs = (("isamap", times["isamap"]), ("eager", times["eager"]))
            said = (f"{other} {median(found) / median(times['portfolio']):.2f}" for other, found in pairs)
            print(f"  over portfolio: {', '.join(said)}", flush=True)
    for own, found in ratios.items():
        print(f"geometric mean of {own}: {geometric_mean(found):.2f}")


if __name__ == "__main__":
    main()
