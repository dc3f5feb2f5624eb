"""Where elements lie: indices, parts, joints, windows, results in place.

As people have reported them of compilers: what is computed, and what it is given.
"""

from __future__ import annotations

from typing import Any

from torch_given import Case, F, ramp, randn, torch


def add_at_equal_places(x: Any) -> Any:
    x = x + 10
    y = torch.arange(8.0).reshape(2, 4)
    y[x] += y[x]
    return y


def add_to_a_part_of_a_copy(a: Any) -> Any:
    x = a.clone()
    y = x.as_strided((2, 2), (2, 1), 0)
    y.add_(1.0)
    return x, y


def add_to_columns(t: Any) -> Any:
    y = t[0].permute(1, 0)
    y.index_add_(0, t[2], t[1])
    return y


def cut_and_repeated(t: Any) -> Any:
    a = F.pad(t[0], (0, -1))
    return (a + t[1]).min(0).values


def add_twice_to_a_row(x: Any) -> Any:
    x[[0, 0]] += x[[0, 0]]
    return x


def add_what_is_turned(x: Any) -> Any:
    x.index_put_((torch.arange(x.size(0)),), x * 2.0)
    x.add_(x.flip(0))
    return x


def windows_in_place(x: Any) -> Any:
    return (x + x).unfold(1, 4, 4).abs_()


def change_an_expanded_copy(x: Any) -> Any:
    a = x.expand(3).clone()
    a[-1] = 3
    return a


def shift_in_place(x: Any) -> Any:
    x[1:] = x[:-1].clone()
    return x


ARRAYS: dict[str, Case] = {
    "pad const": (lambda x: F.pad(x, (1, 2, 0, 3), value=2.5), lambda: randn(2, 3, 4)),
    "pad neg": (lambda x: F.pad(x, (-1, 2, 1, -1)), lambda: randn(2, 4, 4)),
    "pad reflect": (lambda x: F.pad(x, (2, 1), mode="reflect"), lambda: randn(1, 2, 5)),
    "pad replicate": (lambda x: F.pad(x, (2, 1, 1, 1), mode="replicate"), lambda: randn(1, 2, 5, 4)),
    "pad circular": (lambda x: F.pad(x, (2, 1), mode="circular"), lambda: randn(1, 2, 5)),
    "sort": (lambda x: torch.sort(x, dim=1, stable=True), lambda: randn(3, 5)),
    "topk": (lambda x: torch.topk(x, 2), lambda: randn(3, 5)),
    "cumsum": (lambda x: (x.cumsum(0), x.cumprod(1), x.cumsum(1, dtype=torch.float64)), lambda: randn(3, 4)),
    "cumsum int8": (lambda x: x.cumsum(0), lambda: torch.full((5,), 100, dtype=torch.int8)),
    "0d index": (lambda x: x[1] * 2, lambda: randn(3)),
    "index neg": (lambda x: (x[-1], x[..., -2:], x[:, ::2], x.flip(0)), lambda: randn(3, 5)),
    "gather": (lambda t: torch.gather(t[0], 1, t[1]), lambda: (randn(3, 4), torch.randint(0, 4, (3, 2)))),
    "scatter": (
        lambda t: t[0].scatter(1, t[1], t[2]),
        lambda: (randn(3, 4), torch.tensor([[0], [2], [3]]), randn(3, 1)),
    ),
    "scatter_add dup": (
        lambda t: t[0].index_add(0, t[1], t[2]),
        lambda: (torch.zeros(3, 2), torch.tensor([1, 1, 0]), torch.ones(3, 2)),
    ),
    "index_put acc": (
        lambda t: t[0].index_put((t[1],), t[2], accumulate=True),
        lambda: (torch.zeros(3), torch.tensor([1, 1, 0]), torch.ones(3)),
    ),
    "one_hot": (lambda x: F.one_hot(x, 5), lambda: torch.tensor([0, 4, 2])),
    "roll": (lambda x: (x.roll(1), x.roll((1, -1), (0, 1)), torch.rot90(x)), lambda: randn(3, 4)),
    "tril": (lambda x: (x.tril(), x.triu(1), x.diagonal(1), torch.diag(x[0])), lambda: randn(4, 4)),
    "cat types": (torch.cat, lambda: (randn(2), ramp(3, dtype=torch.int32))),
    "cat empty": (torch.cat, lambda: (randn(2, 3), torch.empty(0))),
    "stack": (lambda t: (torch.stack(t, 1), torch.hstack(t)), lambda: (randn(3), randn(3))),
    "split": (lambda x: [a + 1 for a in x.split([1, 3, 0, 2])], lambda: randn(6)),
    "expand": (lambda x: x.expand(3, 4) + x.unsqueeze(0).repeat(2, 1, 1).sum(0), lambda: randn(1, 4)),
    "as_strided": (lambda x: x.as_strided((2, 3), (1, 2)) * 2, lambda: randn(9)),
    "linspace": (lambda x: x + torch.linspace(0, 1, 5) + torch.arange(5), lambda: randn(5)),
    "full_like": (lambda x: torch.full_like(x, 7) + torch.zeros_like(x) + torch.ones(3), lambda: randn(3)),
    "neg stride out": (lambda x: (x.T.contiguous(), x.permute(1, 0).clone()), lambda: randn(3, 4)),
    "view dtype": (lambda x: x.view(torch.int32) + 1, lambda: randn(3)),
    "bf16 rope": (
        lambda t: t[0] * t[1] + torch.cat((-t[0][..., 4:], t[0][..., :4]), -1) * t[2],
        lambda: (randn(2, 8).bfloat16(), randn(2, 8).bfloat16(), randn(2, 8).bfloat16()),
    ),
    "index adds dup": (add_at_equal_places, lambda: torch.full((1, 2), -10)),
    "clone as_strided add_": (add_to_a_part_of_a_copy, lambda: randn(2, 10)),
    "transposed index_add": (add_to_columns, lambda: (torch.ones(3, 5), ramp(3, 3), torch.tensor([0, 4, 2]))),
    "pad one element": (lambda x: F.pad(x, (10, 10), value=0), lambda: randn(1, 1, 1)),
    "sum pad": (
        lambda x: F.pad(x.sum(-1, dtype=torch.int32), (1, 0)),
        lambda: torch.ones(1, 1638, dtype=torch.bool),
    ),
    "pad cumsum": (
        lambda x: F.pad(torch.cumsum(x.sum(-1, dtype=torch.int32), 0, dtype=torch.int32), (1, 0)),
        lambda: torch.ones(3, 100, dtype=torch.bool),
    ),
    "pad -1 broadcast": (cut_and_repeated, lambda: (torch.rand(2), torch.rand(2))),
    "consecutive pad": (lambda x: F.pad(F.pad(x, (1, 0)), (0, 2), value=1)[..., 1:], lambda: randn(3)),
    "argmax sin t": (lambda x: x.clone().sin_().t().argmax(), lambda: randn(5, 7)),
    "diagonal_scatter": (lambda t: torch.diagonal_scatter(*t), lambda: (randn(8, 8), randn(8))),
    "rows that are equal": (add_twice_to_a_row, lambda: randn(1, 2).double()),
    "index_add expanded": (
        lambda t: t[0].expand(3, 4).index_add(0, torch.tensor([0, 2]), t[1]),
        lambda: (randn(1, 4), randn(2, 4)),
    ),
    "index_put flip": (add_what_is_turned, lambda: torch.rand(4, 8)),
    "index_add column": (
        lambda t: torch.index_add(t[0], 0, torch.arange(5), t[1]),
        lambda: (randn(5, 5), randn(5, 5)),
    ),
    "unfold abs_": (windows_in_place, lambda: torch.linspace(-3, 3, 8).reshape(1, 8)),
    "expand clone set": (change_an_expanded_copy, lambda: torch.tensor(1)),
    "shift in place": (shift_in_place, lambda: ramp(6)),
    "copy flip": (lambda x: x.copy_(x.flip(0)), lambda: ramp(6)),
    "roll add_": (lambda x: x.add_(x.roll(1, 0)), lambda: ramp(6, 3)),
    "cummax": (lambda x: (x.cummax(0), x.logcumsumexp(1)), lambda: randn(3, 4)),
    "diff etc": (lambda x: (x.diff(), torch.trapezoid(x), torch.cov(x), x.median(1)), lambda: randn(3, 5)),
    "meshgrid": (lambda t: torch.meshgrid(*t, indexing="xy"), lambda: (ramp(3), ramp(2))),
    "tile repeat_interleave": (lambda x: (x.tile(2, 2), x.repeat_interleave(2, 0)), lambda: randn(2, 3)),
    "movedim": (
        lambda x: (x.movedim(0, -1) * 2, x.swapaxes(0, 1) + 1, x.unflatten(1, (3, 1)), x.flatten(0, 1) + 1),
        lambda: randn(2, 3, 4),
    ),
    "select_scatter": (
        lambda t: (torch.select_scatter(t[0], t[1], 0, 1), torch.slice_scatter(t[0], t[0][:1], 0, 2, 3)),
        lambda: (randn(3, 4), randn(4)),
    ),
    "take": (
        lambda t: (
            torch.take(t[0], t[1]),
            torch.take_along_dim(t[0], t[1].view(1, -1), 1),
            t[0].index_select(1, t[1]),
        ),
        lambda: (randn(3, 4), torch.tensor([3, 0])),
    ),
    "masked_scatter": (lambda t: t[0].masked_scatter(t[0] > 0, t[1]), lambda: (randn(9), randn(9))),
    "scatter reduce": (
        lambda t: (
            t[0].scatter_reduce(0, t[1], t[2], "amax"),
            t[0].scatter_reduce(0, t[1], t[2], "mean", include_self=False),
        ),
        lambda: (torch.zeros(3), torch.tensor([0, 1, 1, 2]), randn(4)),
    ),
}
