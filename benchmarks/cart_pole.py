"""CartPole: steps of many carts by isamap in one kernel, by isamap operation by operation, and by others.

    python benchmarks/cart_pole.py [--carts 2048] [--steps 16]

Others are torch, eager and compiled by inductor for these sizes, and jax.lax.scan where jax is installed (on
one thread: XLA_FLAGS=--xla_cpu_multi_thread_eigen=false). Operation by operation is the network `cart_pole`
of small_graphs.py, whose force is a tanh and which gives no reward: each operation a kernel of its own, in
one program of C. Times are processor time of the calling thread, of all threads for jax, which has its own:
the least of all turns. Results are compared.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from small_graphs import cart_pole

import isamap
from isamap.onnx import compile_model

STATE = ("x", "v", "th", "w")
KERNEL = """kernel cart_pole(N, T) {
  in action: f32[T, N];
  inout x: f32[N];
  inout v: f32[N];
  inout th: f32[N];
  inout w: f32[N];
  out reward: f32[T, N];
  temp c: f32[N];
  temp s: f32[N];
  temp push: f32[N];
  temp spin: f32[N];
  temp pull: f32[N];
  seq t in T {
    for n in N {
      c[n] = cos(th[n]);
      s[n] = sin(th[n]);
      push[n] = (select(action[t, n] > 0.5, 10.0, -10.0) + 0.05 * w[n] * w[n] * s[n]) / 1.1;
      spin[n] = (9.8 * s[n] - c[n] * push[n]) / (0.5 * (1.3333333 - 0.1 * c[n] * c[n] / 1.1));
      pull[n] = push[n] - 0.05 * spin[n] * c[n] / 1.1;
      x[n] = x[n] + 0.02 * v[n];
      v[n] = v[n] + 0.02 * pull[n];
      th[n] = th[n] + 0.02 * w[n];
      w[n] = w[n] + 0.02 * spin[n];
      reward[t, n] = select(abs(x[n]) > 2.4 | abs(th[n]) > 0.20943951, 0.0, 1.0);
    }
  }
}
"""


def stepped(lib: Any, where: Callable[..., Any], action: Any, state: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return a step as array libraries write it: the next state, and the reward."""
    x, v, th, w = state
    c, s = lib.cos(th), lib.sin(th)
    push = (where(action > 0.5, 10.0, -10.0) + 0.05 * w * w * s) / 1.1
    spin = (9.8 * s - c * push) / (0.5 * (1.3333333 - 0.1 * c * c / 1.1))
    pull = push - 0.05 * spin * c / 1.1
    x, v, th, w = x + 0.02 * v, v + 0.02 * pull, th + 0.02 * w, w + 0.02 * spin
    return (x, v, th, w), where((abs(x) > 2.4) | (abs(th) > 0.20943951), 0.0, 1.0)


def by_torch(action: Any, state: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Return the calls by torch, eager and by inductor."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)

    def steps(action: Any, *state: Any) -> tuple[Any, ...]:
        rewards: list[Any] = []
        for t in range(action.shape[0]):
            state, reward = stepped(torch, torch.where, action[t], state)
            rewards.append(reward)
        return *state, torch.stack(rewards)

    given = [torch.from_numpy(action), *(torch.from_numpy(state[name].copy()) for name in STATE)]
    compiled = torch.compile(steps, dynamic=False)
    return {"torch eager": lambda: steps(*given), "inductor": lambda: compiled(*given)}


def by_jax(action: Any, state: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Return a call by jax.lax.scan, where jax is installed."""
    if find_spec("jax") is None:
        return {}
    jax: Any = import_module("jax")
    lib = jax.numpy

    def step(state: Any, action: Any) -> tuple[Any, Any]:
        return stepped(lib, lib.where, action, state)

    run: Any = jax.jit(partial(jax.lax.scan, step))
    given = tuple(jax.numpy.asarray(state[name]) for name in STATE), jax.numpy.asarray(action)

    def call() -> Any:
        (x, v, th, w), rewards = jax.block_until_ready(run(*given))
        return x, v, th, w, rewards

    return {"jax.scan": call}


def by_isamap(action: Any, state: dict[str, Any], hw: str) -> dict[str, Callable[[], Any]]:
    """Return a call of the kernel, whose states are its own."""
    steps, carts = action.shape
    kernel = isamap.compile(KERNEL, hw, {"N": carts, "T": steps}, heuristic="greedy", transform=True)
    own = {name: array.copy() for name, array in state.items()}
    reward = np.empty_like(action)
    bound = kernel.bind(action=action, reward=reward, **own)

    def call() -> Any:
        for name, array in own.items():
            array[:] = state[name]
        bound()
        return *(own[name] for name in STATE), reward

    return {"isamap": call}


def by_operations(action: Any, hw: str) -> dict[str, Callable[[], Any]]:
    """Return a call of a program in which each operation is a kernel."""
    steps, carts = action.shape
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cart_pole.onnx"
        path.write_bytes(cart_pole(steps, carts).SerializeToString())
        model = compile_model(path, hw, fusion="none")
    given = np.random.default_rng(1).uniform(-0.05, 0.05, (4, carts)).astype(np.float32)
    return {"isamap, operation by operation": model.bound({"x": given})}


def main() -> None:
    """Print nanoseconds of a cart and a step for each contender."""
    parser = argparse.ArgumentParser(description="Steps of CartPole.")
    parser.add_argument("--carts", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--hw", default="host")
    given = parser.parse_args()
    rng: Any = np.random.default_rng(0)
    action: Any = rng.integers(0, 2, (given.steps, given.carts)).astype(np.float32)
    state: dict[str, Any] = {name: rng.uniform(-0.05, 0.05, given.carts).astype(np.float32) for name in STATE}
    calls = by_isamap(action, state, given.hw) | by_torch(action, state) | by_jax(action, state)
    results = {name: [np.asarray(array) for array in call()] for name, call in calls.items()}
    for found in results.values():
        for mine, expected in zip(found, results["torch eager"], strict=True):
            np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-6)
    calls |= by_operations(action, given.hw)
    times = dict.fromkeys(calls, float("inf"))
    for _ in range(given.turns):
        for name, call in calls.items():
            clock = time.process_time if name == "jax.scan" else time.thread_time
            start = clock()
            call()
            times[name] = min(times[name], clock() - start)
    for name, seconds in times.items():
        each = seconds * 1e9 / given.carts / given.steps
        print(f"{name:32} {each:8.2f} ns of a cart and a step, {seconds / times['isamap']:6.2f} times")


if __name__ == "__main__":
    main()
