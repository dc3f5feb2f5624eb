"""A fix that is said to keep the result keeps it: both kernels, interpreted on small whole numbers, agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from refusing import kernel

from isamap.ir import Kernel, bind, interpret
from isamap.source import UsageProblem

FOLDER = Path(__file__).resolve().parents[1] / "errors" / "refusals"
FIXED = "=== fixed, {} result\n"
FILES = sorted(FOLDER.glob("*.txt"))


def kernels(path: Path, result: str) -> tuple[Kernel, Kernel] | None:
    """Return the kernel of a refusal before and after its fix."""
    text = path.read_text(encoding="utf-8")
    _, found, rest = text.partition(FIXED.format(result))
    if not found:
        return None
    return kernel(text.partition("=== instruction")[0]), kernel(rest.partition("=== performs")[0])


def files(result: str) -> list[Path]:
    return [p for p in FILES if FIXED.format(result) in p.read_text(encoding="utf-8")]


def agree(path: Path, result: str) -> bool:
    """Return whether both kernels compute the same on small whole numbers, which all of their types hold exactly."""
    pair = kernels(path, result)
    assert pair is not None
    sizes = next(allowed(*pair))
    chance = np.random.default_rng(7)
    arrays: dict[str, NDArray[Any]] = {}
    for o in bind(pair[0], sizes).operands:
        if o.role in ("in", "inout"):
            shape = tuple(int(e.value or 0) for e in o.shape)
            low, high = (0, 2) if o.dtype.kind == "bool" else (0 if o.dtype.kind == "uint" else -3, 4)
            values = chance.integers(low, high, shape)
            arrays[o.name] = values.astype(o.dtype.numpy())
    scalars = {p.name: 2.0 for p in pair[0].params if p.dtype is not None}
    results: list[dict[str, NDArray[Any]]] = []
    for routine in pair:
        own = {o.name: o.dtype.numpy() for o in routine.operands}
        given = {name: a.astype(own[name]) for name, a in arrays.items()}
        with np.errstate(invalid="ignore"):
            results.append(interpret(routine, given, sizes, scalars))
    before, after = ({n: a.astype(np.float64) for n, a in r.items()} for r in results)
    return all(np.allclose(before[name], after[name], rtol=2**-7, equal_nan=True) for name in before)


def allowed(*routines: Kernel) -> Iterator[dict[str, int]]:
    """Sizes that all kernels allow."""
    names = [p.name for p in routines[0].params if p.dtype is None]
    for default in (16, 5, 4, 2, 1):
        for least in (default, 1):
            sizes = {n: least if n.islower() else default for n in names}
            try:
                for routine in routines:
                    bind(routine, sizes)
            except UsageProblem:
                continue
            yield sizes


@pytest.mark.parametrize("path", files("the same"), ids=lambda p: p.stem)
def test_a_fix_that_keeps_the_result_computes_the_same(path: Path) -> None:
    assert agree(path, "the same")


# Saturating, wrapping and roundings agree on small numbers without a fraction.
@pytest.mark.parametrize(
    "path", [p for p in files("another") if "mode-differs" not in p.stem], ids=lambda p: p.stem
)
def test_a_fix_that_gives_another_result_is_not_said_to_keep_it(path: Path) -> None:
    assert not agree(path, "another")


def test_there_are_fixes_of_both_kinds() -> None:
    assert len(files("the same")) >= 20
    assert len(files("another")) >= 6
