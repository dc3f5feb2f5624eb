"""Profiles that are shipped for families of processors: what they fit, and when they are used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from isamap.driver import inputs
from isamap.driver.inputs import find_profile, with_profile
from isamap.hw_specs import FOLDER, machine_path
from isamap.machine import cost_params, cost_value, load_machine, processor
from isamap.source import UsageProblem
from isamap.tune import store
from isamap.tune.store import check_names, family_profile, keep_profile

FAMILIES = sorted(path.stem for path in (FOLDER / "profiles").glob("*.json"))


@pytest.fixture(autouse=True)
def nothing_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv(inputs.ENVIRONMENT)
    vars(inputs)["_apply_profile"].cache_clear()  # tests before may have asked for the processor that is here


def run_on(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another stepping of the family, with another microcode and fewer features."""
    measured = family_profile(family)
    assert measured is not None
    here = replace(measured.cpu, microcode="another", features=())
    for module in (processor, store, inputs):
        monkeypatch.setattr(module, "this_cpu", lambda: here)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_shipped_profile_is_called_by_its_processor_and_fits_its_machine(family: str) -> None:
    profile = family_profile(family)
    assert profile is not None
    assert profile.cpu.family == family
    check_names(profile, load_machine(profile.machine))


@pytest.mark.parametrize("family", FAMILIES)
def test_it_has_the_memories_that_products_of_few_rows_depend_on(family: str) -> None:
    """With instructions alone, such products chose weights in place and took up to 1.9 times as long."""
    profile = family_profile(family)
    assert profile is not None
    behind = [c.memory for c in profile.caches]
    assert {b.memory for b in profile.bandwidths} == {*behind, "mem"}
    assert {r.memory for r in profile.rows} == {*behind[1:], "mem"}
    # Eight rows of AVX2 compute longer than their weights take to come, so that calibration measures no streams.
    assert (profile.streams is None) == (family == "AuthenticAMD-25-1")


@pytest.mark.parametrize("family", FAMILIES)
def test_it_serves_the_machine_it_was_measured_of_and_those_that_this_one_extends(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_on(family, monkeypatch)
    profile = family_profile(family)
    assert profile is not None
    for name in load_machine(profile.machine).chain:
        assert find_profile("default", name) is profile
        machine = with_profile(load_machine(name), profile)
        assert machine.figures == f"shipped for {family}"
        for last in profile.caches[-1:]:
            assert machine.memories[last.memory].capacity_bytes == last.size_bytes
    assert find_profile("default", "systolic-16") is None
    assert find_profile("none", profile.machine) is None


def test_a_vector_of_512_bits_takes_twice_as_long_where_data_paths_have_256(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_on("AuthenticAMD-25-17", monkeypatch)
    machine = with_profile(load_machine("x86-avx512"), find_profile("default", "x86-avx512"))
    for name in ("fma", "load", "store"):
        items = [machine.instructions[f"{name}_{file}_f32"] for file in ("zmm", "ymm")]
        wide, narrow = (cost_value(i.cost.interval_ns, cost_params(i, machine, {})) for i in items)
        assert 1.8 < wide / narrow < 2.2, (name, wide, narrow)


def test_registers_that_were_not_filled_load_no_faster_than_is_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_on("GenuineIntel-6-207", monkeypatch)
    stated = load_machine("x86-avx2")
    measured = with_profile(stated, find_profile("default", "x86-avx2"))
    loads = [
        (old, new)
        for old, new in zip(stated.links, measured.links, strict=True)
        if stated.memories[old.target_memory].kind == "registers"
    ]
    assert loads
    assert all(new.bandwidth_bytes_per_ns <= old.bandwidth_bytes_per_ns for old, new in loads)


def test_what_was_measured_here_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    here = processor.this_cpu()
    shipped_one = family_profile(FAMILIES[0])
    assert shipped_one is not None
    machine = load_machine("x86-avx2")
    names = {**machine.instructions, **machine.hints}
    own = replace(
        shipped_one,
        machine=machine.name,
        machine_digest=machine.digest,
        cpu=here,
        instructions=tuple(f for f in shipped_one.instructions if f.instruction in names),
        bandwidths=(),
    )
    keep_profile(own)
    assert find_profile("default", "x86-avx2") == own
    assert with_profile(machine, own).figures == "measured on this processor"
    monkeypatch.setenv(inputs.ENVIRONMENT, "none")
    assert find_profile("default", "x86-avx2") is None


def test_a_description_of_ones_own_keeps_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_on("GenuineIntel-6-207", monkeypatch)
    path = tmp_path / "mine.yaml"
    path.write_text("isamap: 1\nname: mine\nextends: x86-avx2\nsummary: mine\n", encoding="utf-8")
    assert find_profile("default", str(path)) is None
    assert find_profile("default", str(machine_path("x86-avx2"))) is None


def test_the_variable_may_name_a_file_that_is_refused_like_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(inputs.ENVIRONMENT, str(tmp_path / "none.json"))
    with pytest.raises(UsageProblem, match="cannot be read"):
        find_profile("default", "x86-avx2")
