"""Products, convolutions, pools, norms and losses at their edges.

As people have reported them of compilers: what is computed, and what it is given.
"""

from __future__ import annotations

from math import inf, nan

from torch_given import Case, F, ramp, randn, torch

PRODUCTS: dict[str, Case] = {
    "maxpool ceil": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), lambda: randn(1, 2, 8, 7)),
    "maxpool dil": (lambda x: F.max_pool2d(x, 2, 1, 0, dilation=2), lambda: randn(1, 2, 8, 7)),
    "maxpool -inf": (lambda x: F.max_pool2d(x, 3, 2, 1), lambda: torch.full((1, 1, 4, 4), -inf)),
    "maxpool nan": (lambda x: F.max_pool2d(x, 2), lambda: torch.tensor([[[[nan, 1.0], [2.0, 3.0]]]])),
    "maxpool indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), lambda: ramp(1, 1, 4, 4)),
    "maxpool ties idx": (lambda x: F.max_pool2d(x, 2, return_indices=True), lambda: torch.ones(1, 1, 4, 4)),
    "avgpool incl": (lambda x: F.avg_pool2d(x, 3, 2, 1), lambda: randn(1, 2, 7, 7)),
    "avgpool excl": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), lambda: randn(1, 2, 7, 7)),
    "avgpool ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), lambda: randn(1, 2, 8, 8)),
    "avgpool div": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), lambda: randn(1, 2, 8, 8)),
    "adaptive avg": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), lambda: randn(1, 2, 7, 5)),
    "adaptive max": (lambda x: F.adaptive_max_pool2d(x, (3, 2)), lambda: randn(1, 2, 7, 5)),
    "conv same": (
        lambda t: F.conv2d(t[0], t[1], padding="same"),
        lambda: (randn(1, 2, 6, 6), randn(3, 2, 4, 3)),
    ),
    "conv transposed": (
        lambda t: F.conv_transpose2d(t[0], t[1], stride=2, padding=1, output_padding=1),
        lambda: (randn(1, 2, 4, 4), randn(2, 3, 3, 3)),
    ),
    "conv empty batch": (lambda t: F.conv2d(t[0], t[1]), lambda: (randn(0, 2, 4, 4), randn(3, 2, 3, 3))),
    "norms": (
        lambda x: (x.norm(), x.norm(1, dim=1), torch.linalg.vector_norm(x, inf, dim=0)),
        lambda: randn(3, 4),
    ),
    "logsumexp": (
        lambda x: (torch.logsumexp(x, 1), F.log_softmax(x, 0)),
        lambda: torch.tensor([[10000.0, -10000.0], [-inf, -inf], [0.0, inf]]),
    ),
    "softmax int dt": (lambda x: torch.softmax(x, 0, dtype=torch.float64), lambda: randn(4)),
    "zero width": (lambda x: (x + 1, x @ x.T, x.sum(1)), lambda: randn(3, 0)),
    "embedding pad": (
        lambda t: F.embedding(t[1], t[0], padding_idx=0),
        lambda: (randn(5, 3), torch.tensor([[0, 4], [2, 0]])),
    ),
    "unfold": (lambda x: F.unfold(x, 2), lambda: randn(1, 2, 4, 4)),
    "upsample nearest": (lambda x: F.interpolate(x, scale_factor=1.7), lambda: randn(1, 2, 5, 4)),
    "upsample bilinear": (
        lambda x: F.interpolate(x, size=(7, 9), mode="bilinear", align_corners=True),
        lambda: randn(1, 2, 5, 4),
    ),
    "pixel shuffle": (lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2)), lambda: randn(1, 4, 4, 4)),
    "einsum": (lambda t: torch.einsum("bij,bkj->bik", *t), lambda: (randn(2, 3, 4), randn(2, 5, 4))),
    "addmm beta": (
        lambda t: torch.addmm(t[0], t[1], t[2], beta=0.5, alpha=2),
        lambda: (randn(5), randn(3, 4), randn(4, 5)),
    ),
    "addmm beta0 nan": (
        lambda t: torch.addmm(t[0], t[1], t[2], beta=0),
        lambda: (torch.full((5,), nan), randn(3, 4), randn(4, 5)),
    ),
    "baddbmm": (
        lambda t: torch.baddbmm(*t, beta=0.3),
        lambda: (randn(2, 3, 5), randn(2, 3, 4), randn(2, 4, 5)),
    ),
    "int matmul": (
        lambda t: t[0] @ t[1],
        lambda: (ramp(3, 4, dtype=torch.int32), ramp(4, 5, dtype=torch.int32)),
    ),
    "bf16 matmul": (lambda t: t[0] @ t[1], lambda: (randn(3, 40).bfloat16(), randn(40, 5).bfloat16())),
    "sdpa causal": (
        lambda t: F.scaled_dot_product_attention(*t, is_causal=True),
        lambda: (randn(1, 2, 5, 4),) * 3,
    ),
    "sdpa of large bf16 scores": (
        lambda t: F.scaled_dot_product_attention(*t),
        lambda: (*(6 * randn(2, 1, 2, 9, 16).bfloat16()), torch.rand(1, 2, 9, 16).bfloat16()),
    ),
    "sdpa mask": (
        lambda t: F.scaled_dot_product_attention(t[0], t[0], t[0], attn_mask=t[1]),
        lambda: (randn(1, 2, 5, 4), torch.rand(5, 5) > 0.3),
    ),
    "sdpa all masked": (
        lambda t: F.scaled_dot_product_attention(t[0], t[0], t[0], attn_mask=t[1]),
        lambda: (randn(1, 2, 5, 4), torch.zeros(5, 5) > 0),
    ),
    "layer norm": (lambda x: F.layer_norm(x, (4,), eps=0.001), lambda: randn(3, 4) * 10000.0),
    "layer norm const": (lambda x: F.layer_norm(x, (4,)), lambda: torch.full((3, 4), 10000.0)),
    "group norm": (lambda x: F.group_norm(x, 2), lambda: randn(2, 4, 3)),
    "instance norm": (F.instance_norm, lambda: randn(2, 4, 3)),
    "bce": (lambda t: F.binary_cross_entropy_with_logits(t[0], t[1]), lambda: (randn(5) * 50, torch.rand(5))),
    "ce ignore": (
        lambda t: F.cross_entropy(t[0], t[1], ignore_index=1, label_smoothing=0.1),
        lambda: (randn(4, 3), torch.tensor([0, 1, 2, 1])),
    ),
    "mse huber": (
        lambda t: (F.mse_loss(*t), F.huber_loss(*t), F.smooth_l1_loss(*t), F.kl_div(*t)),
        lambda: (randn(5), torch.rand(5)),
    ),
    "cosine": (lambda t: F.cosine_similarity(*t), lambda: (randn(3, 5), randn(3, 5))),
    "cdist": (lambda t: torch.cdist(*t), lambda: (randn(3, 5), randn(4, 5))),
    "outer": (lambda t: (torch.outer(*t), torch.dot(*t), torch.kron(*t)), lambda: (randn(3), randn(3))),
    "masked_fill": (
        lambda x: x.masked_fill(x > 0, -inf).softmax(-1),
        lambda: torch.tensor([[1.0, -1.0, 0.0], [-1.0, -2.0, -3.0]]),
    ),
    "deg conv kernel>img": (
        lambda t: F.conv2d(t[0], t[1], padding=2),
        lambda: (randn(1, 1, 2, 2), randn(1, 1, 5, 5)),
    ),
    "i8 bmm": (
        lambda t: t[0] @ t[1],
        lambda: (
            torch.full((1, 2, 300), 100, dtype=torch.int8),
            torch.full((1, 300, 2), 3, dtype=torch.int8),
        ),
    ),
    "u8 mm": (
        lambda t: t[0] @ t[1],
        lambda: (torch.full((2, 30), 200, dtype=torch.uint8), torch.full((30, 2), 3, dtype=torch.uint8)),
    ),
    "i32 mm sum": (
        lambda t: (t[0] @ t[1] + t[0] @ t[2]).sum(1),
        lambda: (
            torch.randint(-(2**31), 2**31 - 1, (2, 2)).to(torch.int32),
            torch.randint(-(2**31), 2**31 - 1, (2, 2)).to(torch.int32),
            torch.randint(-(2**31), 2**31 - 1, (2, 2)).to(torch.int32),
        ),
    ),
    "bn shrinking pad": (
        lambda t: F.linear(F.pad(F.batch_norm(t[0], t[1], t[2]).reshape(3, -1), (0, -10)), t[3]),
        lambda: (randn(3, 5, 2, 4), randn(5), randn(5).abs() + 0.5, randn(4, 30)),
    ),
    "softmax acosh nan": (
        lambda x: F.softmax(torch.arccosh(torch.log2(torch.atan2(x, x))), 0),
        lambda: torch.ones(2, 2),
    ),
    "t mm_": (lambda x: x.copy_(x @ x), lambda: randn(4, 4)),
    "softmax big": (
        lambda x: (F.softmax(x, 1), F.log_softmax(x, 1), F.softmin(x, 0)),
        lambda: randn(3, 5) * 10000.0,
    ),
    "logsumexp -inf": (lambda x: torch.logsumexp(x, 1), lambda: torch.full((2, 3), -inf)),
    "attn float mask": (
        lambda t: F.scaled_dot_product_attention(t[0], t[1], t[2], attn_mask=t[3], scale=0.3),
        lambda: (
            randn(2, 2, 5, 4),
            randn(2, 2, 7, 4),
            randn(2, 2, 7, 6),
            torch.zeros(5, 7).masked_fill(torch.ones(5, 7).triu(1) > 0, -inf),
        ),
    ),
    "attn gqa": (
        lambda t: F.scaled_dot_product_attention(*t, enable_gqa=True),
        lambda: (randn(1, 4, 5, 8), randn(1, 2, 5, 8), randn(1, 2, 5, 8)),
    ),
    "conv grouped 2": (
        lambda t: F.conv2d(t[0], t[1], t[2], stride=2, padding=1, groups=2),
        lambda: (randn(2, 4, 7, 7), randn(6, 2, 3, 3), randn(6)),
    ),
    "conv1d dil": (
        lambda t: F.conv1d(t[0], t[1], dilation=3, padding=2),
        lambda: (randn(2, 4, 12), randn(6, 4, 3)),
    ),
    "conv3d": (
        lambda t: F.conv3d(t[0], t[1], stride=(1, 2, 1), padding=(0, 1, 1)),
        lambda: (randn(1, 2, 4, 6, 5), randn(3, 2, 2, 3, 3)),
    ),
    "convT groups dil": (
        lambda t: F.conv_transpose2d(t[0], t[1], stride=2, groups=2, dilation=2),
        lambda: (randn(1, 4, 4, 4), randn(4, 3, 2, 3)),
    ),
    "conv unbatched": (lambda t: F.conv2d(t[0], t[1]), lambda: (randn(2, 5, 5), randn(3, 2, 3, 3))),
    "conv zero pad mode": (
        lambda t: F.conv2d(F.pad(t[0], (1, 1, 1, 1), mode="circular"), t[1]),
        lambda: (randn(1, 2, 5, 5), randn(3, 2, 3, 3)),
    ),
    "conv bf16": (
        lambda t: F.conv2d(t[0], t[1], padding=1).relu(),
        lambda: (randn(1, 8, 9, 9).bfloat16(), randn(4, 8, 3, 3).bfloat16()),
    ),
    "conv bias relu add": (
        lambda t: F.relu(F.conv2d(t[0], t[1], t[2], padding=1) + t[0]),
        lambda: (randn(1, 3, 5, 5), randn(3, 3, 3, 3), randn(3)),
    ),
    "conv f64": (
        lambda t: F.conv2d(t[0], t[1], padding=1),
        lambda: (randn(1, 3, 5, 5).double(), randn(3, 3, 3, 3).double()),
    ),
    "bn train": (
        lambda t: F.batch_norm(t[0], t[1], t[2], training=True, momentum=0.3),
        lambda: (randn(3, 4, 5, 5), torch.zeros(4), torch.ones(4)),
    ),
    "bn one value": (
        lambda t: F.batch_norm(t[0], t[1], t[2]),
        lambda: (randn(1, 4), torch.zeros(4), torch.ones(4)),
    ),
    "maxpool stride>k": (lambda x: F.max_pool2d(x, 2, 3), lambda: randn(1, 2, 8, 8)),
    "avgpool3d": (
        lambda x: F.avg_pool3d(x, 2, padding=1, count_include_pad=False),
        lambda: randn(1, 2, 4, 4, 4),
    ),
    "maxpool int": (lambda x: F.max_pool2d(x.double(), 2), lambda: ramp(1, 1, 4, 4, dtype=torch.int32)),
    "lppool": (lambda x: F.lp_pool2d(x, 2.0, 2), lambda: randn(1, 2, 4, 4).abs()),
    "adaptive 1": (
        lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (None, 2))),
        lambda: randn(2, 3, 5, 4),
    ),
    "interp linear 1d": (lambda x: F.interpolate(x, scale_factor=2.3, mode="linear"), lambda: randn(1, 2, 5)),
    "interp trilinear": (
        lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"),
        lambda: randn(1, 1, 2, 3, 2),
    ),
    "embedding_bag": (
        lambda t: F.embedding_bag(t[1], t[0], mode="mean"),
        lambda: (randn(5, 3), torch.tensor([[0, 4], [2, 0]])),
    ),
    "layer norm no affine 2d": (lambda x: F.layer_norm(x, (3, 4)), lambda: randn(2, 3, 4)),
    "rms_norm": (lambda t: F.rms_norm(t[0], (8,), t[1]), lambda: (randn(2, 8), randn(8))),
    "local response": (lambda x: F.local_response_norm(x, 3), lambda: randn(1, 5, 3, 3)),
    "normalize zero": (lambda x: (F.normalize(x, dim=1), F.normalize(x, p=1)), lambda: torch.zeros(2, 3)),
    "pairwise": (
        lambda t: (F.pairwise_distance(*t), torch.linalg.norm(t[0]), torch.linalg.matrix_norm(t[0], 1)),
        lambda: (randn(3, 4), randn(3, 4)),
    ),
    "addbmm addmv": (
        lambda t: (
            torch.addbmm(t[0], t[1], t[2], alpha=0.5),
            torch.addmv(t[0][0], t[2][0].t().contiguous(), t[1][0, 0], beta=2),
            torch.addr(t[0], t[1][0, 0][:3], t[0][0]),
        ),
        lambda: (randn(3, 5), randn(2, 3, 4), randn(2, 4, 5)),
    ),
    "mv dot": (
        lambda t: (t[0] @ t[1], t[1] @ t[1], t[1] @ t[0].T, torch.vdot(t[1], t[1]), torch.inner(t[0], t[1])),
        lambda: (randn(3, 4), randn(4)),
    ),
    "matmul bcast": (lambda t: (t[0] @ t[1], t[0][0, 0] @ t[1]), lambda: (randn(2, 1, 3, 4), randn(5, 4, 2))),
    "bilinear": (lambda t: F.bilinear(*t), lambda: (randn(2, 3), randn(2, 4), randn(5, 3, 4))),
    "einsum odd": (
        lambda t: (
            torch.einsum("ii->i", t[0]),
            torch.einsum("ij,ij->", t[0], t[0]),
            torch.einsum("bi,ij,bj->b", t[0], t[0], t[0]),
        ),
        lambda: (randn(3, 3),),
    ),
    "tensordot": (
        lambda t: torch.tensordot(t[0], t[1], dims=([0, 2], [1, 0])),
        lambda: (randn(2, 3, 4), randn(4, 2)),
    ),
    "empty mm": (lambda t: (t[0] @ t[1], F.linear(t[0], t[1].T)), lambda: (randn(3, 0), randn(0, 4))),
    "zero batch linear": (lambda t: F.relu(F.linear(t[0], t[1])), lambda: (randn(0, 3), randn(4, 3))),
    "0d ops": (lambda x: (x * 2, x.sum(), x.softmax(0), x.exp().unsqueeze(0)), lambda: torch.tensor(1.5)),
    "size 1 dims": (lambda x: (x.sum((0, 2)), x.squeeze() * 2, x.softmax(0)), lambda: randn(1, 3, 1)),
}
