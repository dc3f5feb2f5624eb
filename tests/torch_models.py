"""Six small models of torch that tests of its backend share, with inputs for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install 'isamap[torch]'")
layers = torch.nn


class Block(layers.Module):
    """A block of a transformer: attention of several heads and a feed-forward part, norms first."""

    def __init__(self, width: int, heads: int) -> None:
        layers.Module.__init__(self)
        self.heads = heads
        self.norms = layers.ModuleList([layers.LayerNorm(width), layers.LayerNorm(width)])
        self.gates, self.out = layers.Linear(width, 3 * width), layers.Linear(width, width)
        self.up, self.down = layers.Linear(width, 4 * width), layers.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.gates(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5, -1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))


class Gru(layers.Module):
    """A gated recurrent unit, one step, written out."""

    def __init__(self, inputs: int, width: int) -> None:
        layers.Module.__init__(self)
        self.of_input, self.of_state = layers.Linear(inputs, 3 * width), layers.Linear(width, 3 * width)

    def forward(self, x: Any, h: Any) -> Any:
        reset, update, new = self.of_input(x).chunk(3, 1)
        old_reset, old_update, old_new = self.of_state(h).chunk(3, 1)
        z = torch.sigmoid(update + old_update)
        n = torch.tanh(new + torch.sigmoid(reset + old_reset) * old_new)
        return (1 - z) * n + z * h


class Lstm(layers.Module):
    """A long short-term memory, one step, written out."""

    def __init__(self, inputs: int, width: int) -> None:
        layers.Module.__init__(self)
        self.of_input, self.of_state = layers.Linear(inputs, 4 * width), layers.Linear(width, 4 * width)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        i, f, g, o = (self.of_input(x) + self.of_state(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def _mlp() -> tuple[Any, tuple[Any, ...]]:
    parts = layers.Linear(8, 16), layers.ReLU(), layers.Linear(16, 12), layers.SiLU(), layers.Linear(12, 4)
    return layers.Sequential(*parts), (torch.randn(3, 8),)


def _convolutions() -> tuple[Any, tuple[Any, ...]]:
    return layers.Sequential(
        layers.Conv2d(3, 8, 3, stride=2, padding=1),
        layers.ReLU6(),
        layers.Conv2d(8, 8, 3, padding=1, groups=8),
        layers.Hardswish(),
        layers.Conv2d(8, 6, 1, bias=False),
        layers.AdaptiveAvgPool2d(1),
        layers.Flatten(),
        layers.Linear(6, 4),
    ), (torch.randn(2, 3, 9, 8),)


def _head() -> tuple[Any, tuple[Any, ...]]:
    parts = layers.LayerNorm(12), layers.Linear(12, 5), layers.LogSoftmax(-1)
    return layers.Sequential(*parts), (torch.randn(2, 3, 12),)


MODELS: Mapping[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "mlp": _mlp,
    "transformer block": lambda: (Block(12, 2), (torch.randn(2, 5, 12),)),
    "convolutions": _convolutions,
    "gru": lambda: (Gru(6, 8), (torch.randn(3, 6), torch.randn(3, 8))),
    "lstm": lambda: (Lstm(6, 8), (torch.randn(3, 6), torch.randn(3, 8), torch.randn(3, 8))),
    "head": _head,
}
"""A model with its inputs by what it is."""
