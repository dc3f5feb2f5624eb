"""The explanations of diagnostic codes, which `isamap explain CODE` prints.

Codes are stable and kebab-case. Each file NAME_codes.toml next to this module is the table of one layer:

    [bad-cast]
    title = "a cast that does not exist"
    text = "Only integers wrap or saturate; nothing is cast to bool. Compare with 0 to get a bool."
    example = "kernel k(M) { in A: f32[M]; out C: bf16[M]; for i in M { C[i] = sat_bf16(A[i]); } }"

`example` is omitted if no short text is refused with the code. The files are read only for an explanation, so
that no other command waits for them.
"""

from __future__ import annotations

from functools import cache

from isamap.source.records import dataclass

_ENDING = "_codes.toml"


@dataclass(frozen=True, slots=True)
class CodeExplanation:
    """The meaning of a code, in one line and at length, and a text that is refused with it."""

    title: str
    text: str
    example: str | None = None


@cache
def read_codes() -> dict[str, CodeExplanation]:
    """Return the explanations of all codes, in alphabetical order."""
    found = {code: e for table in read_tables().values() for code, e in table.items()}
    return dict(sorted(found.items()))


@cache
def read_tables() -> dict[str, dict[str, CodeExplanation]]:
    """Return the explanations of each layer's codes in file order, by the file's NAME."""
    from importlib.resources import files
    from tomllib import loads

    paths = [path for path in files("isamap.source").iterdir() if path.name.endswith(_ENDING)]
    return {
        path.name.removesuffix(_ENDING): {
            code: CodeExplanation(**entry) for code, entry in loads(path.read_text(encoding="utf-8")).items()
        }
        for path in paths
    }
