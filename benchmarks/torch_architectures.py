"""Small networks of torch of nine architectures, with the structure of real ones and random weights.

ARCHITECTURES["vit"]()  ->  the model, and a tuple of its inputs

Sizes are arguments, so that tests build smaller ones: `vit(width=24, depth=1, heads=3)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any

torch: Any = import_module("torch")
nn: Any = torch.nn
functional: Any = nn.functional

Given = tuple[Any, tuple[Any, ...]]
"""A model and its inputs."""


class Attention(nn.Module):
    """Attention of several heads, over one sequence or over another one."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        nn.Module.__init__(self)
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: Any, other: Any = None) -> Any:
        batch, length, width = x.shape
        other = x if other is None else other
        parts = (self.q(x), self.k(other), self.v(other))
        q, k, v = (t.view(batch, -1, self.heads, width // self.heads).transpose(1, 2) for t in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Encoder(nn.Module):
    """A layer of an encoder: attention and two products, each behind its norm or in front of it."""

    def __init__(self, width: int, heads: int, gelu: str = "none", norm_first: bool = True) -> None:
        nn.Module.__init__(self)
        self.norm_first = norm_first
        self.first, self.second = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate=gelu), nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        if self.norm_first:
            x = x + self.attention(self.first(x))
            return x + self.mlp(self.second(x))
        x = self.first(x + self.attention(x))
        return self.second(x + self.mlp(x))


class VisionTransformer(nn.Module):
    """Patches of an image, a class token, positions, layers, and a classifier (Dosovitskiy et al. 2021)."""

    def __init__(self, image: int, patch: int, width: int, depth: int, heads: int, gelu: str) -> None:
        nn.Module.__init__(self)
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2 + 1, width))
        self.layers = nn.Sequential(*(Encoder(width, heads, gelu) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 1000)

    def forward(self, image: Any) -> Any:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


def vit(
    image: int = 224,
    patch: int = 16,
    width: int = 192,
    depth: int = 4,
    heads: int = 3,
    batch: int = 1,
    gelu: str = "none",
) -> Given:
    """Return a vision transformer."""
    return VisionTransformer(image, patch, width, depth, heads, gelu), (torch.randn(batch, 3, image, image),)


class RootMeanSquare(nn.Module):
    """A norm without a mean (Zhang and Sennrich 2019), written as Llama does."""

    def __init__(self, width: int) -> None:
        nn.Module.__init__(self)
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x: Any) -> Any:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class LlamaLayer(nn.Module):
    """A layer of a decoder with rotary places, groups of queries, a cache and gated products."""

    def __init__(self, width: int, heads: int, groups: int, hidden: int) -> None:
        nn.Module.__init__(self)
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.first, self.second = RootMeanSquare(width), RootMeanSquare(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def rotate(self, x: Any, place: Any) -> Any:
        rates = 10000.0 ** (-torch.arange(0, self.size, 2).float() / self.size)
        angles = place[:, None].float() * rates
        angles = torch.cat((angles, angles), -1)
        low, high = x.chunk(2, -1)
        turns = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return x * turns[0] + torch.cat((-high, low), -1) * turns[1]

    def forward(self, x: Any, keys: Any, values: Any, place: Any) -> Any:
        batch, length, width = x.shape
        y = self.first(x)
        q, k, v = (
            layer(y).view(batch, length, -1, self.size).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        q, k = self.rotate(q, place), self.rotate(k, place)
        keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        each = self.heads // self.groups
        k, v = keys.repeat_interleave(each, 1), values.repeat_interleave(each, 1)
        scores = q @ k.transpose(-1, -2) / self.size**0.5
        mask = torch.arange(keys.shape[2])[None] > place[:, None]
        y = torch.softmax(scores.masked_fill(mask, float("-inf")), -1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        y = self.second(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), keys, values


def llama(
    width: int = 512,
    heads: int = 8,
    groups: int = 4,
    hidden: int = 1376,
    past: int = 128,
    length: int = 1,
    batch: int = 1,
) -> Given:
    """Return a layer of Llama with what earlier steps have put into its cache."""
    cache = [torch.randn(batch, groups, past, width // heads) for _ in range(2)]
    inputs = (torch.randn(batch, length, width), *cache, past + torch.arange(length))
    return LlamaLayer(width, heads, groups, hidden), inputs


class TimedResidual(nn.Module):
    """Two convolutions behind norms of groups; the time is added between them."""

    def __init__(self, inputs: int, outputs: int, time: int, groups: int) -> None:
        nn.Module.__init__(self)
        self.first, self.second = nn.GroupNorm(groups, inputs), nn.GroupNorm(groups, outputs)
        self.one, self.two = nn.Conv2d(inputs, outputs, 3, 1, 1), nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.time = nn.Linear(time, outputs)
        self.other = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Any, time: Any) -> Any:
        y = self.one(functional.silu(self.first(x)))
        y = y + self.time(functional.silu(time))[:, :, None, None]
        return self.other(x) + self.two(functional.silu(self.second(y)))


class UNet(nn.Module):
    """Down and up with links across, and attention at the bottom, for a step of diffusion."""

    def __init__(self, base: int, groups: int, heads: int, transposed: bool) -> None:
        nn.Module.__init__(self)
        time, self.base = 4 * base, base
        self.time = nn.Sequential(nn.Linear(base, time), nn.SiLU(), nn.Linear(time, time))
        self.begin = nn.Conv2d(3, base, 3, 1, 1)
        widths = (base, base, 2 * base, 4 * base)
        self.down = nn.ModuleList(TimedResidual(a, b, time, groups) for a, b in pairwise(widths))
        self.smaller = nn.ModuleList(nn.Conv2d(b, b, 3, 2, 1) for b in widths[1:])
        self.middle, self.norm = (
            TimedResidual(4 * base, 4 * base, time, groups),
            nn.GroupNorm(groups, 4 * base),
        )
        self.attention = Attention(4 * base, heads)
        self.larger = nn.ModuleList(
            nn.ConvTranspose2d(b, b, 2, 2)
            if transposed
            else nn.Sequential(nn.Upsample(scale_factor=2.0), nn.Conv2d(b, b, 3, 1, 1))
            for b in reversed(widths[1:])
        )
        self.up = nn.ModuleList(
            TimedResidual(2 * b, a, time, groups) for a, b in zip(widths[-2::-1], widths[:0:-1], strict=False)
        )
        self.end = nn.Sequential(nn.GroupNorm(groups, base), nn.SiLU(), nn.Conv2d(base, 3, 3, 1, 1))

    def forward(self, x: Any, step: Any) -> Any:
        half = self.base // 2
        rates = torch.exp(-9.21 * torch.arange(half).float() / half)
        angles = step[:, None].float() * rates
        time = self.time(torch.cat((angles.sin(), angles.cos()), -1))
        x = self.begin(x)
        links: list[Any] = []
        for layer, smaller in zip(self.down, self.smaller, strict=True):
            x = layer(x, time)
            links.append(x)
            x = smaller(x)
        x = self.middle(x, time)
        flat = self.norm(x).flatten(2).transpose(1, 2)
        x = x + self.attention(flat).transpose(1, 2).reshape(x.shape)
        for layer, larger in zip(self.up, self.larger, strict=True):
            x = layer(torch.cat((larger(x), links.pop()), 1), time)
        return self.end(x)


def unet(
    size: int = 32, base: int = 32, groups: int = 8, heads: int = 4, batch: int = 1, transposed: bool = False
) -> Given:
    """Return a U-Net of three levels."""
    model = UNet(base, groups, heads, transposed)
    return model, (torch.randn(batch, 3, size, size), torch.arange(batch) + 10)


class ChannelNorm(nn.Module):
    """A norm over the channels of an image."""

    def __init__(self, width: int) -> None:
        nn.Module.__init__(self)
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Any) -> Any:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    """A convolution of each channel, a norm, two products and a scale (Liu et al. 2022)."""

    def __init__(self, width: int) -> None:
        nn.Module.__init__(self)
        self.across = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(0.1 * torch.ones(width))

    def forward(self, x: Any) -> Any:
        y = self.norm(self.across(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(functional.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext(
    size: int = 128, widths: tuple[int, ...] = (48, 96, 192), depth: int = 2, batch: int = 1
) -> Given:
    """Return a ConvNeXt."""
    parts: list[Any] = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0])]
    for number, width in enumerate(widths):
        if number:
            parts += [ChannelNorm(widths[number - 1]), nn.Conv2d(widths[number - 1], width, 2, 2)]
        parts += [ConvNeXtBlock(width) for _ in range(depth)]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], 100)]
    return nn.Sequential(*parts, *last), (torch.randn(batch, 3, size, size),)


class Mamba(nn.Module):
    """A selective state space layer: a causal convolution, and a scan step by step (Gu and Dao 2023)."""

    def __init__(self, width: int, states: int, rank: int) -> None:
        nn.Module.__init__(self)
        inner, self.rank, self.states = 2 * width, rank, states
        self.norm = RootMeanSquare(width)
        self.into, self.out = (
            nn.Linear(width, 2 * inner, bias=False),
            nn.Linear(inner, width, bias=False),
        )
        self.causal = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.of_data, self.of_step = nn.Linear(inner, rank + 2 * states, bias=False), nn.Linear(rank, inner)
        self.a_log = nn.Parameter(torch.arange(1, states + 1).float().log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))

    def forward(self, x: Any) -> Any:
        length = x.shape[1]
        inner, gate = self.into(self.norm(x)).chunk(2, -1)
        inner = self.causal(inner.transpose(1, 2))[..., :length]
        inner = functional.silu(inner).transpose(1, 2)
        step, b, c = self.of_data(inner).split((self.rank, self.states, self.states), -1)
        step = functional.softplus(self.of_step(step))
        decay = torch.exp(step[..., None] * -torch.exp(self.a_log))
        added = (step * inner)[..., None] * b[:, :, None]
        state = torch.zeros_like(added[:, 0])
        rows: list[Any] = []
        for place in range(length):
            state = decay[:, place] * state + added[:, place]
            rows.append((state * c[:, place, None]).sum(-1))
        y = torch.stack(rows, 1) + self.skip * inner
        return x + self.out(y * functional.silu(gate))


def mamba(width: int = 128, states: int = 16, rank: int = 8, length: int = 32, batch: int = 1) -> Given:
    """Return a layer of Mamba."""
    return Mamba(width, states, rank), (torch.randn(batch, length, width),)


class Experts(nn.Module):
    """A mixture of experts: each computes all rows, or those that are routed to it."""

    def __init__(self, width: int, hidden: int, experts: int, chosen: int, sparse: bool) -> None:
        nn.Module.__init__(self)
        self.chosen, self.sparse = chosen, sparse
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(width**-0.5 * torch.randn(experts, width, hidden))
        self.down = nn.Parameter(hidden**-0.5 * torch.randn(experts, hidden, width))

    def forward(self, x: Any) -> Any:
        rows = x.flatten(0, -2)
        shares, places = self.router(rows).softmax(-1).topk(self.chosen, -1)
        shares = shares / shares.sum(-1, keepdim=True)
        if not self.sparse:
            gates = torch.zeros(rows.shape[0], self.up.shape[0]).scatter(1, places, shares)
            y = functional.gelu(torch.einsum("nc,ech->enh", rows, self.up))
            y = torch.einsum("enh,ehc,ne->nc", y, self.down, gates)
            return x + y.view(x.shape)
        y = torch.zeros_like(rows)
        for expert in range(self.up.shape[0]):
            row, which = torch.where(places == expert)
            found = functional.gelu(rows[row] @ self.up[expert]) @ self.down[expert]
            y = y.index_add(0, row, found * shares[row, which, None])
        return x + y.view(x.shape)


def experts(
    width: int = 128,
    hidden: int = 256,
    count: int = 4,
    chosen: int = 2,
    rows: int = 64,
    sparse: bool = False,
) -> Given:
    """Return a mixture of experts."""
    return Experts(width, hidden, count, chosen, sparse), (torch.randn(1, rows, width),)


class Recommender(nn.Module):
    """Tables, a bottom and a top, and the products of all pairs between them (DLRM, Naumov et al. 2019)."""

    def __init__(self, dense: int, width: int, rows: int, tables: int) -> None:
        nn.Module.__init__(self)
        self.bottom = nn.Sequential(
            nn.Linear(dense, 4 * width), nn.ReLU(), nn.Linear(4 * width, width), nn.ReLU()
        )
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(
            nn.Linear(width + pairs, 4 * width), nn.ReLU(), nn.Linear(4 * width, 1), nn.Sigmoid()
        )
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense: Any, chosen: Any) -> Any:
        bottom = self.bottom(dense)
        found = [table(chosen[:, number]) for number, table in enumerate(self.tables)]
        parts = torch.stack((bottom, *found), 1)
        products = torch.bmm(parts, parts.transpose(1, 2))
        pairs = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat((bottom, pairs), 1))


def dlrm(
    dense: int = 13, width: int = 64, rows: int = 1000, tables: int = 8, each: int = 4, batch: int = 32
) -> Given:
    """Return a recommender."""
    model = Recommender(dense, width, rows, tables)
    return model, (torch.randn(batch, dense), torch.randint(0, rows, (batch, tables, each)))


class Speech(nn.Module):
    """Convolutions over a wave, grouped convolutions as places, and an encoder (Baevski et al. 2020)."""

    def __init__(self, width: int, depth: int, heads: int, window: int, groups: int) -> None:
        nn.Module.__init__(self)
        layers: list[Any] = [nn.Conv1d(1, width, 10, 5, bias=False), nn.GroupNorm(width, width), nn.GELU()]
        for kernel in (3, 3, 2):
            layers += [nn.Conv1d(width, width, kernel, 2, bias=False), nn.GELU()]
        self.features, self.norm = nn.Sequential(*layers), nn.LayerNorm(width)
        places = nn.Conv1d(width, width, window, padding=window // 2, groups=groups)
        self.places = nn.utils.parametrizations.weight_norm(places, dim=2)
        self.layers = nn.Sequential(*(Encoder(width, heads, norm_first=False) for _ in range(depth)))
        self.head = nn.Linear(width, 32)

    def forward(self, wave: Any) -> Any:
        x = self.norm(self.features(wave[:, None]).transpose(1, 2))
        places = self.places(x.transpose(1, 2))[..., : x.shape[1]]
        x = x + functional.gelu(places).transpose(1, 2)
        return functional.log_softmax(self.head(self.layers(x)), -1)


def wav2vec(
    width: int = 192,
    depth: int = 2,
    heads: int = 4,
    window: int = 32,
    groups: int = 8,
    samples: int = 4000,
    batch: int = 1,
) -> Given:
    """Return a recogniser of speech."""
    return Speech(width, depth, heads, window, groups), (torch.randn(batch, samples),)


class Dilated(nn.Module):
    """Convolutions with growing steps between what they read, each added to its input."""

    def __init__(self, width: int, window: int, steps: tuple[int, ...]) -> None:
        nn.Module.__init__(self)
        self.first = nn.ModuleList(
            nn.Conv1d(width, width, window, dilation=d, padding=(window - 1) * d // 2) for d in steps
        )
        self.second = nn.ModuleList(nn.Conv1d(width, width, window, padding=window // 2) for _ in steps)

    def forward(self, x: Any) -> Any:
        for one, two in zip(self.first, self.second, strict=True):
            x = x + two(functional.leaky_relu(one(functional.leaky_relu(x, 0.1)), 0.1))
        return x


class Vocoder(nn.Module):
    """Transposed convolutions from a spectrogram to a wave, dilated ones between (HiFi-GAN, Kong et al. 2020)."""

    def __init__(self, bands: int, width: int, rates: tuple[int, ...], windows: tuple[int, ...]) -> None:
        nn.Module.__init__(self)
        self.begin = nn.Conv1d(bands, width, 7, padding=3)
        widths = [width >> number for number in range(len(rates) + 1)]
        self.larger = nn.ModuleList(
            nn.ConvTranspose1d(a, b, 2 * rate, rate, padding=(rate + 1) // 2, output_padding=rate % 2)
            for a, b, rate in zip(widths, widths[1:], rates, strict=False)
        )
        self.mixed = nn.ModuleList(
            nn.ModuleList(Dilated(b, window, (1, 3)) for window in windows) for b in widths[1:]
        )
        self.end = nn.Conv1d(widths[-1], 1, 7, padding=3)

    def forward(self, x: Any) -> Any:
        x = self.begin(x)
        for larger, mixed in zip(self.larger, self.mixed, strict=True):
            x = larger(functional.leaky_relu(x, 0.1))
            x = sum(layer(x) for layer in mixed) / len(mixed)
        return torch.tanh(self.end(functional.leaky_relu(x)))


def vocoder(
    bands: int = 80,
    width: int = 128,
    rates: tuple[int, ...] = (8, 4),
    windows: tuple[int, ...] = (3, 7),
    length: int = 32,
    batch: int = 1,
) -> Given:
    """Return a vocoder."""
    return Vocoder(bands, width, rates, windows), (torch.randn(batch, bands, length),)


ARCHITECTURES: Mapping[str, Callable[..., Given]] = {
    "vit": vit,
    "llama": llama,
    "unet": unet,
    "convnext": convnext,
    "mamba": mamba,
    "experts": experts,
    "experts-sparse": partial(experts, sparse=True),
    "dlrm": dlrm,
    "wav2vec": wav2vec,
    "vocoder": vocoder,
}
"""Models by name."""
