"""No name of a kernel matters: the instructions' names for operands and axes mean nothing in it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from isamap.driver.matching import match_parsed
from isamap.ir import DTYPES, Kernel, Loop, bind, print_expr
from isamap.machine import Machine, load_machine
from isamap.source import Source
from isamap.syntax import parse_kernel

_KERNELS = Path(__file__).resolve().parents[2] / "kernels"


def _names(kernel: Kernel) -> list[str]:
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    return [*dict.fromkeys([*(o.name for o in kernel.operands), *(a.name for s in loops for a in s.axes)])]


def _taken(machine: Machine) -> list[str]:
    """Return what the instructions of a machine call their operands and axes."""
    found: dict[str, None] = {}
    for entry in machine.instructions.values():
        routine = entry.instruction
        found |= dict.fromkeys(o.name for o in routine.operands)
        found |= dict.fromkeys(a.name for s in routine.body if isinstance(s, Loop) for a in s.axes)
    return list(found)


def _found(text: str, new: dict[str, str], machine: Machine) -> list[str]:
    """Return all mappings of a kernel that is renamed, under the names that it had."""
    kernel = parse_kernel(Source("k.ir", re.sub(r"\w+", lambda w: new.get(w[0], w[0]), text)))
    old = {after: before for before, after in new.items()}
    sizes = {p.name: 32 for p in kernel.params if p.dtype is None}
    matched = match_parsed(bind(kernel, sizes), machine, sizes)

    def words(told: str) -> list[str]:
        """Return a text's words: in sums and products their order depends on the names."""
        return sorted(old.get(w[0], w[0]) for w in re.finditer(r"\w+", told))

    return sorted(
        str(
            (
                m.instruction,
                m.statement,
                m.kind,
                matched.look.at(m).proof.status,
                [(b.name, words(print_expr(b.subject))) for b in m.bindings],
                [(g.instruction_axes, words(" ".join(g.kernel_axes))) for g in m.groups],
            )
        )
        for m in matched.mappings
    )


@pytest.mark.parametrize(
    ("kernel_name", "machine_name"),
    [
        ("gemm_s8s8", "gemmini"),
        ("gemm_s8s8_requant", "generic-c"),
        ("conv1d", "generic-c"),
        ("softmax_f32", "generic-c"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_kernel_that_takes_the_names_of_instructions_has_the_same_mappings(
    kernel_name: str, machine_name: str, seed: int
) -> None:
    text = (_KERNELS / f"{kernel_name}.ir").read_text(encoding="utf-8")
    machine = load_machine(machine_name)
    names = _names(parse_kernel(Source("k.ir", text)))
    own = {*re.findall(r"\w+", text)}
    taken = [n for n in _taken(machine) if n not in own and n not in DTYPES]
    fresh = {n: f"unlike_{n}" for n in names}
    drawn = random.Random(seed).sample([*taken, *names], len(names))
    expected = _found(text, fresh, machine)
    assert expected
    assert _found(text, dict(zip(names, drawn, strict=True)), machine) == expected
