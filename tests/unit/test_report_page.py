"""The report of a compilation: its facts, and what HTML, text, SVG and JSON make of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from html.parser import HTMLParser
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from isamap.driver.api import source_of
from isamap.driver.length_versions import compile_request
from isamap.driver.pipeline import Compilation
from isamap.driver.reporting import Made, recording_of, report_of
from isamap.driver.request import Request
from isamap.report.page.as_html import report_html
from isamap.report.page.as_json import report_json
from isamap.report.page.as_text import report_text
from isamap.report.page.facts import Line, Report
from isamap.report.page.links import code_lines
from isamap.report.page.pictures import all_pictures
from isamap.report.page.stamp import is_as_stamped, is_stamped, stamped
from isamap.report.page.timeline import Bar, merged
from isamap.source import Source

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
MOST_BYTES = 2_000_000
REQUANT = "gemm_requant", "edge-npu", (("M", 64), ("N", 64), ("K", 64))
PRODUCT = "gemm_f32", "x86-avx512", (("M", 64), ("N", 64), ("K", 64))


def source(kernel: str) -> Source:
    path = EXAMPLES / f"{kernel}.ir"
    return Source(path.name, path.read_text(encoding="utf-8")) if path.exists() else source_of(kernel)


@cache
def made(kernel: str, machine: str, sizes: tuple[tuple[str, int], ...]) -> tuple[Request, Compilation]:
    request = Request(source(kernel), machine, dict(sizes), heuristic="greedy")
    return request, compile_request(request)


@cache
def report(kernel: str, machine: str, sizes: tuple[tuple[str, int], ...]) -> Report:
    request, compilation = made(kernel, machine, sizes)
    return report_of(request, compilation, recording_of(request, compilation))


def pane(found: Report, name: str) -> tuple[Line, ...]:
    return next(p.lines for p in found.panes if p.name == name)


def line(found: Report, name: str, begins: str) -> Line:
    return next(one for one in pane(found, name) if one.text.strip().startswith(begins))


# --- facts ------------------------------------------------------------------------------------------------


def test_the_sentence_says_what_bounds_it_and_by_how_much() -> None:
    said = report(*PRODUCT).sentence
    assert re.fullmatch(
        r"gemm_f32 takes .* by the model: bound by the fma units: [0-9]+ % .* GOP/s .* %\.", said
    )
    assert " simulated with load busy for 66 %: bound by packing" in report(*REQUANT).sentence


@pytest.mark.parametrize("which", [REQUANT, PRODUCT], ids=lambda w: w[0])
def test_texts_stand_whole_in_their_panes(which: tuple[str, str, tuple[tuple[str, int], ...]]) -> None:
    found = report(*which)
    request, compilation = made(*which)
    assert compilation.emitted is not None
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
        ("dma_in_i8       x=A", "dma_in_i8(A"),
        ("stream", "stream(a_tiles0"),
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
    found = Made.of(request, compile_request(request))
    assert found.program.is_parallel
    code = code_lines(found.emitted.source, found.nests)
    fused = [one for one in code if "_mm512_fmadd_ps(" in one.text]
    assert fused
    assert all("s0" in one.inside and one.own[0].startswith("s0.k.") for one in fused)


def test_parts_of_the_sizes_are_shown_by_the_last_schedule() -> None:
    request = Request(
        source_of("gemm_f32"), "x86-avx2", {"M": "1..64@1,16", "N": 32, "K": 32}, heuristic="greedy"
    )
    compilation = compile_request(request)
    found = report_of(request, compilation, recording_of(request, compilation, wanted=True))
    assert found.sizes == "K = 32, M = 3..64@16, N = 32"
    assert line(found, "schedule", "nest 0").own == ("s0",)


def test_every_name_of_the_code_is_one_of_the_schedule() -> None:
    for which in (REQUANT, PRODUCT):
        found = report(*which)
        scheduled = {name for one in pane(found, "schedule") for name in one.inside}
        coded = {name for one in pane(found, "emitted") for name in one.inside}
        assert coded <= scheduled


def test_bars_lie_in_the_run_and_those_of_a_unit_beside_each_other() -> None:
    timeline = report(*REQUANT).timeline
    assert timeline is not None
    assert {"load", "execute", "vector", "store", "dram → spad", "spad → weights", "spad → dram"} == {
        track.name for track in timeline.tracks
    }
    for track in timeline.tracks:
        bars = [bar for bar in timeline.bars if bar.track == track.name]
        assert sum(bar.end_ns - bar.start_ns for bar in bars) == pytest.approx(track.busy_ns)
        assert all(0 <= bar.start_ns <= bar.end_ns <= timeline.total_ns for bar in bars)
        if not track.is_link:
            assert all(a.end_ns <= b.start_ns + 1e-9 for a, b in pairwise(bars))


def test_short_bars_are_joined_and_none_is_lost() -> None:
    bars = [Bar("load", "a" if n % 3 else "b", 10.0 * n, 10.0 * n + 4) for n in range(100)]
    few = list(merged(bars, 50.0))
    assert len(few) < 30
    assert sum(bar.count for bar in few) == 100
    assert (few[0].start_ns, few[-1].end_ns) == (0.0, 994.0)
    assert merged(bars, 0.001) == tuple(bars)


def test_buffers_that_are_there_at_one_time_share_no_byte() -> None:
    found = report(*REQUANT)
    assert [use.memory for use in found.memories] == ["acc", "spad"]
    for use in found.memories:
        assert use.capacity_bytes is not None
        assert 0 < use.peak_bytes <= use.capacity_bytes
        for one, other in combinations(use.stays, 2):
            if one.start < other.end and other.start < one.end:
                assert one.last_byte <= other.offset_bytes or other.last_byte <= one.offset_bytes


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
    assert "by themselves" in found.no_timeline
    assert {level.level for level in found.levels} == {"l1", "l2", "l3", "memory"}
    assert found.explained.spent[0].parts
    assert len(found.explained.runners) > 1


# --- HTML -------------------------------------------------------------------------------------------------


@dataclass
class Elements(HTMLParser):
    """Everything of a page that a test asks for."""

    tags: Counter[str] = field(default_factory=Counter[str])
    attributes: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    texts: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def __hash__(self) -> int:
        return id(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, name: str) -> Iterator[str]:
        return (value for _, own, value in self.attributes if own == name)


def read(html: str) -> Elements:
    found = Elements()
    found.feed(html)
    found.close()
    return found


@pytest.mark.parametrize("which", [REQUANT, PRODUCT], ids=lambda w: w[0])
def test_a_page_is_whole_in_itself(which: tuple[str, str, tuple[tuple[str, int], ...]]) -> None:
    html = report_html(report(*which))
    page = read(html)
    ids = list(page.values("id"))
    assert len(ids) == len(set(ids))
    links = list(page.values("href"))
    assert links
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert all(link.startswith("#") for link in links)
    for name in ("aria-labelledby", "aria-describedby"):
        assert set(page.values(name)) <= set(ids)
    assert {"src", "action", "data", "poster"} & {name for _, name, _ in page.attributes} == set()
    # The only address is the name of SVG's elements, which is not asked for.
    assert set(re.findall(r"[a-z]+://[^\s\"'<>]+", html)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in html
    assert set(re.findall(r"url\((.)", html)) <= {"#"}
    assert {f"#{ident}" for ident in ids} >= set(re.findall(r"url\((#[^)]*)\)", html))
    assert len(html.encode()) < MOST_BYTES
    assert page.tags["html"] == page.tags["body"] == page.tags["script"] == 1
    assert html.index('id="sentence"') < html.index("<nav")


def test_each_text_is_reached_by_one_tab_stop_and_links_come_in_pairs() -> None:
    page = read(report_html(report(*REQUANT)))
    assert [v for t, n, v in page.attributes if (t, n) == ("div", "tabindex")] == ["0"] * 4
    numbers = Counter(number for value in page.values("data-o") for number in value.split())
    inside = {number for value in page.values("data-i") for number in value.split()}
    assert set(numbers) <= inside


HOSTILE = "</pre></textarea><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;<!--"


def test_what_users_write_stays_text() -> None:
    path = EXAMPLES / "gemm_requant.ir"
    text = f"# {HOSTILE}\n" + path.read_text(encoding="utf-8")
    request = Request(
        Source(f"{HOSTILE}.ir", text), "edge-npu", {"M": 32, "N": 32, "K": 32}, heuristic="greedy"
    )
    compilation = compile_request(request)
    found = report_of(request, compilation, recording_of(request, compilation))
    timeline, (first, *_), (level, *_) = found.timeline, found.memories, found.levels
    assert timeline is not None
    hostile = replace(
        found,
        machine=HOSTILE,
        sizes=HOSTILE,
        sentence=HOSTILE,
        figures=((HOSTILE, HOSTILE),),
        mappings=(found.mappings[0], (HOSTILE,) * len(found.mappings[0])),
        accesses=(found.accesses[0], (HOSTILE,) * len(found.accesses[0])),
        timeline=replace(
            timeline,
            bars=(replace(timeline.bars[0], label=HOSTILE),),
            left_out=(HOSTILE,),
        ),
        memories=(
            replace(first, memory=HOSTILE, stays=(replace(first.stays[0], buffer=HOSTILE, why=HOSTILE),)),
        ),
        levels=(replace(level, level=HOSTILE, arrays=((HOSTILE, 1.0),)),),
        notes=(HOSTILE,),
    )
    usual, page = read(report_html(found)), read(report_html(hostile))
    assert page.tags["script"] == 1
    assert page.tags["img"] == 0
    assert page.tags["section"] == usual.tags["section"] + 1  # the notes
    assert "onerror" not in {name for _, name, _ in page.attributes}
    assert f"# {HOSTILE}" in page.texts
    for picture in all_pictures(hostile):
        ElementTree.fromstring(picture.svg())


@pytest.mark.parametrize(
    "which",
    [
        ("gru", "x86-avx512", (("T", 10), ("N", 8), ("C", 128), ("H", 128))),
        (
            "conv2d_s8_requant",
            "edge-npu",
            (("N", 1), ("H", 14), ("W", 14), ("C", 64), ("K", 64), ("R", 3), ("S", 3)),
        ),
    ],
    ids=lambda w: w[0],
)
@pytest.mark.exhaustive
def test_large_pages_stay_small(which: tuple[str, str, tuple[tuple[str, int], ...]]) -> None:
    found = report(*which)
    html = report_html(found)
    assert len(html.encode()) < MOST_BYTES
    ids = list(read(html).values("id"))
    assert len(ids) == len(set(ids))
    for picture in all_pictures(found):
        ElementTree.fromstring(picture.svg())


# --- pictures, text, JSON, stamps -------------------------------------------------------------------------


@pytest.mark.parametrize("which", [REQUANT, PRODUCT], ids=lambda w: w[0])
def test_every_picture_is_there_as_svg_and_for_a_terminal(
    which: tuple[str, str, tuple[tuple[str, int], ...]],
) -> None:
    found = report(*which)
    pictures = all_pictures(found)
    names = [picture.name for picture in pictures]
    assert len(names) == len(set(names))
    whole = report_text(found)
    for picture in pictures:
        root = ElementTree.fromstring(picture.svg())
        assert float(root.attrib["height"]) > 0
        assert picture.text in whole
        assert len(picture.text.splitlines()) > 1
        assert max(map(len, picture.text.splitlines())) <= 130
    timed = {"timeline", "memory-acc", "memory-spad"} if which == REQUANT else set[str]()
    statement = "1" if which == REQUANT else "0"
    assert set(names) == {f"time-{statement}", f"roofline-{statement}", "traffic"} | timed


def test_the_text_begins_with_the_sentence() -> None:
    found = report(*REQUANT)
    assert report_text(found).startswith(found.sentence)


def test_the_json_has_all_facts() -> None:
    whole = report(*REQUANT)
    found = json.loads(json.dumps(report_json(whole)))
    assert whole.timeline is not None
    assert found["schema"] == "isamap.report/1"
    assert {pane["name"] for pane in found["panes"]} == {"kernel", "schedule", "emitted", "words"}
    assert found["timeline"]["total_ns"] == whole.timeline.total_ns
    assert found["memories"][1]["stays"][0]["buffer"] == "a_tiles0"
    assert found["runners_up"]


def test_a_change_is_told_from_what_was_written() -> None:
    text = stamped(report_html(report(*PRODUCT)))
    assert is_as_stamped(text)
    assert is_stamped(text + " ")
    assert not is_as_stamped(text + " ")
    assert not is_as_stamped(text.replace("gemm_f32", "gemm_f64", 1))
    assert not is_stamped("mine")
