"""How large the terms behind a value are: what rounding errors are measured against.

The magnitude of a value is the sum of the absolute values of what was added up to get it. For
`C[m, n] += A[m, k] * B[k, n]` it is |C[m, n]| + Σ |A[m, k]|·|B[k, n]|: a computation whose operations have
relative error u, in any order, is off by a small multiple of u times this.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np

from isamap.ir.evaluate import Env, Loader, evaluate_expr
from isamap.ir.nodes import Call, Cast, Const, Expr, IndexValue, Read, Scalar
from isamap.ir.rounding import Array


def evaluate_magnitude(e: Expr, env: Env, load_magnitude: Loader) -> Array:
    """The magnitudes of an expression at all points, float64, never below finite absolute values.

    `env` gives the values and `load_magnitude` the magnitudes of what is read. Elementwise functions pass an
    error on by the size of their derivative, to first order.
    """
    match e:
        case Const() | IndexValue() | Scalar():
            found = np.abs(evaluate_expr(e, env).astype(np.float64))
            # Nothing rounds an infinity: a maximum that begins with one is as exact as what it is taken of.
            return np.where(np.isinf(found), 0.0, found)
        case Read():
            return load_magnitude(e).astype(np.float64, copy=False)
        case Cast(value, dtype, _, _):
            if dtype.is_float:
                return evaluate_magnitude(value, env, load_magnitude)
            return np.abs(evaluate_expr(e, env).astype(np.float64))
        case Call(_, args, dtype, _, _):
            if not dtype.is_float:
                return np.abs(evaluate_expr(e, env).astype(np.float64))
            return _call(e, [evaluate_magnitude(a, env, load_magnitude) for a in args], env)
        case _:
            assert_never(e)


def _call(e: Call, args: list[Array], env: Env) -> Array:
    match e.op, args:
        case "add" | "sub", [a, b]:
            return a + b
        case "mul", [a, b]:
            # Two bounds: products of terms, and errors passed on by the other factor's value. The first is
            # the smaller one for what is read, the second for what was computed, step after step.
            x, y = (np.abs(_value(arg, env)) for arg in e.args)
            return np.minimum(a * b, x * b + a * y)
        case "fma", [a, b, c]:
            return a * b + c
        case "min" | "max", [a, b]:
            return np.maximum(a, b)
        case "select", [_, a, b]:
            return np.where(evaluate_expr(e.args[0], env), a, b)
        case "neg" | "abs", [a]:
            return a
        case "round", [a]:
            return np.maximum(a, np.abs(_value(e, env)))
        case "div", [a, b]:
            numerator, divisor = (np.abs(_value(x, env)) for x in e.args)
            return (a + numerator * (b / divisor)) / divisor
        case _, [a]:
            return _function(e, a, env)
        case _:
            raise AssertionError(e.op)


def _function(e: Call, a: Array, env: Env) -> Array:
    """|f(x)| plus the magnitude of x times |f'(x)|."""
    x, y = _value(e.args[0], env), np.abs(_value(e, env))
    match e.op:
        case "exp":
            slope = y
        case "log":
            slope = 1 / np.abs(x)
        case "sqrt":
            slope = 0.5 / np.maximum(y, np.finfo(np.float64).tiny)
        case "tanh" | "sigmoid" | "sin" | "cos":
            slope = np.ones(())
        case "erf":
            slope = np.full((), 2 / np.sqrt(np.pi))
        case _:
            raise AssertionError(e.op)
    return y + slope * a


def _value(e: Expr, env: Env) -> Array:
    return evaluate_expr(e, env).astype(np.float64)
