"""Write the files of `compile --report` and `--trace`: one file by its ending, or a folder of pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import write_text
from isamap.cli.option_parser import one_word
from isamap.cli.terminal import takes_unicode
from isamap.source import Diagnostic, UsageProblem, open_regular, unwritable
from isamap.source.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from isamap.driver.pipeline import Compilation
    from isamap.driver.request import Request
    from isamap.report.page.report_facts import Report

ENDINGS = (".html", ".txt", ".json")
SHOWN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The reports to write; None for those that were not requested."""

    report: str | None = one_word(
        "--report", "PATH",
        "Also write a report on the compilation, for example `--report gemm.html`. The ending selects the format: "
        ".html is a page with pictures, .txt is text (`-` prints it), .json has the facts; a FOLDER gets all of "
        "them and each picture as SVG. By default no report is written.",
    )  # fmt: skip
    trace: str | None = one_word(
        "--trace", "FILE",
        "Simulate a call, and write when each unit, transfer and buffer is busy: a trace for Perfetto.",
    )  # fmt: skip


def check_places(shown: Shown, *, force: bool) -> None:
    """Nothing, where both may be written: asked before long work. Raises: UsageProblem."""
    from isamap.driver.artifacts import check_replaceable

    if shown.trace is not None:
        _check_file(Path(shown.trace), force)
    if shown.report is None or shown.report == SHOWN:
        return
    path = Path(shown.report)
    if path.suffix in ENDINGS:
        _check_file(path, force)
    elif path.suffix and not path.is_dir():
        said = f"`--report` cannot tell from `{path.suffix}` what to write"
        advice = f"name a file that ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, or a folder"
        raise UsageProblem(Diagnostic("usage", said, help=advice))
    else:
        check_replaceable(path, force=force)


def _check_file(path: Path, force: bool) -> None:
    """Refuse to replace a file, unless isamap wrote it and nothing has changed it since."""
    from isamap.report.page.stamp import is_as_stamped, is_stamped

    if not path.parent.is_dir():
        raise unwritable(path, "there is no such folder")
    if path.is_dir():
        raise unwritable(path, "it is a folder")
    if force or not path.exists():
        return
    try:
        with open_regular(path) as file:
            text = file.read().decode("utf-8")
    except OSError as error:
        raise unwritable(path, error) from None
    except UnicodeDecodeError:
        text = ""
    if not is_stamped(text):
        said = f"{path} is not replaced: isamap did not write it"
        raise UsageProblem(
            Diagnostic("output-in-the-way", said, help="name another file; `--force` replaces it")
        )
    if not is_as_stamped(text):
        said = f"{path} is not replaced: it was changed since isamap wrote it"
        advice = "keep a copy elsewhere, or name another file; `--force` replaces it"
        raise UsageProblem(Diagnostic("output-edited", said, help=advice))


def write_reports(
    request: Request,
    made: Compilation,
    shown: Shown,
    progress: Callable[[str], None],
    *,
    force: bool,
) -> tuple[list[str], str]:
    """Return the paths written, and what is to be printed."""
    from isamap.driver.reporting import recording_of, report_of, trace_of
    from isamap.report.page.stamp import stamped

    recorded = recording_of(request, made, progress, is_recorded=shown.trace is not None)
    paths: list[str] = []
    text = ""
    check_places(shown, force=force)  # once more: compiling may have taken long
    if shown.report is not None:
        paths, text = _write_report(report_of(request, made, recorded, progress), shown.report, force)
    if shown.trace is not None:
        write_text(Path(shown.trace), stamped(trace_of(request, made, recorded)), overwrite=True)
        paths.append(shown.trace)
    return paths, text


def _write_report(report: Report, place: str, force: bool) -> tuple[list[str], str]:
    from isamap.driver.artifacts import write_folder
    from isamap.report.page.as_text import PLAIN, report_text

    if place == SHOWN:
        text = report_text(report)
        return [], text if takes_unicode() else text.translate(PLAIN)
    path = Path(place)
    if path.suffix in ENDINGS:
        write_text(path, _as_file(report, path.suffix), overwrite=True)
        return [place], ""
    return [str(one) for one in write_folder(path, _folder(report), force=force)], ""


def _as_file(report: Report, ending: str) -> str:
    from isamap.report.page.as_html import report_html
    from isamap.report.page.as_json import report_json
    from isamap.report.page.as_text import report_text
    from isamap.report.page.stamp import STAMP, stamped

    match ending:
        case ".html":
            return stamped(report_html(report))
        case ".json":
            whole = {"made_by": STAMP, **report_json(report)}
            return stamped(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
        case _:
            return stamped(f"{report_text(report)}\n{STAMP}\n")


def _folder(report: Report) -> dict[str, str]:
    """Return the files of a folder by name."""
    from isamap.driver.artifacts import manifest_text
    from isamap.report.page.pictures import all_pictures

    names = {"index.html": ".html", "report.txt": ".txt", "report.json": ".json"}
    files = {name: _as_file(report, ending) for name, ending in names.items()}
    for picture in all_pictures(report):
        files[f"{picture.name}.svg"] = picture.svg()
        files[f"{picture.name}.txt"] = f"{picture.text}\n"
    summary = {"kernel": report.kernel, "machine": report.machine, "sizes": report.sizes}
    files["manifest.json"] = manifest_text(summary, files)
    return files
