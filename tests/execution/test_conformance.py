"""Every shipped instruction, compiled as described, run on this processor and compared with its meaning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isamap.machine import (
    EmitCall,
    Machine,
    MachineInstruction,
    list_machines,
    load_machine,
    missing_features,
)
from isamap.run.conformance import check_machine


def own_instructions(machine: Machine) -> list[str]:
    """Return those that the machine does not inherit as they are: the others are tried on their own machine."""
    inherited = (
        load_machine(machine.chain[1]).instructions if machine.chain[1:] else dict[str, MachineInstruction]()
    )
    return [n for n, e in machine.instructions.items() if n not in inherited or inherited[n] != e]


def failures(machine: Machine, *, model: bool) -> list[str]:
    """Return the own instructions that do otherwise than their descriptions say, with how."""
    names = own_instructions(machine)
    found = {check.instruction: check for check in check_machine(machine, names, model=model)}
    assert found.keys() == {*names}
    # What has no operands has nothing to compare: it is tried with the instructions that use its effect.
    return [
        f"{name}: {check.message}" for name, check in found.items() if check.verdict not in ("ok", "skipped")
    ]


@pytest.mark.hardware
@pytest.mark.parametrize("name", list_machines())
def test_instructions_do_what_their_descriptions_say(name: str) -> None:
    machine = load_machine(name)
    if machine.target.run == "emulator":
        pytest.skip("test_instruction_sets.py tries what runs under an emulator")
    missing = missing_features(machine)
    if missing:
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    assert failures(machine, model=False) == []


@pytest.mark.exhaustive(fast=6)
@pytest.mark.parametrize("name", list_machines())
def test_the_plain_c_models_of_instructions_do_what_their_descriptions_say(name: str) -> None:
    assert failures(load_machine(name), model=True) == []


# --- the check finds what is wrong ------------------------------------------------------------------------


def with_function(machine: Machine, name: str, function: str) -> Machine:
    """Return the machine with another intrinsic in the emission of one instruction."""
    entry = machine.instructions[name]
    assert isinstance(entry.emit, EmitCall)
    wrong = replace(entry, emit=replace(entry.emit, function=function))
    return replace(machine, instructions={**machine.instructions, name: wrong})


@pytest.mark.hardware
@pytest.mark.parametrize(
    ("name", "function", "verdict", "said"),
    [
        ("add_ymm_f32", "_mm256_sub_ps", "wrong", "its semantics say"),
        ("fma_ymm_f32", "_mm256_fmsub_ps", "wrong", "its semantics say"),
        ("load_xmm_f32", "_mm_load_ps", "crashed", "accessed memory"),
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
