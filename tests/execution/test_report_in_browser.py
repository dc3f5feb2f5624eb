"""The report in a browser: linked texts by keyboard and mouse, light and dark, narrow, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, chromium

from isamap.driver.api import source_of
from isamap.driver.length_versions import compile_request
from isamap.driver.reporting import recording_of, report_of
from isamap.driver.request import Request
from isamap.report.page.as_html import report_html

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium is installed: `apt-get install chromium`"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    request = Request(source_of("gemm_s8s8"), "edge-npu", {"M": 64, "N": 64, "K": 64}, heuristic="greedy")
    made = compile_request(request)
    path: Path = tmp_path_factory.mktemp("report") / "report.html"
    page = report_html(report_of(request, made, recording_of(request, made)))
    path.write_text(page, encoding="utf-8")
    with Browser(path.parent / "browser") as found:
        found.width(1280)
        found.open(path)
        yield found
        assert found.errors == []
        assert {url for url in found.requests if not url.startswith("file:")} == set()


def marked(browser: Browser, pane: str) -> list[str]:
    lines = f"[...document.querySelectorAll('#{pane} .hit')]"
    return browser.value(f"{lines}.map(line => line.textContent.trim())")


def active(browser: Browser) -> str:
    return browser.value("document.activeElement.id")


def put_focus(browser: Browser, pane: str) -> None:
    """By Tab alone, from wherever the focus is."""
    for _ in range(40):
        if active(browser) == pane:
            return
        browser.press("Tab")
    pytest.fail(f"Tab does not come to {pane}")


def test_a_decision_is_followed_by_keys_alone(browser: Browser) -> None:
    put_focus(browser, "schedule")
    browser.press("Home")
    lines = browser.value("[...document.querySelectorAll('#schedule .l')].map(l => l.textContent.trim())")
    place = next(n for n, line in enumerate(lines) if line.startswith("stage a"))
    browser.press("ArrowDown", place)
    assert marked(browser, "schedule") == [lines[place]]
    assert marked(browser, "kernel") == ["in A: i8[M, K];"]
    assert "{ /* stage a */" in marked(browser, "emitted")
    browser.press("ArrowRight")
    assert active(browser) == "emitted"
    here = browser.value("document.querySelector('#emitted .here').textContent.trim()")
    assert here == "{ /* stage a */"
    assert browser.value("document.activeElement.getAttribute('aria-activedescendant')").startswith(
        "emitted-"
    )
    browser.press("ArrowLeft")
    assert active(browser) == "schedule"
    browser.press("Escape")
    assert marked(browser, "kernel") == []


def test_what_is_marked_is_brought_into_view(browser: Browser) -> None:
    put_focus(browser, "kernel")
    browser.press("End")
    browser.press("ArrowUp")
    assert marked(browser, "emitted")
    inside = browser.value(
        "(p => (q => q.top < p.bottom && q.bottom > p.top)"
        "(document.querySelector('#emitted .hit, #emitted .near').getBoundingClientRect()))"
        "(document.querySelector('#emitted').getBoundingClientRect())"
    )
    assert inside is True


def test_a_loop_is_followed_by_the_mouse(browser: Browser) -> None:
    browser.press("Escape")
    browser.value("document.querySelector('#kernel').scrollIntoView()")
    place = browser.value(
        "[...document.querySelectorAll('#kernel .l')].findIndex(l => l.textContent.includes('for ')) + 1"
    )
    for number, axis in enumerate(("m", "n", "k")):
        browser.point(f"#kernel-{place}-{number}")
        loops = [line for line in marked(browser, "schedule") if line.startswith(("for ", "unroll "))]
        assert {line.split()[1] for line in loops} == {axis}


def test_the_focus_is_seen(browser: Browser) -> None:
    put_focus(browser, "schedule")
    style = browser.value("getComputedStyle(document.activeElement).outlineStyle")
    assert style not in ("none", "")
    width = browser.value("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
    assert width >= 2


def luminance(rgb: str) -> float:
    """Relative luminance after WCAG 2.1 of a colour as `rgb(1, 2, 3)`."""
    parts = [int(n) / 255 for n in rgb[rgb.index("(") + 1 : -1].split(",")[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_modes(browser: Browser, scheme: str) -> None:
    browser.mode(scheme)
    back = luminance(browser.value("getComputedStyle(document.body).backgroundColor"))
    assert (back > 0.5) == (scheme == "light")
    for selector in ("body", ".hint", "dt", "nav a", "figure svg text"):
        what = "fill" if selector.endswith("text") else "color"
        ink = browser.value(f"getComputedStyle(document.querySelector('{selector}')).{what}")
        light, dark = sorted((luminance(ink), back), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{selector} in {scheme}: {ink}"
    browser.mode("light")


@pytest.mark.parametrize("pixels", [390, 800, 1280, 1700])
def test_nothing_is_wider_than_the_window(browser: Browser, pixels: int) -> None:
    browser.width(pixels)
    assert browser.value("document.documentElement.scrollWidth") <= pixels
    smallest = browser.value(
        "Math.min(...[...document.querySelectorAll('p, td, th, dd, .l')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert smallest >= 12
    browser.width(1280)
