"""Rows for torch's attention, its gradients, and the layers with attention that torch has as one operation.

softmax(q @ k.T * scale) @ v      MatMul, Softmax, MatMul
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from isamap.graph.terms import NotTaken, wide_type
from isamap.torch.calls import OWN, AtenCall, Row, decompose_by, name_rows, type_of


def _attention(c: AtenCall) -> tuple[str, ...]:
    """Return scaled products of queries and keys, their softmax, and its product with values.

    The second result are the logarithms of the sums of each softmax. The weights of the values are rounded.
    """
    result, c.dtype = c.dtype, wide_type(c.dtype)
    scores, shared, none = _scores(c, result)
    sums = c.reduced("ReduceLogSumExp", scores, [len(c.shape) - 1]) if c.wants(1) else ""
    powers = c.shaped(c.cast(c("Softmax", scores, axis=-1), c.dtype, result), *shared, -1)
    c.dtype = result
    found = c.shaped(c("MatMul", powers, c.term(c["value"])), *c.shape)
    return c.where(none, c.number(0), found) if none else found, sums


def _scores(c: AtenCall, result: str) -> tuple[str, tuple[int, ...], str]:
    """Return the masked scores of attention, their sizes without the last, and where all keys are masked or "".

    Heads of queries that share a key are rows of one product. Scores of narrow floats are in f32, as in torch.
    """
    query, key = (tuple(c[name].meta["val"].shape) for name in ("query", "key"))
    if c["dropout_p"]:
        raise NotTaken("dropout")
    batch, (rows, width), columns = query[:-2], query[-2:], key[-2]
    scale = 1 / math.sqrt(width) if c["scale"] is None else c["scale"]
    shared = (*key[:-2], prod(query[:-1]) // max(prod(key[:-2]), 1))
    keys = _transpose(c, c.term(c["key"], result), len(query))
    if result == c.dtype:
        queries = c.shaped(c.scaled(c.term(c["query"]), scale), *shared, width)
        scores = c("MatMul", queries, keys)
    else:  # a scaled query would be rounded
        queries = c.shaped(c.term(c["query"], result), *shared, width)
        scores = c.scaled(c("SumMatMul", queries, keys, domain=OWN), scale)
    scores = c.shaped(scores, *batch, rows, columns)
    mask, none = c.given.get("attn_mask", c.given.get("attn_bias")), ""
    if c["is_causal"]:
        scores = c.where(c.numbers(np.tri(rows, columns), "bool"), scores, c.number(-math.inf))
    if mask is not None:  # a query whose keys are all masked gives zeros
        is_truth, last = type_of(mask) == "bool", len(mask.meta["val"].shape) - 1
        kept = c.reduced("ReduceMax", c.term(mask, "f32" if is_truth else result), [last], keeps=True)
        none = c("Equal", kept, c.number(0, "f32") if is_truth else c.number(-math.inf, result))
        scores = (
            c.where(c.term(mask, "bool"), scores, c.number(-math.inf))
            if is_truth
            else c("Add", scores, c.term(mask))
        )
    return scores, shared, none


def _transpose(c: AtenCall, name: str, rank: int) -> str:
    """Return a value with its last two axes exchanged."""
    return c("Transpose", name, perm=(*range(rank - 2), rank - 1, rank - 2))


def _attention_gradients(c: AtenCall) -> tuple[str, ...]:
    """Return the gradients of attention: the weights of the values are computed again from their sums' logarithms.

    Source: Dao et al. 2022 (FlashAttention), appendix B.
    """
    result, c.dtype = c.dtype, wide_type(c.dtype)
    scores, shared, none = _scores(c, result)
    query, key, value = (tuple(c[name].meta["val"].shape) for name in ("query", "key", "value"))
    rank, scale = len(query), 1 / math.sqrt(query[-1]) if c["scale"] is None else c["scale"]
    powers = c("Exp", c("Sub", scores, c.shaped(c.term(c["logsumexp"]), *query[:-1], 1)))
    powers = c.where(none, c.number(0), powers) if none else powers
    share = c.reduced("ReduceSum", c("Mul", c.term(c["grad_out"]), c.term(c["out"])), [rank - 1], keeps=True)
    grads = c.shaped(c.term(c["grad_out"], result), *shared, value[-1])
    of_powers = c("SumMatMul", grads, _transpose(c, c.term(c["value"], result), rank), domain=OWN)
    of_powers = c.shaped(of_powers, *query[:-1], key[-2])
    of_scores = c.scaled(c("Mul", powers, c("Sub", of_powers, share)), scale)
    powers, of_scores = (c.shaped(c.cast(x, c.dtype, result), *shared, key[-2]) for x in (powers, of_scores))
    c.dtype = result
    queries = c.shaped(c.term(c["query"]), *shared, query[-1])
    return (
        c.shaped(c("MatMul", of_scores, c.term(c["key"])), *query),
        c("MatMul", _transpose(c, of_scores, rank), queries),
        c("MatMul", _transpose(c, powers, rank), grads),
    )


def _encoder_layer(c: AtenCall) -> str | tuple[str, ...]:
    """Return a layer of an encoder: attention and two products, each with a norm before or behind it.

    torch has it as one operation where no gradient is needed. A mask is of keys by batch (type 1)
    or of keys by query.
    """
    torch: Any = import_module("torch")
    function: Any = torch.nn.functional

    def layer(
        x: Any, width: int, heads: int, w: Any, b: Any, p: Any, q: Any, is_gelu: bool, is_first: bool,
        eps: float, g: Any, h: Any, k: Any, m: Any, u: Any, v: Any, s: Any, t: Any,
        mask: Any = None, mask_type: int | None = None,
    ) -> Any:  # fmt: skip
        def attend(x: Any) -> Any:
            parts = function.linear(x, w, b).unflatten(-1, (3, heads, width // heads)).permute(2, 0, 3, 1, 4)
            scores = (parts[0] * (width // heads) ** -0.5) @ parts[1].mT
            if mask is not None:
                masked = mask.to(torch.bool)
                scores = scores.masked_fill(masked[:, None, None] if mask_type == 1 else masked, -math.inf)
            return function.linear((scores.softmax(-1) @ parts[2]).transpose(1, 2).flatten(2), p, q)

        def forward(x: Any) -> Any:
            y = function.linear(x, u, v)
            return function.linear(function.gelu(y) if is_gelu else y.relu(), s, t)

        for part, weight, bias in (attend, g, h), (forward, k, m):
            norm = partial(function.layer_norm, normalized_shape=(width,), weight=weight, bias=bias, eps=eps)
            x = x + part(norm(x)) if is_first else norm(x + part(x))
        return x

    return decompose_by(c, layer)


ATTENTION: Mapping[str, Row] = name_rows(
    (_attention, "_scaled_dot_product_flash_attention_for_cpu"),
    (_attention_gradients, "_scaled_dot_product_flash_attention_for_cpu_backward"),
    (_encoder_layer, "_transformer_encoder_layer_fwd"),
)
