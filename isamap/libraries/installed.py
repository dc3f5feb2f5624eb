"""Find installed libraries, in Python packages or in the operating system's folders.

find_installed(shipped_library("openblas"))  ->  the newest file that its description names, or None
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path

from isamap.libraries.description import Library, LibraryLocation
from isamap.source.records import dataclass

_FOLDERS = ("/usr/local/lib", "/usr/lib", "/usr/lib64", "/lib", "/lib64")


@dataclass(frozen=True, slots=True)
class InstalledLibrary:
    """A library's file. `origin` is its source as text."""

    library: Library
    path: Path
    origin: str

    @property
    def link(self) -> str:
        """The linker argument."""
        return self.library.link.replace("$FILE", self.path.name)


def find_installed(library: Library) -> InstalledLibrary | None:
    """Return the first existing file of a library, or None."""
    for place in library.places:
        found = _in_package(place) if place.package else _in_system(place, library.folder)
        if found is not None:
            path = found.resolve()
            origin = f"{place.package} {version(place.package)}" if place.package else path.name
            return InstalledLibrary(library, path, origin)
    return None


def _in_package(place: LibraryLocation) -> Path | None:
    try:
        listed = files(place.package) or ()
    except PackageNotFoundError:
        return None
    named = (Path(str(f.locate())) for f in listed if fnmatch(f.name, place.file))
    return max((path for path in named if path.is_file()), default=None)


def _in_system(place: LibraryLocation, folder: Path) -> Path | None:
    """Return a library's file in the loader's folders, or relative to the description's folder, or None."""
    if os.sep in place.file:
        path = folder / place.file
        return path if path.is_file() else None
    # No glob: its `**` would look through all folders inside.
    found = (path for one in _folders() for path in one.iterdir() if fnmatch(path.name, place.file))
    # Of versions the newest, and the name with which programs are linked behind those that are loaded.
    return max((path for path in found if path.is_file()), key=lambda p: (len(p.name), p.name), default=None)


def _folders() -> Iterator[Path]:
    for text in (*os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep), *_FOLDERS):
        folder = Path(text)
        if text and folder.is_dir():
            yield folder
            yield from (one for one in folder.glob("*-linux-gnu") if one.is_dir())
