"""Pipelines of small random loops: the solver's interval is the least one that trying everything finds."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from conftest import EXAMPLES

from isamap.plan.steady import Dependence, LocalValue, Operation, Pipeline, Steady, check_pipeline
from isamap.scheduler.pipelines.modulo import find_pipeline, least_interval

# All 500 take a minute of a processor: ISAMAP_EXAMPLES=500 tries them, others the first 50.
INSTANCES = 500 if EXAMPLES >= 500 else 50
MOST = 8  # the longest interval that is tried


def random_steady(random: Random) -> Steady:
    """Return two to four operations on one or two units, waiting for each other within and across iterations."""
    count = random.randint(2, 4)
    units = tuple((name, random.choice((1, 1, 2))) for name in ("x", "y")[: random.randint(1, 2)])
    operations = tuple(
        Operation(f"o{i}", random.choice(units)[0], random.choice((1, 1, 2))) for i in range(count)
    )
    waits: list[Dependence] = []
    values: list[LocalValue] = []
    for source in range(count):
        users = [t for t in range(source + 1, count) if random.random() < 0.5]
        delay = random.randint(1, 3)
        waits += [Dependence(source, user, delay, 0) for user in users]
        if users and random.random() < 0.7:
            values.append(LocalValue(f"v{source}", "r", source, tuple(users)))
            waits += [Dependence(user, source, 0, 1) for user in users]
    for _ in range(random.randint(0, 2)):
        source, target = random.randrange(count), random.randrange(count)
        waits.append(Dependence(source, target, random.randint(0, 4), random.randint(1, 2)))
    return Steady(operations, tuple(waits), tuple(values), units, (("r", random.randint(1, 2)),), 1.0)


def exists(steady: Steady, interval: int) -> bool:
    """Return whether any starts serve, by trying all of them, as far as each prefix is free of conflicts."""
    limit = max(3 * interval, 13)

    def fits(starts: list[int]) -> bool:
        known = range(len(starts))
        part = replace(
            steady,
            operations=steady.operations[: len(starts)],
            dependences=tuple(w for w in steady.dependences if w.source in known and w.target in known),
            values=tuple(
                replace(v, users=tuple(u for u in v.users if u in known))
                for v in steady.values
                if v.definer in known
            ),
        )
        return not any(check_pipeline(part, Pipeline(interval, tuple(starts))))

    def extend(starts: list[int]) -> bool:
        if len(starts) == len(steady.operations):
            return True
        return any(fits([*starts, t]) and extend([*starts, t]) for t in range(limit))

    return extend([])


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("seed", range(0, INSTANCES, 10))
def test_the_least_interval_is_that_of_trying_everything(seed: int) -> None:
    for number in range(seed, seed + 10):
        steady = random_steady(Random(number))
        found = find_pipeline(steady, 20.0)
        least = next((i for i in range(1, MOST + 1) if exists(steady, i)), None)
        if least is None:
            assert found is None or found.pipeline.interval > MOST, f"instance {number}"
            continue
        assert found is not None, f"instance {number}"
        assert found.pipeline.interval == least == found.interval_bound, f"instance {number}"
        assert not list(check_pipeline(steady, found.pipeline)), f"instance {number}"
        assert least_interval(steady) <= least, f"instance {number}"
        assert found.lifetime_bound <= found.lifetime
