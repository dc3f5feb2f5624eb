"""Colours of pictures are told apart by readers of all four kinds of colour vision, in both modes."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from isamap.report.picture import COLOURS, STYLE

Colour = tuple[float, float, float]

# Machado, Oliveira and Fernandes, A model for simulation of color vision deficiency, TVCG 15, 2009.
VISIONS: dict[str, tuple[Colour, Colour, Colour]] = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "no green": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "no blue": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
LIGHT, DARK = STYLE.split("@media")
# What is seen as another colour at a glance; 2.3 is just noticeable.
APART = 20


def colours(mode: str) -> list[Colour]:
    """Linear light of the colours that tell lines apart."""
    found = [re.search(rf"--c{n}: #([0-9a-f]{{6}})", mode) for n in range(COLOURS)]
    return [linear(match[1]) for match in found if match is not None]


def linear(code: str) -> Colour:
    red, green, blue = (int(code[at : at + 2], 16) / 255 for at in (0, 2, 4))
    return bent(red), bent(green), bent(blue)


def bent(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def lab(light: Colour) -> Colour:
    """CIE L*a*b* under D65."""
    red, green, blue = light
    x = root((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047)
    y = root(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    z = root((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def root(part: float) -> float:
    return part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116


def seen(light: Colour, vision: tuple[Colour, Colour, Colour]) -> Colour:
    red, green, blue = (sum(a * b for a, b in zip(row, light, strict=True)) for row in vision)
    return lab((min(1, max(0, red)), min(1, max(0, green)), min(1, max(0, blue))))


@pytest.mark.parametrize("mode", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS.values(), ids=VISIONS)
def test_any_two_colours_are_seen_apart(vision: tuple[Colour, Colour, Colour], mode: str) -> None:
    found = [seen(light, vision) for light in colours(mode)]
    assert len(found) == COLOURS
    for one, other in combinations(found, 2):
        assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5 >= APART
