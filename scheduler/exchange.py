"""A Problem and its fixed decisions as JSON, for the pipe to a child; answers go back as schedule text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from isamap.plan.problem import Cache, NestOption, NestProblem, Problem, TileAxis, TileOperand

Json = Any  # what json.loads gives: checked by the constructors' use, as both ends are this file


def write_job(problem: Problem, limit_s: float, fixed: Mapping[str, int]) -> str:
    """One job as JSON."""
    return json.dumps({"problem": asdict(problem), "limit_s": limit_s, "fixed": dict(fixed)})


def read_job(text: str) -> tuple[Problem, float, dict[str, int]]:
    """The job that `write_job` wrote."""
    job: Json = json.loads(text)
    return _problem(job["problem"]), float(job["limit_s"]), dict(job["fixed"])


def _problem(data: Json) -> Problem:
    return Problem(
        data["kernel"],
        data["machine"],
        _tuples(data["sizes"]),
        tuple(
            NestProblem(nest["statement"], tuple(_option(option) for option in nest["options"]))
            for nest in data["nests"]
        ),
        _tuples(data["registers"]),
        tuple(Cache(**cache) for cache in data["caches"]),
        data["memory_bandwidth_bytes_per_ns"],
    )


def _option(data: Json) -> NestOption:
    return NestOption(
        data["mapping"],
        _tuples(data["choose"]),
        tuple(TileAxis(**axis) for axis in data["axes"]),
        tuple(TileOperand(**{name: _tuples(value) for name, value in o.items()}) for o in data["operands"]),
        data["interval_ns"],
        data["latency_ns"],
    )


def _tuples(value: Json) -> Json:
    """The same with tuples for lists."""
    if not isinstance(value, list):
        return value
    return tuple(_tuples(item) for item in cast("list[Json]", value))
