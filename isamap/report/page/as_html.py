"""Write a report as one self-contained HTML file with styles, script and pictures. All text is escaped.

Texts are linked by numbers: `data-o` of a line are the numbers of its subject, `data-i` those of everything
that it belongs to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from itertools import chain
from typing import Any

from isamap.report.access_tables import gap_text
from isamap.report.columns import Row, bytes_text, energy_text
from isamap.report.explained import runner_rows, spent_rows
from isamap.report.mappings import time_text
from isamap.report.nest_tree import registers_text, stationary_text, tree_rows
from isamap.report.page import pictures as drawings
from isamap.report.page.report_facts import Mark, Pane, Report, SubjectLine, names_in
from isamap.report.page.stamp import STAMP
from isamap.report.page.timeline import Bar, Timeline, Track
from isamap.report.page.traffic import level_rows
from isamap.report.picture import PLOT, STYLE, Picture
from isamap.report.roofline import roofline_rows, roofline_sentence

OPEN = 4
"""Pictures of a section that are shown at once; others wait to be opened."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
KEYS = (
    "Point at a line, or focus a text and use ↑ ↓: related lines are marked in the others. "
    "← and → go to the neighbouring text, Esc lets go."
)


def report_html(report: Report) -> str:
    """Return the whole HTML file."""
    sections = [section for section in _sections(report) if section.body]
    title = f"{report.title}{': ' if report.sizes else ''}{report.sizes}"
    return _page(title, report.sentence, report.figures, sections)


def _page(title: str, sentence: str, figures: Sequence[Row], sections: Sequence[_Section]) -> str:
    """Return a page with a title, a sentence, named values, and sections."""
    head = _head(title, sentence, figures, sections)
    return "\n".join(chain(head, *(s.lines() for s in sections), _tail()))


class _Section:
    """A section of the page with a heading that links refer to."""

    def __init__(self, name: str, title: str, body: Iterable[str]) -> None:
        self.name, self.title, self.body = name, title, tuple(body)

    def lines(self) -> Iterator[str]:
        yield f'<section id="{self.name}" aria-labelledby="{self.name}-title">'
        yield f'<h2 id="{self.name}-title">{escape(self.title)}</h2>'
        yield from self.body
        yield "</section>"


def _sections(report: Report) -> Iterator[_Section]:
    yield _Section("code", "Kernel, schedule and code", _panes(report.panes))
    yield _Section("mapping", "Mapping", _print_mapping(report))
    yield _Section("time", "Time", _time(report))
    yield _Section("memories", "Memories", _memories(report))
    yield _Section("roofline", "Roofline", _roofline(report))
    yield _Section("bytes", "Bytes moved", _bytes(report))
    yield _Section("notes", "Warnings", (f"<pre>{escape(note)}</pre>" for note in report.notes))


def _head(title: str, sentence: str, figures: Sequence[Row], sections: Sequence[_Section]) -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield f"<!-- {STAMP} -->"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)}</title>"
    yield f"<style>{STYLE}{PLOT}{_page_file('page.css')}</style></head><body>"
    yield f'<a class="skip" href="#{sections[0].name}">To the first part</a><header>'
    yield f"<h1>{escape(title)}</h1>"
    yield f'<p class="sentence" id="sentence">{escape(sentence)}</p>'
    terms = (f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in figures)
    yield f'<dl class="figures">{"".join(terms)}</dl></header>'
    links = (f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in sections)
    yield f'<nav aria-label="Parts of this report"><ul>{"".join(links)}</ul></nav><main>'


def _tail() -> Iterator[str]:
    yield "</main><footer>Made by isamap. The file is self-contained.</footer>"
    yield f"<script>{_page_file('page.js')}</script></body></html>\n"


@cache
def _page_file(name: str) -> str:
    return files("isamap.report.page").joinpath(name).read_text(encoding="utf-8")


# --- texts ------------------------------------------------------------------------------------------------


def _panes(panes: tuple[Pane, ...]) -> Iterator[str]:
    numbers = {name: str(number) for number, name in enumerate(names_in(panes))}
    odd = len(panes) % 2
    yield f'<p class="hint" id="keys">{KEYS}</p><div class="panes{" three" if odd else ""}">'
    for number, pane in enumerate(panes):
        last = " odd" if odd and number == len(panes) - 1 else ""
        yield f'<div class="pane{last}"><h3 id="{pane.name}-head">{escape(pane.title)}</h3>'
        about = f'aria-labelledby="{pane.name}-head" aria-describedby="keys"'
        yield f'<div class="text" id="{pane.name}" role="listbox" tabindex="0" {about}>'
        yield "".join(_line(f"{pane.name}-{n}", line, numbers) for n, line in enumerate(pane.lines, 1))
        yield "</div>"
        if pane.left_out:
            yield f'<p class="note">{pane.left_out} further lines are not shown.</p>'
        yield "</div>"
    yield "</div>"


def _line(ident: str, line: SubjectLine, numbers: dict[str, str]) -> str:
    if not line.marks:
        data = _data(line, numbers)
        return f'<span class="l" role="option" id="{ident}"{data}>{escape(line.text) or " "}</span>'
    parts: list[str] = []
    end = 0
    for number, mark in enumerate(line.marks):
        inside, data = escape(line.text[mark.start : mark.end]), _data(mark, numbers)
        parts.append(escape(line.text[end : mark.start]))
        parts.append(f'<span class="m" role="option" id="{ident}-{number}"{data}>{inside}</span>')
        end = mark.end
    parts.append(escape(line.text[end:]))
    return f'<span class="l" role="group" id="{ident}">{"".join(parts)}</span>'


def _data(about: SubjectLine | Mark, numbers: dict[str, str]) -> str:
    """Return the attributes that link a line, or a part of it, to its subjects."""
    names = (("o", about.own), ("i", about.inside))
    return "".join(f' data-{kind}="{" ".join(numbers[n] for n in own)}"' for kind, own in names if own)


# --- parts ------------------------------------------------------------------------------------------------


def _print_mapping(report: Report) -> Iterator[str]:
    yield _table(report.mappings)
    yield "<details><summary>Loops: bytes per iteration, and the cache that fits them</summary>"
    for tree in report.explained.trees:
        rows = tree_rows(tree)
        yield f"<h3>Statement {tree.statement}</h3>"
        yield _table(rows, range(1, len(rows[0]) - 1))
        yield f'<p class="note">registers: {escape(registers_text(tree))}</p>' if tree.registers else ""
        yield f'<p class="note">stationary: {escape(stationary_text(tree))}</p>' if tree.stationary else ""
    yield "</details>"
    if report.explained.runners:
        yield "<h3>Runners-up by the model</h3>"
        yield _table(runner_rows(report.explained.runners), (0, 1, 2))
        note = report.explained.cheaper_note
        yield f'<p class="note">{escape(note)}</p>' if note else ""


def _time(report: Report) -> Iterator[str]:
    yield from _figures(list(drawings.time_pictures(report)))
    if report.timeline is None:
        yield f'<p class="note">No timeline: {escape(report.no_timeline)}.</p>'
    else:
        of = f"{report.timeline.run} of {report.timeline.issues} issues simulated one by one"
        if report.timeline.unrecorded:
            of += f"; {report.timeline.unrecorded} of these are not drawn"
        yield f'<p class="note">{of}; iterations repeat in the grey ranges. Not simulated: '
        yield f"{escape('; '.join(report.timeline.left_out))}.</p>"
    yield "<details><summary>Parts of the time as tables</summary>"
    for spent in report.explained.spent:
        if spent.parts:
            yield f"<h3>Statement {spent.statement}</h3>"
            yield _table(spent_rows(spent), (1, 2))
    yield "</details>"


def _memories(report: Report) -> Iterator[str]:
    yield from _figures(list(drawings.memory_pictures(report)))
    for use in report.memories:
        if not use.is_timed:
            yield f'<p class="note">{escape(use.memory)}: each step is an issue, in the order of the program.</p>'


def _roofline(report: Report) -> Iterator[str]:
    yield from _figures(list(drawings.roofline_pictures(report)))
    for roof in report.explained.roofs:
        said = f"Statement {roof.statement}: {roofline_sentence(roof)}"
        yield f"<details><summary>{escape(said)}</summary>"
        yield _table(roofline_rows(roof), (1, 2, 3, 4))
        yield "</details>"


def _bytes(report: Report) -> Iterator[str]:
    yield from _figures(list(drawings.traffic_pictures(report)))
    if len(report.levels):
        yield _table(level_rows(report.levels), (1, 2))
    yield "<details><summary>Bytes per statement, level and operand</summary>"
    yield _table(report.accesses, (4, 5, 6, 7, 8))
    yield '<p class="note">As <code>isamap accesses</code> counts; fused statements are not.</p>'
    yield "</details>"


def _figures(pictures: Sequence[Picture]) -> Iterator[str]:
    """Yield the first pictures openly, and the others collapsed."""
    if pictures:
        shown = (f"<figure>{picture.inline()}</figure>" for picture in pictures[:OPEN])
        yield f'<div class="pictures">{"".join(shown)}</div>'
    for picture in pictures[OPEN:]:
        inside = f"<figure>{picture.inline()}</figure>"
        yield f"<details><summary>{escape(picture.title)}</summary>{inside}</details>"


def _table(rows: Sequence[Row], right: Collection[int] = ()) -> str:
    """Return rows as an HTML table, the header first. Columns in `right` are right-aligned."""
    head, *others = rows
    body = "".join(f"<tr>{_cells(row, right, 'td')}</tr>" for row in others)
    top = f"<thead><tr>{_cells(head, right, 'th')}</tr></thead>"
    return f'<div class="wide"><table>{top}<tbody>{body}</tbody></table></div>'


def _cells(row: Row, right: Collection[int], tag: str) -> str:
    scope = ' scope="col"' if tag == "th" else ""
    kinds = (' class="n"' if i in right else "" for i in range(len(row)))
    return "".join(f"<{tag}{scope}{k}>{escape(cell)}</{tag}>" for k, cell in zip(kinds, row, strict=True))


# --- networks: a timeline of their layers, their table, and a part for each layer. Layers are given as JSON ----

LAYERS: Row = ("layer", "runs on", "predicted", "gap", "kernel")
FACTS = {
    "transfer_ns": ("transfers", time_text),
    "energy_pj": ("energy", energy_text),
    "instructions": ("instructions", str),
    "read_bytes": ("read from main memory", bytes_text),
    "written_bytes": ("written to main memory", bytes_text),
}
"""The facts of a layer that not every layer has: their names and texts."""


def network_html(title: str, layers: Sequence[Mapping[str, Any]], kernels: Mapping[str, str]) -> str:
    """Return the whole HTML file. `kernels` are texts by name; a layer that only moves data has none."""
    timeline, rows, parts = timeline_of_layers(layers), list[Row](), list[_Section]()
    for number, (layer, bar) in enumerate(zip(layers, timeline.bars, strict=True), 1):
        name, ns = f"{number}: {' + '.join(layer['nodes']) or layer['kernel']}", bar.end_ns - bar.start_ns
        facts = layer["machine"], time_text(ns), gap_text([(ns, layer.get("gap"))]), layer["kernel"]
        rows.append((name, *facts))
        known, text = dict(zip(LAYERS[1:], facts, strict=True)), kernels.get(layer["kernel"], "")
        parts.append(_Section(f"layer-{number}", name, _layer(layer, known, text)))
    figures = [("predicted", time_text(timeline.total_ns)), ("layers", str(len(layers)))]
    figures += [(track.name, time_text(track.busy_ns)) for track in timeline.tracks]
    said = f"{len(layers)} layers take {time_text(timeline.total_ns)} by the cost model, one after the other."
    drawn = _Section("timeline", "Timeline", _figures(list(drawings.timeline_pictures(title, timeline))))
    table = _Section("layers", "Layers", (_table([LAYERS, *rows], (2, 3)),))
    return _page(title, said, figures, (drawn, table, *parts))


def timeline_of_layers(layers: Sequence[Mapping[str, Any]]) -> Timeline:
    """Return a track for each machine, with a bar for each layer, named after its operators."""
    bars, now, busy = list[Bar](), 0.0, dict[str, float]()
    for layer in layers:
        label = " + ".join(dict.fromkeys(layer["operators"])) or layer["kernel"]
        end, machine = now + layer.get("predicted_ns", 0.0), layer["machine"]
        bars.append(Bar(machine, label, now, end))
        busy[machine] = busy.get(machine, 0.0) + end - now
        now = end
    tracks = tuple(Track(name, is_link=False, busy_ns=ns) for name, ns in busy.items())
    return Timeline(now, tracks, tuple(bars), (), len(bars), len(bars), 0, ("how layers overlap",))


def _layer(layer: Mapping[str, Any], facts: Mapping[str, str], text: str) -> Iterator[str]:
    others = [(name, shown(layer[key])) for key, (name, shown) in FACTS.items() if key in layer]
    moved = [
        (f"bytes at {name}", bytes_text(level["bytes"])) for name, level in layer.get("levels", {}).items()
    ]
    yield _table([("fact", "value"), *facts.items(), *others, *moved])
    yield f'<p class="note">On its host: {escape(layer["why"])}</p>' if layer.get("why") else ""
    yield f"<pre>{escape(text)}</pre>" if text else ""
