"""The door of all readers: regular files only; a file that another one names lies in its folder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from isamap.source import (
    LeavesFolder,
    map_file,
    open_in_folder,
    open_regular,
    read_json,
    read_limited,
    read_part,
)
from isamap.source import files as door


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with files, and links, beside a file that is not its own."""
    (tmp_path / "secret").write_bytes(b"secret")
    made = tmp_path / "folder"
    (made / "in").mkdir(parents=True)
    (made / "in" / "own").write_bytes(b"own")
    (made / "link").symlink_to("in/own")
    (made / "in" / "out").symlink_to(tmp_path / "secret")
    (made / "up").symlink_to("..")
    (made / "hard").hardlink_to(tmp_path / "secret")
    (made / "round").symlink_to("round")
    os.mkfifo(made / "pipe")
    (made / "zeros").symlink_to("/dev/zero")
    for number in range(3000):
        (made / f"chain{number}").symlink_to(f"chain{number + 1}")
    return made


def test_a_file_of_the_folder_is_opened_also_by_a_link_inside(folder: Path) -> None:
    for name in ("in/own", "./in/own", "link"):
        with open_in_folder(folder, name) as file:
            assert file.read() == b"own"


@pytest.mark.parametrize("name", ["../secret", "in/../../secret", "in/out", "up/secret", "hard", "zeros"])
def test_a_file_that_leaves_the_folder_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(LeavesFolder):
        open_in_folder(folder, name)


def test_a_whole_path_is_refused_also_one_of_the_folder(folder: Path) -> None:
    with pytest.raises(LeavesFolder):
        open_in_folder(folder, str(folder / "in" / "own"))


@pytest.mark.parametrize(
    "name", ["", ".", "in", "pipe", "round", "none", "in/own/x", "a\0b", "\ud800", "x" * 5000, "chain0"]
)
def test_what_is_no_regular_file_of_the_folder_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(OSError, match=r".") as found:
        open_in_folder(folder, name)
    assert not isinstance(found.value, LeavesFolder)
    assert found.value.strerror


@pytest.mark.parametrize("name", ["link", "in/own"])
def test_a_link_that_is_made_while_a_file_is_opened_is_not_followed(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.path.realpath

    def exchanged(path: str | Path) -> str:
        found = real(path)
        if not (folder / "elsewhere").exists() and Path(found).name == "own":
            (folder / "in").rename(folder / "elsewhere")
            (folder.parent / "own").write_bytes(b"secret")
            (folder / "in").symlink_to("..")
        return found

    monkeypatch.setattr(os.path, "realpath", exchanged)
    with pytest.raises(OSError, match=r"."):
        open_in_folder(folder, name)


@pytest.mark.parametrize("walks", [True, False])
def test_where_no_folder_can_be_walked_the_same_is_refused(
    folder: Path, walks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_WALKS", walks)
    with open_in_folder(folder, "link") as file:
        assert file.read() == b"own"
    for name in ("../secret", "in/out", "hard", "pipe", "."):
        with pytest.raises(OSError, match=r"."):
            open_in_folder(folder, name)


def test_no_pipe_no_device_no_socket_and_no_folder_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as served:
        served.bind(str(tmp_path / "socket"))

    def fail(*_: object, **__: object) -> int:
        pytest.fail("it was opened")

    monkeypatch.setattr(os, "open", fail)
    for path in (tmp_path / "pipe", tmp_path / "socket", tmp_path, Path("/dev/zero"), Path("/dev/tty")):
        with pytest.raises(OSError, match="it is not a regular file"):
            open_regular(path)


def test_a_pipe_that_takes_a_files_place_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    status = (tmp_path / "file").stat()

    def say_file(*_: object, **__: object) -> os.stat_result:
        return status

    monkeypatch.setattr(os, "stat", say_file)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="it is not a regular file"):
        open_regular(tmp_path / "pipe")
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_descriptor_stays_open(folder: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for name in ("in/own", "hard", "in/out", "pipe", "in/own/x", "", "none"):
        try:
            open_in_folder(folder, name).close()
        except OSError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_part_is_read_whole_or_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(10)))
    with open_regular(tmp_path / "file") as file:
        assert read_part(file, 8, 2) == bytes([8, 9])
        assert read_part(file, 10, 0) == b""
        for start, size in ((9, 2), (-1, 1), (1, -1), (0, 1 << 70)):
            with pytest.raises(OSError, match="it has 10 bytes"):
                read_part(file, start, size)


def test_a_sparse_file_takes_memory_where_it_is_looked_at(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(b"isamap")
        file.truncate(1 << 34)
    with open_regular(tmp_path / "file") as file:
        mapped = map_file(file)
    assert (mapped[:7].tobytes(), len(mapped)) == (b"isamap\0", 1 << 34)
    (tmp_path / "empty").touch()
    with open_regular(tmp_path / "empty") as file:
        assert len(map_file(file)) == 0


def test_one_byte_more_than_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_limited(tmp_path / "file", 3) == b"1234"
    assert read_limited(tmp_path / "file", 8) == b"12345"


def test_json_that_says_one_thing_is_read() -> None:
    assert read_json('{"a": [1, 2.5, -1e-400, true, null], "b": {"a": 1}}') == {
        "a": [1, 2.5, 0.0, True, None],
        "b": {"a": 1},
    }
    assert read_json(b"[]") == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' twice"),
        ("[NaN]", "NaN is not a number"),
        ("[-Infinity]", "-Infinity is not a number"),
        ("[1e999]", "the number 1e999 is beyond all floats"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 5000, "digits"),
        ("", "Expecting value"),
        (b"\xff\xfe", "decode"),
    ],
)
def test_other_json_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_json(text)
