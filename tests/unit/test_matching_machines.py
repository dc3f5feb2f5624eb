"""The abstract machines that are shipped: one instruction that computes, and the counts of its mappings."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from unit.matching import shipped

from isamap.hw_specs import shipped_machines
from isamap.ir import Kernel, bind
from isamap.machine import detect_machine, load_machine
from isamap.machine.processor import shipped_headers
from isamap.match import CountMode, find_mappings
from isamap.transform import statements

MATMUL = "matmul-16x16x16"
MACHINES = (MATMUL, "matmul-8x32x16", "dot-16", "gemv-16", "vec-fma-16", "conv-unit-8")

Kinds = tuple[int, int, int]

WHOLE = (
    (MATMUL, "gemm_f32", 2, 1),
    (MATMUL, "gemm_nt_f32", 2, 1),
    (MATMUL, "bmm_f32", 2, 1),
    (MATMUL, "conv1d", 18, 9),
    (MATMUL, "conv2d_nchw", 98, 49),
    (MATMUL, "conv2d_nhwc", 98, 49),
    (MATMUL, "conv2d_grouped", 98, 49),
    (MATMUL, "conv2d_dilated", 98, 49),
    (MATMUL, "conv2d_transposed", 98, 49),
    (MATMUL, "pointwise", 14, 7),
    (MATMUL, "conv3d", 450, 225),
    (MATMUL, "depthwise_multiplier", 42, 21),
    (MATMUL, "three_gates", 6, 3),
    (MATMUL, "attention_scores", 2, 1),
    (MATMUL, "attention_scores_mqa", 6, 3),
    (MATMUL, "attention_context", 2, 1),
    ("matmul-8x32x16", "conv2d_nchw", 98, 49),
    ("dot-16", "gemm_f32", 1, 1),
    ("dot-16", "conv2d_nchw", 7, 7),
    ("gemv-16", "gemm_f32", 2, 1),
    ("gemv-16", "conv2d_nchw", 56, 7),
    ("vec-fma-16", "gemm_f32", 3, 3),
    ("vec-fma-16", "conv2d_nchw", 15, 15),
    ("conv-unit-8", "conv2d_nchw", 84, 84),
)


def computing(machine: str) -> list[str]:
    """Return the instructions of a machine that sum: those that the abstract machines are about."""
    return [
        name
        for name, item in load_machine(machine).instructions.items()
        if any(s.is_reduction for s in statements(item.instruction))
    ]


def of_sums(
    kernel: Kernel, machine: str, mode: CountMode = "complete", statement: int | None = None
) -> Kinds:
    """Return how many mappings of a kernel's sums, or of one of them, are whole, split and degenerate."""
    sums = [n for n, s in enumerate(statements(kernel)) if s.is_reduction and statement in (None, n)]
    found = find_mappings(kernel, load_machine(machine), mode)
    kinds = Counter(m.kind for m in found if m.statement in sums)
    return kinds["whole"], kinds["split"], kinds["degenerate"]


def both(name: str, machine: str, statement: int | None = None, **sizes: int) -> tuple[Kinds, Kinds]:
    """Return the counts in the modes complete and fixed."""
    kernel = bind(shipped(name), sizes) if sizes else shipped(name)
    return (
        of_sums(kernel, machine, "complete", statement),
        of_sums(kernel, machine, "fixed", statement),
    )


# --- the machines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MACHINES)
def test_an_abstract_machine_has_one_instruction_that_sums(name: str) -> None:
    assert len(computing(name)) == 1


@pytest.mark.parametrize("name", MACHINES)
def test_an_abstract_machine_runs_as_a_model_of_itself_and_says_so(name: str) -> None:
    machine = load_machine(name)
    assert machine.target.run == "model"
    assert {i.source for i in machine.instructions.values()} == {"abstract"}
    assert machine.sources["abstract"].startswith("no hardware")
    assert machine.summary.startswith("abstract; ")


def test_no_abstract_machine_is_taken_for_this_computer() -> None:
    assert detect_machine() in {
        name for name in shipped_machines() if load_machine(name).target.run == "native"
    }


def test_a_header_states_what_the_whole_machine_does() -> None:
    wrong: list[str] = []
    for name in shipped_machines():
        header, machine = shipped_headers()[name], load_machine(name)
        target = machine.target
        whole = (machine.summary, machine.chain, target.run, target.emulator)
        stated = (header.summary, header.chain, header.run, header.emulator)
        if whole != stated or header.needed != (*target.features, *target.permissions):
            wrong.append(name)
    assert wrong == []


# --- counts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("machine", "name", "complete", "fixed"), WHOLE)
def test_whole_mappings_onto_shipped_machines_are_counted(
    machine: str, name: str, complete: int, fixed: int
) -> None:
    found = both(name, machine)
    assert tuple(counts[0] for counts in found) == (complete, fixed)
    assert all(counts[2] == 0 for counts in found)


def test_a_depthwise_convolution_leaves_an_axis_of_a_matrix_product_empty() -> None:
    assert both("depthwise", MATMUL) == ((0, 0, 42), (0, 0, 21))


def test_the_stages_of_a_separable_convolution_are_counted_apart() -> None:
    assert both("depthwise_separable", MATMUL, 1) == ((0, 0, 42), (0, 0, 21))
    assert both("depthwise_separable", MATMUL, 2) == ((14, 0, 0), (7, 0, 0))


def test_a_class_of_two_axes_takes_one_set_of_axes_cut() -> None:
    assert both("gemm_f32", "conv-unit-8") == ((0, 2, 0), (0, 1, 0))


# --- a sum that is scattered ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "complete", "fixed"),
    [
        ({}, 42, 21),  # r and s may meet h and w: not on the two axes of one issue's output
        ({"R": 3, "S": 3, "stride": 2}, 42, 21),
        ({"R": 3, "S": 2, "stride": 2}, 66, 33),
        ({"R": 2, "S": 2, "stride": 2}, 98, 49),
        ({"R": 2, "S": 3, "stride": 3}, 98, 49),
    ],
)
def test_a_strided_transposed_convolution_has_the_mappings_that_its_sizes_allow(
    sizes: dict[str, int], complete: int, fixed: int
) -> None:
    others = {"N": 4, "C": 5, "K": 6, "H": 7, "W": 8} if sizes else {}
    found = both("conv2d_transposed_strided", MATMUL, **sizes, **others)
    assert found == ((complete, 0, 0), (fixed, 0, 0))


def test_the_scattered_count_is_that_of_choices_that_never_meet() -> None:
    """Of n, h, w some on one axis, of k, r, s some on the other, and never h with r nor w with s."""
    subsets = [set(s) for size in (1, 2, 3) for s in combinations(range(3), size)]
    assert sum(not {1, 2} & rows & columns for rows in subsets for columns in subsets) == 21
