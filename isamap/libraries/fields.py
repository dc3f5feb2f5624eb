"""The keys of descriptions of libraries and of the interfaces that they speak."""

from __future__ import annotations

from isamap.machine.families import ROWS
from isamap.machine.keys import COUNT, TEXT, Keys, ListOf, NamedBy

FORM = Keys({"kernel": TEXT, "arguments": ListOf(TEXT, 1)}, ("kernel", "arguments"))
CALL = Keys(
    {"for": ROWS, "layouts": ROWS, "prototype": TEXT, "features": ListOf(TEXT), "forms": ListOf(FORM, 1)},
    ("prototype", "forms"),
)
FILE = Keys({"package": TEXT, "file": TEXT}, ("file",))
INTERFACE = Keys(
    {"isamap": COUNT, "interface": TEXT, "summary": TEXT, "source": TEXT, "calls": ListOf(CALL, 1)},
    ("isamap", "interface", "summary", "calls"),
)
LIBRARY = Keys(
    {
        "isamap": COUNT,
        "library": TEXT,
        "summary": TEXT,
        "source": TEXT,
        "interfaces": ListOf(TEXT),
        "types": NamedBy(TEXT),
        "symbols": TEXT,
        "files": ListOf(FILE, 1),
        "link": TEXT,
        "threads": ListOf(TEXT),
        "environment": NamedBy(TEXT),
        "calls": ListOf(CALL),
    },
    ("isamap", "library", "summary", "files", "link"),
)
