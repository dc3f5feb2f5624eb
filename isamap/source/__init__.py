"""Files, spans, diagnostics and the error root: the ground floor that every layer stands on."""

from isamap.source.adding import added
from isamap.source.codes import CODES
from isamap.source.diagnostic import Diagnostic, Edit, Severity
from isamap.source.edits import apply_edits
from isamap.source.errors import (
    Infeasible,
    IsamapError,
    LimitReached,
    MissingTool,
    NoMapping,
    SpecProblem,
    SyntaxProblem,
    TypeProblem,
    UsageProblem,
    VerificationFailed,
)
from isamap.source.explanation import Explanation
from isamap.source.files import read_limited, replace_file
from isamap.source.limits import most_allowed
from isamap.source.nearest import did_you_mean
from isamap.source.text import Source, Span, is_digits, printable
from isamap.source.unkept import NotKept, OnlyWarned, Unkept
from isamap.source.values import real_number, shown, truth_value, whole_number

__all__ = [
    "CODES",
    "Diagnostic",
    "Edit",
    "Explanation",
    "Infeasible",
    "IsamapError",
    "LimitReached",
    "MissingTool",
    "NoMapping",
    "NotKept",
    "OnlyWarned",
    "Severity",
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
