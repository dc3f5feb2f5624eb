"""A machine as a picture: memories from the farthest to the nearest, links between them, units on the right.

    dram ──16 B/ns──▶ spad ──▶ weights      execute ×1
         ──16 B/ns──▶ sums                  load ×1

Plain SVG that follows the reader's light or dark mode. A unit is joined to the registers and scratchpads that
its instructions read (an arrow to the unit) and write (an arrow from it). Farther memories are named in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from isamap.machine import Link, Machine, Memory
from isamap.machine.model import Unit
from isamap.report.columns import count_text, shorten
from isamap.report.machine_changes import memory_text
from isamap.report.picture import COLOURS, STYLE
from isamap.source.records import dataclass, replace

BOX_WIDTH, LINE, GAP, COLUMN_GAP, MARGIN, TITLE = 176, 17, 24, 110, 28, 48
FITTING = 27  # characters of a line in a box
LEGEND = "an arrow to a unit: its instructions read; from a unit: they write"
BOXES = """
  .box { stroke: var(--edge); } .memory { fill: var(--memory); } .unit { fill: var(--unit); }
  .link { stroke: var(--soft); stroke-width: 1.6; fill: none; }
  .use { fill: none; stroke-width: 1.5; opacity: 0.85; }
"""


@dataclass(frozen=True, slots=True)
class _Box:
    """A box with lines of text. Units: pixels."""

    name: str
    kind: str
    lines: tuple[str, ...]
    x: int = 0
    y: int = 0

    @property
    def height(self) -> int:
        return LINE * (1 + len(self.lines)) + 14

    @property
    def middle(self) -> int:
        return self.y + self.height // 2


@dataclass(frozen=True, slots=True)
class _Use:
    """The memories that a unit's instructions read and write. A view counts as its base memory."""

    reads: frozenset[str]
    writes: frozenset[str]
    count: int


def machine_svg(machine: Machine) -> str:
    """Return the picture of a machine."""
    files = {name: _file(name, machine) for name in machine.memories}
    uses = {name: _find_use(name, machine, files) for name in machine.units}
    far = [n for n, m in machine.memories.items() if m.kind in ("addressable", "cache")]
    columns = [
        [_memory_box(machine.memories[name], machine) for name in layer] for layer in _layers(machine, files)
    ]
    unit_boxes = {name: _unit_box(machine.units[name], uses[name], far) for name in machine.units}
    memories = _placed_memories(columns, far, _height(list(unit_boxes.values())))
    order = _order_units(machine, uses, memories)
    units = _placed_units([unit_boxes[name] for name in order], memories)
    boxes = {(box.kind, box.name): box for box in (*memories, *units)}
    width = max(box.x for box in boxes.values()) + BOX_WIDTH + MARGIN
    height = max(box.y + box.height for box in boxes.values()) + MARGIN + LINE
    size = f'width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size} role="img">',
        f"<title>{escape(machine.name)}: memories, links and units</title>",
        f"<style>{STYLE}{BOXES}</style>",
        f"<defs>{''.join(_arrow(colour) for colour in ('soft', *(f'c{n}' for n in range(COLOURS))))}</defs>",
        f'<rect class="page" {size}/>',
        f'<text class="title" x="{MARGIN}" y="30">{escape(machine.name)}</text>',
        f'<text class="soft" x="{MARGIN}" y="48">{escape(shorten(machine.summary, width // 7))}</text>',
    ]
    parts += _use_lines(boxes, order, uses)
    parts += [line for link in machine.links for line in _link_line(link, boxes, files)]
    parts += [line for box in boxes.values() for line in _box_lines(box)]
    parts.append(f'<text class="soft" x="{MARGIN}" y="{height - 14}">{LEGEND}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _file(name: str, machine: Machine) -> str:
    base = machine.memories[name].base
    return name if base is None else _file(base, machine)


def _find_use(unit: str, machine: Machine, files: dict[str, str]) -> _Use:
    items = [i for i in (*machine.instructions.values(), *machine.hints.values()) if unit in i.cost.occupied]
    operands = [o for i in items for o in i.instruction.operands if o.memory is not None]
    reads = frozenset(files[o.memory] for o in operands if o.memory and o.role != "out")
    writes = frozenset(files[o.memory] for o in operands if o.memory and o.role != "in")
    return _Use(reads, writes, len(items))


def _layers(machine: Machine, files: dict[str, str]) -> list[list[str]]:
    """Return memories by their distance in links. Memories without links are next to the nearest ones."""
    own = [name for name in machine.memories if files[name] == name]
    depths = dict.fromkeys(own, 0)
    for _ in own:  # links form no circle, so that no way is longer
        for link in machine.links:
            source, target = files[link.source_memory], files[link.target_memory]
            if source != target:
                depths[target] = max(depths[target], depths[source] + 1)
    ends = {files[end] for link in machine.links for end in (link.source_memory, link.target_memory)}
    deepest = max(depths.values(), default=0)
    for name in own:
        if name not in ends and machine.memories[name].kind != "addressable":
            depths[name] = max(deepest, 1)
    found = [[name for name in own if depths[name] == depth] for depth in range(max(depths.values()) + 1)]
    return [layer for layer in found if layer]


def _memory_box(memory: Memory, machine: Machine) -> _Box:
    views = [
        m.name
        for m in machine.memories.values()
        if m.base is not None and _file(m.name, machine) == memory.name
    ]
    lines = [memory_text(memory), *([f"views: {', '.join(views)}"] if views else [])]
    return _Box(memory.name, "memory", tuple(lines))


def _unit_box(unit: Unit, use: _Use, far: Sequence[str]) -> _Box:
    peak = [f"{unit.products_per_cycle} products a cycle"] if unit.products_per_cycle else []
    reads, writes = ([name for name in far if name in side] for side in (use.reads, use.writes))
    beyond = [f"from {', '.join(reads)}"] * bool(reads) + [f"to {', '.join(writes)}"] * bool(writes)
    lines = [*peak, count_text(use.count, "instruction"), *([", ".join(beyond)] if beyond else [])]
    return _Box(f"{unit.name}", "unit", (f"× {unit.count}", *lines))


def _height(column: Sequence[_Box]) -> int:
    return sum(box.height + GAP for box in column) - GAP


def _placed_memories(columns: Sequence[Sequence[_Box]], far: Sequence[str], least: int) -> list[_Box]:
    """Return memories with their places. Each memory that units use has its own row."""
    near = [box for column in columns for box in column if box.name not in far]
    tops: dict[str, int] = {}
    y = start = TITLE + MARGIN + max(0, least - _height(near)) // 2
    for box in near:
        tops[box.name] = y
        y += box.height + GAP
    middle = (start + y - GAP) // 2
    placed: list[_Box] = []
    for number, column in enumerate(columns):
        x, own = MARGIN + number * (BOX_WIDTH + COLUMN_GAP), [box for box in column if box.name in far]
        top = max(TITLE + MARGIN, middle - _height(own) // 2)
        for box in column:
            placed.append(replace(box, x=x, y=tops.get(box.name, top)))
            top += box.height + GAP if box.name in far else 0
    return placed


def _placed_units(units: Sequence[_Box], memories: Sequence[_Box]) -> list[_Box]:
    """Return units in a column on the right, centred on the memories' height."""
    x = max(box.x for box in memories) + BOX_WIDTH + COLUMN_GAP
    top, bottom = min(box.y for box in memories), max(box.y + box.height for box in memories)
    y = max(TITLE + MARGIN, (top + bottom - _height(units)) // 2)
    placed: list[_Box] = []
    for box in units:
        placed.append(replace(box, x=x, y=y))
        y += box.height + GAP
    return placed


def _order_units(machine: Machine, uses: dict[str, _Use], memories: Sequence[_Box]) -> list[str]:
    """Return the units in the order of the memories that they use, so that few lines cross in the picture."""

    def height(unit: str) -> float:
        rows = [box.middle for box in memories if box.name in uses[unit].reads | uses[unit].writes]
        return sum(rows) / len(rows) if rows else 0.0

    return sorted(machine.units, key=height)


def _box_lines(box: _Box) -> Iterator[str]:
    radius = 12 if box.kind == "unit" else 3
    yield (
        f'<rect class="box {box.kind}" x="{box.x}" y="{box.y}" width="{BOX_WIDTH}" height="{box.height}" '
        f'rx="{radius}"/>'
    )
    yield f'<text class="name" x="{box.x + 12}" y="{box.y + 20}">{escape(box.name)}</text>'
    for number, line in enumerate(box.lines, 1):
        y = box.y + 20 + LINE * number
        yield f'<text class="soft" x="{box.x + 12}" y="{y}">{escape(shorten(line, FITTING))}</text>'


def _arrow(colour: str) -> str:
    return (
        f'<marker id="{colour}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="var(--{colour})"/></marker>'
    )


def _link_line(link: Link, boxes: dict[tuple[str, str], _Box], files: dict[str, str]) -> Iterator[str]:
    source, target = (boxes["memory", files[end]] for end in (link.source_memory, link.target_memory))
    if source == target:
        return
    x1, y2 = source.x + BOX_WIDTH, target.middle
    y1 = source.y + source.height - 7 if _is_near(source) else source.middle  # below the units' lines
    turn, middle = x1 + COLUMN_GAP, x1 + COLUMN_GAP // 2
    path = f"M{x1} {y1}C{middle} {y1} {middle} {y2} {turn} {y2}H{target.x}"
    yield f'<path class="link" d="{path}" marker-end="url(#soft)" marker-start="url(#soft)"/>'
    said = f"{link.bandwidth_bytes_per_ns:g} B/ns"
    lines = [said, "shared"] if link.shared else [said]
    for number, line in enumerate(lines):
        # On the side of the line that the bend does not come from.
        y = y2 - 8 - 13 * (len(lines) - 1 - number) if y1 >= y2 else y2 + 17 + 13 * number
        yield f'<text class="soft halo" x="{target.x - 12}" y="{y}" text-anchor="end">{line}</text>'


def _use_lines(
    boxes: dict[tuple[str, str], _Box], units: Sequence[str], uses: dict[str, _Use]
) -> Iterator[str]:
    """Yield a line from each unit to each near memory that it uses, with separate end points."""
    near = [b for (kind, _), b in boxes.items() if kind == "memory" and _is_near(b)]
    users = {box.name: [u for u in units if box.name in uses[u].reads | uses[u].writes] for box in near}
    last = min(boxes["unit", name].x for name in units) - COLUMN_GAP if units else 0
    for number, unit in enumerate(units):
        colour, end = f"c{number % COLOURS}", boxes["unit", unit]
        own = sorted((box for box in near if unit in users[box.name]), key=lambda box: box.middle)
        for place, box in enumerate(own):
            y1, y2 = (
                _port(box, users[box.name].index(unit), len(users[box.name])),
                _port(end, place, len(own)),
            )
            x1, middle = box.x + BOX_WIDTH, last + COLUMN_GAP // 2
            heads = f' marker-end="url(#{colour})"' if box.name in uses[unit].reads else ""
            heads += f' marker-start="url(#{colour})"' if box.name in uses[unit].writes else ""
            path = f"M{x1} {y1}H{last}C{middle} {y1} {middle} {y2} {end.x} {y2}"
            yield f'<path class="use" style="stroke: var(--{colour})" d="{path}"{heads}/>'


def _is_near(box: _Box) -> bool:
    return box.lines[0].split(",")[0] in ("registers", "scratchpad")


def _port(box: _Box, number: int, count: int) -> int:
    """Return the position at which line `number` meets the side of a box."""
    step = min(11.0, (box.height - 14) / max(1, count - 1))
    return round(box.middle + step * (number - (count - 1) / 2))
