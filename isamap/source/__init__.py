"""Files, spans, diagnostics and the error root: the lowest layer."""

from isamap.source.codes import read_codes
from isamap.source.diagnostic import (
    Diagnostic,
    Edit,
    Infeasible,
    IsamapError,
    MissingTool,
    MissingWords,
    NoMapping,
    NotKept,
    OnlyWarned,
    Source,
    Span,
    SpecProblem,
    SyntaxProblem,
    TypeProblem,
    Unkept,
    UsageProblem,
    VerificationFailed,
    apply_edits,
    assert_rules,
    did_you_mean,
    is_digits,
    printable,
)
from isamap.source.files import (
    LeavesFolder,
    cannot_write,
    is_device,
    map_file,
    open_in_folder,
    open_regular,
    read_json,
    read_limited,
    read_part,
    release,
    replace_file,
    spill,
)
from isamap.source.numbers import add_up, real_number, show_value, truth_value, whole_number
from isamap.source.process import hard_limit
from isamap.source.records import asdict, dataclass, field, fields, is_dataclass, replace

__all__ = [
    "Diagnostic", "Edit", "Infeasible", "IsamapError", "LeavesFolder", "MissingTool", "MissingWords",
    "NoMapping", "NotKept", "OnlyWarned", "Source", "Span", "SpecProblem", "SyntaxProblem", "TypeProblem",
    "Unkept", "UsageProblem", "VerificationFailed", "add_up", "apply_edits", "asdict", "assert_rules",
    "cannot_write", "dataclass", "did_you_mean", "field", "fields", "hard_limit", "is_dataclass",
    "is_device", "is_digits", "map_file", "open_in_folder", "open_regular", "printable", "read_codes",
    "read_json", "read_limited", "read_part", "real_number", "release", "replace", "replace_file",
    "show_value", "spill", "truth_value", "whole_number",
]  # fmt: skip
