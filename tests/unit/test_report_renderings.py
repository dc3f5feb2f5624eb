"""What HTML, text, SVG and JSON make of a report."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from reported import EXAMPLES, PRODUCT, REQUANT, made, report

from isamap.driver import reporting
from isamap.driver.length_versions import compile_request
from isamap.driver.reporting import recording_of, report_of
from isamap.driver.request import Request
from isamap.report.page.as_html import network_html, report_html, timeline_of_layers
from isamap.report.page.as_text import PLAIN, report_json, report_text
from isamap.report.page.pictures import all_pictures
from isamap.report.page.stamp import add_digest, is_as_stamped, is_stamped
from isamap.source import Source

MOST_BYTES = 2_000_000


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


def test_what_of_a_text_does_not_fit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    wholes = report(*PRODUCT).panes  # kept for all tests, so of texts that are whole
    monkeypatch.setattr(reporting, "MOST_BYTES", 3000)
    request, compilation = made(*PRODUCT)
    found = report_of(request, compilation, None)
    for whole, part in zip(wholes, found.panes, strict=True):
        assert len(part.lines) + part.left_out == len(whole.lines)
        assert part.lines == whole.lines[: len(part.lines)]
    code = found.panes[-1]
    assert code.left_out > 0
    assert f"{code.left_out} further lines are not shown." in read(report_html(found)).texts


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


@pytest.mark.parametrize("which", [REQUANT, PRODUCT], ids=lambda w: w[0])
def test_the_text_can_do_with_ascii(which: tuple[str, str, tuple[tuple[str, int], ...]]) -> None:
    assert report_text(report(*which)).translate(PLAIN).isascii()


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
    text = add_digest(report_html(report(*PRODUCT)))
    assert is_as_stamped(text)
    assert is_stamped(text + " ")
    assert not is_as_stamped(text + " ")
    assert not is_as_stamped(text.replace("gemm_f32", "gemm_f64", 1))
    assert not is_stamped("mine")


def test_a_page_of_a_network_has_a_timeline_and_a_part_for_each_layer() -> None:
    common = {"levels": {"dram": {"bytes": 4096}}, "instructions": 12, "read_bytes": 4096}
    layers = [
        {
            "nodes": ["a<b"],
            "operators": ["Conv"],
            "kernel": "conv",
            "machine": "npu",
            "predicted_ns": 300.0,
            **common,
        },
        {
            "nodes": [],
            "operators": ["Sin"],
            "kernel": "sin",
            "machine": "cpu",
            "predicted_ns": 100.0,
            "why": "no <sin>",
        },
    ]
    timeline = timeline_of_layers(layers)
    assert [(bar.track, bar.label, bar.start_ns, bar.end_ns) for bar in timeline.bars] == [
        ("npu", "Conv", 0.0, 300.0), ("cpu", "Sin", 300.0, 400.0),
    ]  # fmt: skip
    assert {track.name: track.busy_ns for track in timeline.tracks} == {"npu": 300.0, "cpu": 100.0}
    page = network_html("net", layers, {"conv": "kernel conv() { for i < 4 {} }"})
    assert page.count("<section") == 2 + len(layers)
    assert "2 layers take 400 ns by the cost model" in page
    for said in ("1: a&lt;b", "2: sin", "no &lt;sin&gt;", "for i &lt; 4", "<td>instructions</td><td>12</td>"):
        assert said in page, said
