"""A folder takes another's place at once, while other processes write, read, edit or were killed there."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from isamap.driver import artifacts
from isamap.driver.artifacts import replace_folder

WRITERS, TIMES = 4, 25


def filled(text: str) -> Callable[[Path], None]:
    def fill(made: Path) -> None:
        for name in ("one", "other"):
            (made / name).write_text(text, encoding="utf-8")

    return fill


def texts(folder: Path) -> set[str]:
    return {path.read_text(encoding="utf-8") for path in folder.iterdir()}


def never(folder: Path) -> None:
    """Refuses nothing."""


def forked(run: Callable[[], None]) -> int:
    """Return a process that runs this; 0 is its exit code where nothing is raised."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run()
        code = 0
    finally:
        os._exit(code)


def test_all_writers_succeed_and_a_reader_always_finds_a_whole_folder(tmp_path: Path) -> None:
    place = tmp_path / "out"
    replace_folder(place, filled("first"), never)

    def write() -> None:
        for number in range(TIMES):
            replace_folder(place, filled(f"{os.getpid()} {number}"), never)

    running = {forked(write) for _ in range(WRITERS)}
    codes: list[int] = []
    while running:
        handle = os.open(place, os.O_RDONLY)  # there at any time, and whole
        try:
            found = os.listdir(handle)
        finally:
            os.close(handle)
        # A folder that was just taken away loses its files one by one while it is open.
        assert set(found) <= {"one", "other"}
        for child in list(running):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                running.remove(child)
                codes.append(status)
    assert codes == [0] * WRITERS
    assert len(texts(place)) == 1
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("step", ["mkdtemp", "rmtree"])
def test_what_a_killed_writer_left_is_swept_by_the_next_one(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "out"
    replace_folder(place, filled("old"), never)

    def killed() -> None:
        def die(*_: object, **__: object) -> str:
            if step == "mkdtemp":
                os.mkdir(tmp_path / ".out.isamap-half")
            os.kill(os.getpid(), signal.SIGKILL)
            return ""

        module = artifacts.tempfile if step == "mkdtemp" else artifacts.shutil
        monkeypatch.setattr(module, step, die)
        replace_folder(place, filled("new"), never)

    _, status = os.waitpid(forked(killed), 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert texts(place) == ({"old"} if step == "mkdtemp" else {"new"})
    assert len(os.listdir(tmp_path)) == 2
    replace_folder(place, filled("newer"), never)
    assert os.listdir(tmp_path) == ["out"]
    assert texts(place) == {"newer"}


def test_an_edit_while_the_new_folder_is_made_brings_the_old_one_back(tmp_path: Path) -> None:
    place = tmp_path / "out"
    replace_folder(place, filled("old"), never)

    def fill(made: Path) -> None:
        filled("new")(made)
        (place / "one").write_text("edited", encoding="utf-8")

    def check(there: Path) -> None:
        if "edited" in texts(there):
            raise ValueError("edited")

    with pytest.raises(ValueError, match="edited"):
        replace_folder(place, fill, check)
    assert texts(place) == {"old", "edited"}
    assert os.listdir(tmp_path) == ["out"]


def test_without_an_exchange_the_folder_is_replaced_by_two_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(one: Path, other: Path) -> bool:
        return False

    monkeypatch.setattr(artifacts, "_exchange", lacking)
    for text in ("one", "two"):
        replace_folder(tmp_path / "out", filled(text), never)
    assert texts(tmp_path / "out") == {"two"}
    assert os.listdir(tmp_path) == ["out"]


def test_a_lock_that_is_never_given_up_does_not_stop_a_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "PATIENCE_S", 0.02)
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        replace_folder(tmp_path / "out", filled("one"), never)
    finally:
        os.close(handle)
    assert texts(tmp_path / "out") == {"one"}
