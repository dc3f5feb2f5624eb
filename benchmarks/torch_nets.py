"""Models of torch that benchmarks share, with random weights.

MODELS["mobilenetv2"]()  ->  the model, and a tuple of its inputs
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from stages import MOBILENETV2

torch: Any = import_module("torch")
nn: Any = torch.nn

Given = tuple[Any, tuple[Any, ...]]
"""A model and its inputs."""


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


class Residual(nn.Module):
    """What a path adds to its input, or to another path's result, and what is done to the sum."""

    def __init__(self, path: Any, other: Any, after: Any) -> None:
        nn.Module.__init__(self)
        self.path, self.other, self.after = path, other, after

    def forward(self, x: Any) -> Any:
        return self.after(self.other(x) + self.path(x))


def _conv(inputs: int, outputs: int, window: int, stride: int = 1, groups: int = 1) -> list[Any]:
    """Return a convolution and its norm, as torchvision writes it."""
    layer = nn.Conv2d(inputs, outputs, window, stride, window // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(outputs)]


def _classified(parts: list[Any], channels: int) -> Given:
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.running_var, 0.5, 1.5)
            nn.init.normal_(norm.running_mean, 0, 0.1)
    return model, (torch.randn(1, 3, 224, 224),)


def mobilenetv2() -> Given:
    """MobileNetV2, width 1.0 (Sandler et al. 2018, table 2)."""
    parts, channels = [*_conv(3, 32, 3, 2), nn.ReLU6()], 32
    for factor, outputs, count, first in MOBILENETV2:
        for number in range(count):
            stride, wide = first if number == 0 else 1, channels * factor
            path = [*_conv(channels, wide, 1), nn.ReLU6()] if factor != 1 else []
            path += [*_conv(wide, wide, 3, stride, wide), nn.ReLU6(), *_conv(wide, outputs, 1)]
            is_added = stride == 1 and channels == outputs
            parts.append(
                Residual(nn.Sequential(*path), nn.Identity(), nn.Identity())
                if is_added
                else nn.Sequential(*path)
            )
            channels = outputs
    return _classified([*parts, *_conv(channels, 1280, 1), nn.ReLU6()], 1280)


def resnet50() -> Given:
    """ResNet-50, strides in the 3x3 convolutions (He et al. 2016, table 1)."""
    parts, channels = [*_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, count in (64, 3), (128, 4), (256, 6), (512, 3):
        for number in range(count):
            stride = 2 if number == 0 and width != 64 else 1
            path = [*_conv(channels, width, 1), nn.ReLU(), *_conv(width, width, 3, stride), nn.ReLU()]
            path = nn.Sequential(*path, *_conv(width, 4 * width, 1))
            other = nn.Sequential(*_conv(channels, 4 * width, 1, stride)) if number == 0 else nn.Identity()
            parts.append(Residual(path, other, nn.ReLU()))
            channels = 4 * width
    return _classified(parts, channels)


def _convolutions() -> Given:
    def part(inputs: int, outputs: int, stride: int) -> list[Any]:
        across = nn.Conv2d(inputs, inputs, 3, stride=stride, padding=1, groups=inputs)
        return [across, nn.ReLU6(), nn.Conv2d(inputs, outputs, 1), nn.ReLU6()]

    first = [nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.ReLU6()]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100)]
    model = nn.Sequential(*first, *part(32, 64, 1), *part(64, 128, 2), *last)
    return model, (torch.randn(1, 3, 64, 64),)


def _mlp() -> Given:
    layers = nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 256)
    return nn.Sequential(*layers), (torch.randn(16, 256),)


def _head() -> Given:
    return nn.Sequential(nn.LayerNorm(512), nn.Linear(512, 1000), nn.Softmax(-1)), (torch.randn(64, 512),)


def _cell(gates: int) -> Given:
    return Cell(64, 256, gates), (torch.randn(16, 64), torch.randn(16, 256), torch.randn(16, 256))


def _layer(kind: str, batch: int) -> Given:
    """Return a recurrent layer over 50 steps."""
    return getattr(nn, kind)(64, 256), (torch.randn(50, batch, 64),)


MODELS: Mapping[str, Callable[[], Given]] = {
    "mlp": _mlp,
    "block": lambda: (Block(512, 8), (torch.randn(1, 128, 512),)),
    "mobilenetv2": mobilenetv2,
    "resnet50": resnet50,
    "gru": lambda: _layer("GRU", 1),
    "gru16": lambda: _layer("GRU", 16),
    "lstm": lambda: _layer("LSTM", 1),
    "lstm16": lambda: _layer("LSTM", 16),
    "convolutions": _convolutions,
    "gru-cell": lambda: _cell(3),
    "lstm-cell": lambda: _cell(4),
    "head": _head,
}
"""Models by name. The first eight are those of the table in docs/torch.md."""
SIX = tuple(MODELS)[:8]
