"""The cache: files stored under the sha256 of all inputs of their content.

    cache = Cache.open("libraries")
    cache.find(key)  # the path of a verified file, or None

Objects are named by the sha256 of their content, which is checked at every use. A key is a small file that
names an object. Both are written under a temporary name and then renamed, so that a process may be killed
at any moment. A folder that cannot be used raises `Unkept`. The result is then returned with a warning.

The module also lists the kinds in the cache with their sizes, finds damaged entries, and clears the cache.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from isamap.source.diagnostic import OnlyWarned, Unkept, UsageProblem
from isamap.source.files import open_regular, read_limited, replace_file
from isamap.source.records import dataclass
from isamap.version import __version__

SIZE_LIMIT_BYTES = 256 << 20
_AFTER_EVICTION = 0.8
_ROOM_SHARE = 16
"""Other processes keep results at the same time, so that each takes only a part of the room for granted."""
_room: dict[Path, int] = {}
"""The bytes that this process may still put into a folder before it lists it again."""
MOST_BYTES = 64 << 20
"""The largest content that is read as a whole."""
T = TypeVar("T")
kept_here: Counter[str] = Counter()
"""The number of results of each kind that this process has cached."""


def cache_root() -> Path:
    """Return the user's private cache folder. `ISAMAP_CACHE_DIR` names another one.

    Raises: Unkept if it cannot be used; UsageProblem if others may write to it.
    """
    given = os.environ.get("ISAMAP_CACHE_DIR")
    if given:
        return private_folder(Path(given), "cache", "ISAMAP_CACHE_DIR")
    from platformdirs import user_cache_path

    return private_folder(user_cache_path("isamap", appauthor=False), "cache", "ISAMAP_CACHE_DIR")


def private_folder(root: Path, what: str, variable: str) -> Path:
    """Return a private folder of the user, created if missing. `variable` can name another one.

    Raises: Unkept if it cannot be used; UsageProblem if others may write to it.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.stat()
    except OSError as error:
        raise _unusable(root, what, variable, error) from error
    if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
        why = "others may write to it, and its content is executed"
        if what != "cache":
            why = "others may write to it, and its content determines the code"
        raise _refuse_folder(root, what, variable, why)
    return root


@cache
def own_root() -> Path:
    """Return a private folder of this process, which is deleted when the process ends."""
    root, owner = Path(tempfile.mkdtemp(prefix="isamap-")), os.getpid()

    @atexit.register
    def _remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(root, ignore_errors=True)

    return root


def digest(*parts: bytes | str) -> str:
    """Return the sha256 of texts with their lengths, so that different lists never have equal input."""
    state = hashlib.sha256()
    for part in parts:
        # Names of files may hold bytes that are no UTF-8, which Python has as surrogates.
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()


@cache
def program_state() -> str:
    """Return a digest that changes with any file of this program."""
    state = hashlib.sha256(f"{__version__} {sys.version}".encode())
    folders = [str(Path(__file__).resolve().parents[1])]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.endswith((".py", ".lark", ".json", ".c", ".h", ".ir", ".toml", ".yaml")):
                    status = entry.stat()
                    state.update(f"{entry.path} {status.st_size} {status.st_mtime_ns}\n".encode())
                elif "." not in entry.name and entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return state.hexdigest()


@dataclass(frozen=True, slots=True)
class Cache:
    """One kind of files in the cache."""

    folder: Path
    limit_bytes: int = SIZE_LIMIT_BYTES

    @staticmethod
    def open(kind: str, limit_bytes: int = SIZE_LIMIT_BYTES) -> Cache:
        """Return the cache for a kind of files, in the user's cache folder. Raises: Unkept, UsageProblem."""
        return Cache.open_in(cache_root(), kind, limit_bytes)

    @staticmethod
    def open_in(root: Path, kind: str, limit_bytes: int = SIZE_LIMIT_BYTES) -> Cache:
        """Return the cache for a kind of files, in a given folder. Raises: Unkept if it cannot be created."""
        folder = root / kind
        try:
            for part in (folder, folder / "keys", folder / "objects"):
                part.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise _unusable(root, "cache", "ISAMAP_CACHE_DIR", error) from error
        return Cache(folder, limit_bytes)

    def find(self, key: str) -> Path | None:
        """Return the verified file of a key, or None if there is none or it is damaged."""
        try:
            name = _read_object_name(self.folder / "keys" / key)
            if not DIGEST.fullmatch(name):
                return None
            path = self.folder / "objects" / name
            if not _is_whole(path):
                path.unlink(missing_ok=True)
                return None
        except (OSError, UnicodeDecodeError):
            return None
        with suppress(OSError):
            os.utime(path)  # the time of use, which eviction goes by
        return path

    def keep(self, key: str, content: bytes) -> Path:
        """Store content under a key and return its path. Raises: Unkept if it cannot be written."""
        name = hashlib.sha256(content).hexdigest()
        path = self.folder / "objects" / name
        try:
            replace_file(path, content, 0o700)
            replace_file(self.folder / "keys" / key, name.encode(), 0o700)
            self._evict(path, len(content))
        except OSError as error:
            raise _unusable(self.folder.parent, "cache", "ISAMAP_CACHE_DIR", error) from error
        kept_here[self.folder.name] += 1
        return path

    def _evict(self, kept: Path, size: int) -> None:
        """Delete the least recently used objects while the total exceeds the limit.

        The folder is listed again once this process has put a share of the free room there.
        """
        _room[self.folder] = _room.get(self.folder, 0) - size
        if _room[self.folder] > 0:
            return
        found: list[tuple[float, int, str]] = []
        with os.scandir(self.folder / "objects") as entries:
            for entry in entries:
                with suppress(OSError):
                    status = entry.stat()
                    found.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in found)
        _room[self.folder] = (self.limit_bytes - total) // _ROOM_SHARE
        if total <= self.limit_bytes:
            return
        for _, size, path in sorted(found):
            if total <= self.limit_bytes * _AFTER_EVICTION:
                break
            if path != str(kept):
                with suppress(OSError):
                    os.unlink(path)
                total -= size
        self._forget_lost_keys()

    def _forget_lost_keys(self) -> None:
        for key in (self.folder / "keys").iterdir():
            with suppress(OSError, UnicodeDecodeError):
                if not (self.folder / "objects" / _read_object_name(key)).exists():
                    key.unlink()


def recall_or_make(
    kind: str, key: str, read: Callable[[bytes], T | None], make: Callable[[], T], write: Callable[[T], bytes]
) -> T:
    """Return the cached value, decoded by `read`. Without one, return and cache the value of `make`.

    A folder that cannot be used only costs time. `read` returns None for content that `write` has not made.
    """
    found = None
    with OnlyWarned(), suppress(UsageProblem):  # commands that keep results say that it is not private
        found = Cache.open(kind)
    if found is not None and (path := found.find(key)) is not None:
        with suppress(OSError):
            if (value := read(read_limited(path, MOST_BYTES))) is not None:
                return value
    value = make()
    if found is not None:
        with OnlyWarned():
            found.keep(key, write(value))
    return value


def recall_content(kind: str, key: str | None) -> bytes | None:
    """Return the cached content of a key, or None if there is none or the cache is unusable."""
    with OnlyWarned(), suppress(OSError):
        path = Cache.open(kind).find(key) if key is not None else None
        return path.read_bytes() if path is not None else None
    return None


def remember_content(kind: str, key: str, content: str) -> None:
    """Cache a text under a key, unless the cache is unusable."""
    with OnlyWarned():
        Cache.open(kind).keep(key, content.encode())


def _read_object_name(key: Path) -> str:
    """Return the name of an object from its key file. Raises: OSError, UnicodeDecodeError."""
    return read_limited(key, DIGEST_CHARACTERS).decode("ascii")


def _is_whole(path: Path) -> bool:
    """Return whether an object is a regular file whose content has the digest in its name. Raises: OSError."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == path.name
    except OSError:
        if path.exists():  # a pipe or a folder, which was not put there by the cache
            return False
        raise


def _unusable(root: Path, what: str, variable: str, error: OSError) -> Unkept:
    return Unkept.of(
        f"{what}-unusable",
        f"the {what} folder {root} cannot be used: {error.strerror}",
        help=f"correct that, or name another folder with {variable}",
    )


def _refuse_folder(root: Path, what: str, variable: str, why: str) -> UsageProblem:
    return UsageProblem.of(
        f"{what}-not-private",
        f"the {what} folder {root} is refused: {why}",
        help=f"name another with {variable}, or make it your own (chmod 700)",
    )


PARTS = ("keys", "objects")
DIGEST_CHARACTERS = 64
DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST_CHARACTERS}}}")


@dataclass(frozen=True, slots=True)
class CacheKind:
    """One kind of results. Units: bytes; `last_use` in seconds since 1970, or 0 if empty."""

    name: str
    entries: int
    size_bytes: int
    last_use: float

    @property
    def idle_days(self) -> float:
        """The days since any of the results was used."""
        return max(0.0, time.time() - self.last_use) / 86400 if self.last_use else 0.0


def kinds() -> tuple[CacheKind, ...]:
    """Return all kinds in the cache, by name. Raises: UsageProblem if the cache is unusable."""
    return tuple(_kind(folder) for folder in _folders())


def list_damaged() -> tuple[Path, ...]:
    """Return the objects whose content does not match their name."""
    return tuple(
        path for folder in _folders() for path in sorted(_files(folder / "objects")) if not _is_whole(path)
    )


def clear(name: str | None = None) -> tuple[CacheKind, ...]:
    """Delete the results of one kind, or of all, and return the kinds as they were before."""
    found = tuple(kind for kind in kinds() if name in (None, kind.name))
    for kind in found:
        for part in PARTS:  # keys first: none of them names an object that is gone
            for path in _files(cache_root() / kind.name / part):
                path.unlink(missing_ok=True)
    return found


def _folders() -> list[Path]:
    """Return the folders of kinds, without folders that the cache did not create."""
    found = sorted(path for path in cache_root().iterdir() if path.is_dir() and not path.is_symlink())
    return [path for path in found if {p.name for p in path.iterdir()} == set(PARTS)]


def _kind(folder: Path) -> CacheKind:
    statuses: list[os.stat_result] = []
    for part in PARTS:
        for path in _files(folder / part):
            with suppress(OSError):
                statuses.append(path.stat())
    return CacheKind(
        folder.name,
        sum(1 for _ in _files(folder / "keys")),
        sum(status.st_size for status in statuses),
        max((status.st_mtime for status in statuses), default=0.0),
    )


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder whose names are digests."""
    yield from (path for path in folder.iterdir() if DIGEST.fullmatch(path.name) and path.is_file())
