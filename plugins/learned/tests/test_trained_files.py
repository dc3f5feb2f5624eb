"""Files of learned models: read as data, and refused with a reason."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from isamap_learned.__main__ import main
from isamap_learned.features import FEATURES, FEATURES_VERSION
from isamap_learned.learned import Learned, ModelUnusable, parse_trained, read_trained

from isamap.plan.plugins import load_evaluator
from isamap.source import UsageProblem


def trained(**change: Any) -> str:
    tree = {
        "feature": [0, -1, -1],
        "threshold": [0.5, 0, 0],
        "below": [1, 0, 0],
        "above": [2, 0, 0],
        "value": [0, 0.1, -0.1],
    }
    whole = {"isamap_cost_model": 1, "features_version": FEATURES_VERSION, "features": list(FEATURES[:2])}
    return json.dumps(whole | {"card": {}, "start": 0.0, "trees": [tree]} | change)


def test_a_learned_model_is_read() -> None:
    assert len(parse_trained("m", trained()).forest.trees) == 1


@pytest.mark.parametrize(
    "text",
    [
        trained(start=1e4),
        trained(start=-1e4),
        trained(start=10**400),
        trained(start=True),
        trained(features=[["x"]]),
        trained(features=[FEATURES[0]] * 2),
        trained(features="issues"),
        trained(trees=[3]),
        trained(card=3),
        trained(isamap_cost_model={}),
        trained(isamap_cost_model=[10**300]),
        trained().replace("0.5", "1e999"),
        trained().replace('"start"', '"start": 1, "start"'),
        "[" * 100_000,
        "[]",
        "",
    ],
)
def test_a_learned_model_that_no_cost_survives_is_refused(text: str) -> None:
    with pytest.raises(ModelUnusable):
        parse_trained("m", text)


def test_a_learned_model_in_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m")
    with pytest.raises(ModelUnusable, match="it is not a regular file"):
        read_trained(str(tmp_path / "m"))


def test_the_package_offers_the_evaluator_and_a_wrong_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "isamap_learned-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: isamap-learned\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[isamap.evaluators]\n{_entry_point()}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "m.json").write_text(trained())
    assert type(load_evaluator(f"learned:{tmp_path / 'm.json'}")) is Learned
    (tmp_path / "m.json").write_text(trained(features_version=99))
    with pytest.raises(UsageProblem) as refused:
        load_evaluator(f"learned:{tmp_path / 'm.json'}")
    assert "m.json has version 99 of the features; this version reads 1" in str(refused.value)
    with pytest.raises(UsageProblem, match="it needs a file behind it: `learned:FILE`"):
        load_evaluator("learned")


def _entry_point() -> str:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    return next(line.replace('"', "") for line in text.splitlines() if line.startswith("learned ="))


def test_commands_name_wrong_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ISAMAP_DATA_DIR", str(tmp_path))
    assert main(["gather", "gemm_f32", "-D", "M=1..8", "N=4", "K=4"]) == 2
    assert main(["train", "-o", str(tmp_path / "m.json")]) == 2
    (tmp_path / "m.json").write_text("kept")
    assert main(["train", "-o", str(tmp_path / "m.json")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "error: name a kernel with a number for each size: `gather gemm_f64 -D M=64 N=64 K=64`"
    assert said[1].startswith("error: the log has 0 samples of these features, and training takes 50")
    assert said[2].endswith("m.json exists: name another file, or give --overwrite")
    assert (tmp_path / "m.json").read_text() == "kept"
