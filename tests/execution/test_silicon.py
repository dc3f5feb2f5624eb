"""Every shipped instruction, compiled as described, run on this processor and compared with its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from isamap.codegen.silicon import Check, check_machine
from isamap.machine import (
    EmitCall,
    Machine,
    MachineInstruction,
    list_machines,
    load_machine,
    missing_features,
)

MACHINES = [load_machine(name) for name in list_machines()]


def own_instructions(machine: Machine) -> list[str]:
    """Those that the machine does not inherit as they are: the others are tried on their own machine."""
    inherited = (
        load_machine(machine.chain[1]).instructions if machine.chain[1:] else dict[str, MachineInstruction]()
    )
    return [n for n, e in machine.instructions.items() if n not in inherited or inherited[n] != e]


OWN = [(machine.name, name) for machine in MACHINES for name in own_instructions(machine)]
# What runs under an emulator is tried in test_instruction_sets.py.
NATIVE = [(machine, name) for machine, name in OWN if load_machine(machine).target.run != "emulator"]


@cache
def checks(machine_name: str, model: bool) -> Mapping[str, Check]:
    machine = load_machine(machine_name)
    found = check_machine(machine, own_instructions(machine), model=model)
    return {check.instruction: check for check in found}


@pytest.mark.silicon
@pytest.mark.parametrize(("machine_name", "name"), NATIVE, ids=[f"{m}-{n}" for m, n in NATIVE])
def test_an_instruction_does_what_its_description_says(machine_name: str, name: str) -> None:
    missing = missing_features(load_machine(machine_name))
    if missing:
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    check = checks(machine_name, model=False)[name]
    if check.verdict == "skipped":
        pytest.skip(check.message)
    assert check.verdict == "ok", check.message


@pytest.mark.parametrize(("machine_name", "name"), OWN, ids=[f"{m}-{n}" for m, n in OWN])
def test_the_plain_c_model_of_an_instruction_does_what_its_description_says(
    machine_name: str, name: str
) -> None:
    check = checks(machine_name, model=True)[name]
    if check.verdict == "skipped":
        pytest.skip(check.message)
    assert check.verdict == "ok", check.message


# --- the check finds what is wrong ------------------------------------------------------------------------


def with_function(machine: Machine, name: str, function: str) -> Machine:
    """The machine with another intrinsic in the emission of one instruction."""
    entry = machine.instructions[name]
    assert isinstance(entry.emit, EmitCall)
    wrong = replace(entry, emit=replace(entry.emit, function=function))
    return replace(machine, instructions={**machine.instructions, name: wrong})


@pytest.mark.silicon
@pytest.mark.parametrize(
    ("name", "function", "verdict", "said"),
    [
        ("add_ymm_f32", "_mm256_sub_ps", "wrong", "its semantics say"),
        ("fma_ymm_f32", "_mm256_fmsub_ps", "wrong", "its semantics say"),
        ("load_xmm_f32", "_mm_load_ps", "crashed", "touched memory"),
    ],
)
def test_a_wrong_description_is_found_on_its_own_line(
    name: str, function: str, verdict: str, said: str
) -> None:
    machine = load_machine("x86-avx2")
    if missing_features(machine):
        pytest.skip(f"this computer lacks {', '.join(missing_features(machine))}")
    wrong = with_function(machine, name, function)
    found = {c.instruction: c for c in check_machine(wrong, (name, "sub_ymm_f32", "store_xmm_f32"))}
    assert {n: c.verdict for n, c in found.items() if n != name} == {
        "sub_ymm_f32": "ok",
        "store_xmm_f32": "ok",
    }
    assert found[name].verdict == verdict
    assert said in found[name].message
    assert found[name].diagnostic(wrong).span == machine.instructions[name].span
