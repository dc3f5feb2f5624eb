"""The report of a compilation: its facts, and which lines of its texts belong together."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import pytest
from reported import PRODUCT, REQUANT, line, made, pane, report

from isamap.driver.api import source_of
from isamap.driver.length_versions import compile_request
from isamap.driver.reporting import CompletedCompilation, recording_of, report_of
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.lower.walk import has_parallel
from isamap.report.page.as_html import report_html
from isamap.report.page.line_links import code_lines, kernel_lines
from isamap.report.page.timeline import Bar, merge_bars


def test_the_sentence_says_what_bounds_it_and_by_how_much() -> None:
    said = report(*PRODUCT).sentence
    assert re.fullmatch(
        r"gemm_f32 takes .* by the model: bound by the fma units: [0-9]+ % .* GOP/s .* %\.", said
    )
    moved = " simulated with dram busy for 70 %: bound by data movement by dram"
    assert moved in report(*REQUANT).sentence


@pytest.mark.parametrize("which", [REQUANT, PRODUCT], ids=lambda w: w[0])
def test_texts_stand_whole_in_their_panes(which: tuple[str, str, tuple[tuple[str, int], ...]]) -> None:
    found = report(*which)
    request, compilation = made(*which)
    assert isinstance(compilation.emitted, EmittedC)
    assert "\n".join(one.text for one in pane(found, "kernel")) + "\n" == request.kernel.text
    assert "\n".join(one.text for one in pane(found, "emitted")) + "\n" == compilation.emitted.source


def test_a_statement_is_linked_to_its_nest_and_to_its_code() -> None:
    found = report(*REQUANT)
    product = line(found, "kernel", "for m in M, n in N, k in K { s[m, n] +=")
    assert "s1" in product.own
    assert "s1" in line(found, "schedule", "nest 1").own
    assert "s1" in line(found, "schedule", "map stream").own
    code = line(found, "emitted", "{ /* s[m, n] = 0;;")
    assert {"s0", "s1", "s2"} == set(code.own)
    assert "s1" in line(found, "emitted", "requantise(c_tiles0").inside
    # What is only called from there, and what is called before, belong to nothing.
    assert line(found, "emitted", "#include").inside == ()
    assert line(found, "emitted", "return gemm_requant_OK").inside == ()


def test_decisions_are_linked_to_what_was_made_of_them() -> None:
    found = report(*REQUANT)
    for operand, tensor in (("a", "in A"), ("b", "in B"), ("c", "temp s")):
        name = f"s1.stage.{operand}"
        assert name in line(found, "schedule", f"stage {operand} ").own
        assert name in line(found, "kernel", tensor).own
        assert name in line(found, "emitted", f"{{ /* stage {operand} */").own
    copied = line(found, "emitted", "dma_in_i8(A + ")
    assert copied.own == ("s1.stage.a",)
    assert "s1" in copied.inside
    assert line(found, "emitted", "dma_out_i8(c_out0").own == ("s1.stage.c",)
    assert line(found, "schedule", "hold").own == line(found, "emitted", "{ /* hold c */").own
    assert set(line(found, "schedule", "fuse").own) == {"s0", "s2"}


def test_words_are_linked_to_the_calls_that_they_stand_for() -> None:
    found = report(*REQUANT)
    for words, code in (
        ("dma_in_i8     x=A", "dma_in_i8(A"),
        ("stream_first", "stream_first(a_tiles0"),
        ("requantise", "requantise(c"),
    ):
        one = next(one for one in pane(found, "words") if f"  {words}" in one.text)
        assert one.own == line(found, "emitted", code).own != ()
        assert one.inside == line(found, "emitted", code).inside
    assert [p.name for p in report(*PRODUCT).panes] == ["kernel", "schedule", "emitted"]


def test_loops_are_linked_by_their_axes() -> None:
    found = report(*PRODUCT)
    head = line(found, "kernel", "for m in M, n in N, k in K")
    rows = line(found, "schedule", "for m by")
    assert rows.own == ("s0.m.0",)
    assert set(rows.own) <= set(head.own)
    assert line(found, "emitted", "for (int64_t m0 = 0").own == rows.own
    summed = line(found, "emitted", "for (int64_t k0 = 0")
    assert summed.own == line(found, "schedule", "for k by").own == ("s0.k.0",)
    assert {"s0", "s0.m.0"} <= set(summed.inside)
    # What is left of m has a loop over k of its own, inside none over m.
    rest = line(found, "emitted", "for (int64_t k1 = 0")
    assert rest.own == ("s0.k.0",)
    assert "s0.m.0" not in rest.inside


def test_functions_of_parts_belong_to_what_calls_them() -> None:
    sizes = {"M": 128, "N": 128, "K": 128}
    request = Request(source_of("gemm_f32"), "x86-avx512", sizes, heuristic="greedy", threads=2)
    found = CompletedCompilation.of(request, compile_request(request))
    assert has_parallel(found.program.body)
    code = code_lines(found.emitted.source, found.nests)
    fused = [one for one in code if "_mm512_fmadd_ps(" in one.text]
    assert fused
    assert all("s0" in one.inside and one.own[0].startswith("s0.k.") for one in fused)


def test_parts_of_the_sizes_are_shown_by_the_last_schedule() -> None:
    request = Request(
        source_of("gemm_f32"), "x86-avx2", {"M": "1..64@1,16", "N": 32, "K": 32}, heuristic="greedy"
    )
    compilation = compile_request(request)
    found = report_of(request, compilation, recording_of(request, compilation, is_recorded=True))
    assert found.sizes == "K = 32, M = 3..64@16, N = 32"
    assert line(found, "schedule", "nest 0").own == ("s0",)


def test_loops_and_statements_of_one_line_are_told_apart() -> None:
    head = line(report(*PRODUCT), "kernel", "for m in M, n in N, k in K")
    pieces = {head.text[mark.start : mark.end]: mark.own for mark in head.marks}
    assert list(pieces) == ["m in M", "n in N", "k in K", "C[m, n] += A[m, k] * B[k, n];"]
    assert pieces["C[m, n] += A[m, k] * B[k, n];"] == ("s0",)
    assert all(name.startswith("s0.m.") for name in pieces["m in M"])
    assert all("s0" in mark.inside for mark in head.marks)


def test_ordered_loops_are_linked_to_their_code() -> None:
    sizes = {"T": 3, "N": 2, "C": 16, "H": 16}
    request = Request(source_of("rnn_tanh"), "x86-avx2", sizes, heuristic="greedy")
    found = CompletedCompilation.of(request, compile_request(request))
    (turn,) = [one for one in code_lines(found.emitted.source, found.nests) if "(int64_t t = 0" in one.text]
    assert turn.own == ("seq.t",)
    text = request.kernel.text
    assert found.compilation.canonical is not None
    steps = [m for one in kernel_lines(text, found.compilation.canonical, found.nests) for m in one.marks]
    assert ("seq.t",) in {mark.own for mark in steps}


def test_statements_that_were_added_for_the_edge_are_not_in_the_way() -> None:
    sizes = {"N": 1, "C": 8, "K": 16, "H": 4, "W": 4, "R": 3, "S": 3, "pad": 0}
    request = Request(source_of("conv2d_transposed"), "x86-avx2", sizes, heuristic="greedy")
    found = CompletedCompilation.of(request, compile_request(request))
    assert found.compilation.canonical is not None
    assert len(found.nests) == 3
    lines = kernel_lines(request.kernel.text, found.compilation.canonical, found.nests)
    (product,) = [mark for one in lines for mark in one.marks if "s2" in mark.own]
    assert all("s0" not in one.inside and "s1" not in one.inside for one in lines)
    whole = next(one for one in lines if product in one.marks)
    assert whole.text[product.start :].startswith("Y[n, k, p, q] +=")


def test_every_name_of_the_code_is_one_of_the_schedule() -> None:
    for which in (REQUANT, PRODUCT):
        found = report(*which)
        scheduled = {name for one in pane(found, "schedule") for name in one.inside}
        coded = {name for one in pane(found, "emitted") for name in one.inside}
        assert coded <= scheduled


def test_bars_lie_in_the_run_and_those_of_a_unit_beside_each_other() -> None:
    timeline = report(*REQUANT).timeline
    assert timeline is not None
    assert {
        "load",
        "preload",
        "execute",
        "vector",
        "store",
        "dram",
        "dram → spad",
        "spad → weights",
        "spad → dram",
        "acc → spad",
    } == {track.name for track in timeline.tracks}
    for track in timeline.tracks:
        bars = [bar for bar in timeline.bars if bar.track == track.name]
        assert sum(bar.end_ns - bar.start_ns for bar in bars) == pytest.approx(track.busy_ns)
        assert all(0 <= bar.start_ns <= bar.end_ns <= timeline.total_ns for bar in bars)
        if not track.is_link:
            assert all(a.end_ns <= b.start_ns + 1e-9 for a, b in pairwise(bars))


@pytest.mark.parametrize("size", [64, 128])
def test_no_link_is_busy_for_longer_than_the_run(size: int) -> None:
    timeline = report("gemm_requant", "edge-npu", (("M", size), ("N", size), ("K", size))).timeline
    assert timeline is not None
    links = {track.name: track.busy_ns for track in timeline.tracks if track.is_link}
    bus = next(track.busy_ns for track in timeline.tracks if track.name == "dram")
    assert max(links.values()) <= timeline.total_ns
    assert links["dram → spad"] + links["spad → dram"] == pytest.approx(bus), "both ways are one bus"
    assert links["dram → spad"] == 2 * size**2 / 16, "each input comes once, 16 bytes a ns"


def test_short_bars_are_joined_and_none_is_lost() -> None:
    bars = [Bar("load", "a" if n % 3 else "b", 10.0 * n, 10.0 * n + 4) for n in range(100)]
    few = list(merge_bars(bars, 50.0))
    assert len(few) < 30
    assert sum(bar.count for bar in few) == 100
    assert (few[0].start_ns, few[-1].end_ns) == (0.0, 994.0)
    assert merge_bars(bars, 0.001) == tuple(bars)


def test_buffers_that_are_there_at_one_time_share_no_byte() -> None:
    found = report(*REQUANT)
    assert [use.memory for use in found.memories] == ["acc", "spad"]
    for use in found.memories:
        assert use.capacity_bytes is not None
        assert 0 < use.peak_bytes <= use.capacity_bytes
        for one, other in combinations(use.stays, 2):
            if one.start < other.end and other.start < one.end:
                assert one.end_bytes <= other.offset_bytes or other.end_bytes <= one.offset_bytes


def test_bytes_of_a_requantised_product_never_see_main_memory_but_as_inputs_and_result() -> None:
    found = report(*REQUANT)
    by_level = {level.level: level for level in found.levels}
    assert by_level["dram"].arrays == (("A", 4096), ("B", 4096), ("Y", 4096))
    assert (by_level["dram"].read_bytes, by_level["dram"].written_bytes) == (8192, 4096)
    (roof,) = found.explained.roofs
    slopes = {slope.level: slope for slope in roof.slopes}
    assert slopes["dram – spad"].moved_bytes == 12288
    assert slopes["dram – acc"].moved_bytes == 0
    assert roof.intensity(slopes["dram – spad"]) == pytest.approx(2 * 64**3 / 12288)


def test_a_processor_has_its_parts_instead_of_a_timeline() -> None:
    found = report(*PRODUCT)
    assert found.timeline is None
    assert "no scratchpad" in found.no_timeline
    assert 'id="memories"' not in report_html(found)
    assert 'id="memories"' in report_html(report(*REQUANT))
    assert {level.level for level in found.levels} == {"l1", "l2", "l3", "memory"}
    assert found.explained.spent[0].parts
    assert len(found.explained.runners) > 1
