"""The cache: private, verified at every use, limited, and whole whatever happens."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from isamap.source import Unkept, UsageProblem
from isamap.source.cache import Cache, cache_root, digest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))
    return Cache.open("things", limit_bytes=1000)


def test_what_is_kept_is_found_under_its_content(cache: Cache) -> None:
    path = cache.keep(digest("a"), b"content")
    assert cache.find(digest("a")) == path
    assert path.name == hashlib.sha256(b"content").hexdigest()
    assert cache.find(digest("b")) is None


def test_the_folder_is_the_users_alone(cache: Cache) -> None:
    assert cache_root().stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_write_to_is_refused(cache: Cache) -> None:
    cache_root().chmod(0o777)
    with pytest.raises(UsageProblem, match="others may write to it") as found:
        cache_root()
    assert found.value.diagnostics[0].code == "cache-not-private"


def test_a_damaged_object_is_made_again(cache: Cache) -> None:
    path = cache.keep(digest("a"), b"content")
    path.write_bytes(b"contens")
    assert cache.find(digest("a")) is None
    assert not path.exists()
    assert cache.keep(digest("a"), b"content").read_bytes() == b"content"


@pytest.mark.parametrize("text", ["", "../../../etc/passwd", "0" * 63])
def test_a_damaged_key_is_not_followed(cache: Cache, text: str) -> None:
    cache.keep(digest("a"), b"content")
    (cache.folder / "keys" / digest("a")).write_text(text)
    assert cache.find(digest("a")) is None


def test_what_was_not_used_for_longest_goes_first(cache: Cache) -> None:
    paths = [cache.keep(digest(str(n)), bytes([n]) * 300) for n in range(3)]
    for age, path in zip((3000, 1000, 2000), paths, strict=True):
        stamp = path.stat().st_mtime - age
        os.utime(path, (stamp, stamp))
    assert cache.find(digest("0")) is not None  # a use
    cache.keep(digest("3"), b"x" * 300)
    assert [n for n in range(4) if cache.find(digest(str(n)))] == [0, 3]
    assert sorted(k.name for k in (cache.folder / "keys").iterdir()) == sorted(digest(n) for n in "03")


def test_nothing_half_written_stays_behind(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(Unkept, match="No space"):
        cache.keep(digest("a"), b"content")
    assert list((cache.folder / "objects").iterdir()) == []


def test_digests_tell_lists_apart() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") == digest(b"a")
