"""A wheel built from an archive of the sources is complete, also where links were lost on the way."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALLED_INSIDE = ("hw_specs", "kernels", "scheduler")

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def archive() -> zipfile.ZipFile:
    """Return a zip of HEAD, as a hosting site offers it."""
    command = ["git", "-c", f"safe.directory={ROOT}", "archive", "--format=zip", "HEAD"]
    try:
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs git and a clone: {error}")
    return zipfile.ZipFile(io.BytesIO(done.stdout))


@pytest.fixture(scope="module")
def wheel(archive: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel built from the archive. Unpacked by zipfile, each link is a text file holding its target."""
    sources = tmp_path_factory.mktemp("sources")
    archive.extractall(sources)
    assert (sources / "isamap/scheduler").read_text(encoding="utf-8") == "../scheduler"
    # Without isolation: the build's requirements are here already, and no test uses the network.
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(command, cwd=sources, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (sources / "dist").glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_every_package(archive: zipfile.ZipFile, wheel: Path) -> None:
    expected = sorted(_installed_name(name) for name in archive.namelist() if _is_packaged(name))
    content = [n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n]
    assert sorted(content) == expected


def test_the_wheel_carries_the_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [n for n in names if PurePosixPath(n).name == "LICENSE"]


def test_equal_sources_give_equal_bytes_whatever_their_times_and_modes(
    archive: zipfile.ZipFile, tmp_path: Path
) -> None:
    built: list[dict[str, bytes]] = []
    for number, mode in enumerate((0o644, 0o664)):
        sources = tmp_path / f"sources{number}"
        archive.extractall(sources)
        for path in sources.rglob("*"):
            if path.is_file():
                path.chmod(mode)
                os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."]
        done = subprocess.run(command, cwd=sources, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        built.append({path.name: path.read_bytes() for path in (sources / "dist").iterdir()})
    assert {Path(name).suffix for name in built[0]} == {".whl", ".gz"}
    assert built[0] == built[1]


def test_an_installed_wheel_lists_all_machines_and_kernels(
    archive: zipfile.ZipFile, wheel: Path, tmp_path: Path
) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = (
        "import importlib.resources as r\n"
        "def show(folder, path):\n"
        "    for f in folder.iterdir():\n"
        "        if f.is_dir(): show(f, path + '/' + f.name)\n"
        "        elif f.name.endswith(('.yaml', '.ir')): print(path + '/' + f.name)\n"
        "for package in ('hw_specs', 'kernels'): show(r.files('isamap.' + package), package)\n"
    )
    listed = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    shipped = [
        name
        for name in archive.namelist()
        if name.startswith(("hw_specs/", "kernels/")) and not name.endswith("/")
    ]
    assert sorted(listed.split()) == sorted(n for n in shipped if n.endswith((".yaml", ".ir")))


def _is_packaged(name: str) -> bool:
    """Return whether a file of the archive belongs into the wheel; the links themselves do not."""
    top = name.split("/", maxsplit=1)[0]
    is_link = name in {f"isamap/{folder}" for folder in INSTALLED_INSIDE}
    return top in ("isamap", *INSTALLED_INSIDE) and not name.endswith("/") and not is_link


def _installed_name(name: str) -> str:
    return name if name.startswith("isamap/") else f"isamap/{name}"
