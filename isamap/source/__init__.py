"""Files, spans, diagnostics and the error root: the ground floor that every layer stands on."""

from isamap.source.codes import CODES
from isamap.source.diagnostic import (
    Diagnostic,
    Edit,
    Source,
    Span,
    apply_edits,
    did_you_mean,
    is_digits,
    printable,
)
from isamap.source.errors import (
    Infeasible,
    IsamapError,
    MissingTool,
    NoMapping,
    NotKept,
    OnlyWarned,
    SpecProblem,
    SyntaxProblem,
    TypeProblem,
    Unkept,
    UsageProblem,
    VerificationFailed,
)
from isamap.source.files import read_limited, replace_file
from isamap.source.numbers import added, real_number, shown, truth_value, whole_number
from isamap.source.process import most_allowed

__all__ = [
    "CODES",
    "Diagnostic",
    "Edit",
    "Infeasible",
    "IsamapError",
    "MissingTool",
    "NoMapping",
    "NotKept",
    "OnlyWarned",
    "Source",
    "Span",
    "SpecProblem",
    "SyntaxProblem",
    "TypeProblem",
    "Unkept",
    "UsageProblem",
    "VerificationFailed",
    "added",
    "apply_edits",
    "did_you_mean",
    "is_digits",
    "most_allowed",
    "printable",
    "read_limited",
    "real_number",
    "replace_file",
    "shown",
    "truth_value",
    "whole_number",
]
