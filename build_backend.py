"""Build wheels and source distributions whose bytes depend on the sources alone.

setuptools writes them; then each file in them gets a fixed time, owner and mode. `SOURCE_DATE_EPOCH` sets the time.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import (  # the other hooks of PEP 517 and PEP 660, unchanged
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

OLDEST = 315532800  # 1980: a zip has no earlier time
Settings = Mapping[str, str | list[str] | None] | None


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel and return its name."""
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    path, at = Path(wheel_directory, name), time.gmtime(_epoch())[:6]
    with zipfile.ZipFile(path) as old:
        held = [(info.filename, old.read(info)) for info in old.infolist() if not info.is_dir()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for filename, data in held:
            info = zipfile.ZipInfo(filename, at)
            info.external_attr = 0o100644 << 16
            new.writestr(info, data, zipfile.ZIP_DEFLATED)
    return name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Build a source distribution and return its name."""
    name = build_meta.build_sdist(sdist_directory, config_settings)
    path, raw = Path(sdist_directory, name), io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted((one for one in old.getmembers() if one.isfile()), key=lambda one: one.name):
            info = tarfile.TarInfo(member.name)
            info.size, info.mtime, info.mode = member.size, _epoch(), 0o644
            new.addfile(info, old.extractfile(member))
    path.write_bytes(gzip.compress(raw.getvalue(), mtime=_epoch()))
    return name


def _epoch() -> int:
    return max(OLDEST, int(os.environ.get("SOURCE_DATE_EPOCH", OLDEST)))
