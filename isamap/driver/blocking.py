"""Apply the blocks that a kernel's statements share: those in a schedule's text, or those that a user fixes.

--fix blocks.p=4        blocks of 4 iterations of p, outside of all nests      ->  `blocks p by 4`
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.driver.request import Request
from isamap.plan.text import parse_schedule
from isamap.source import UsageProblem
from isamap.transform import Blocks

_KIND = "blocks"


def of_nests(fixed: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the fixed decisions about single nests."""
    return {name: value for name, value in fixed.items() if not _is_about_blocks(name)}


def asked_blocks(request: Request) -> tuple[Blocks, ...]:
    """Return the blocks that the request fixes, the outermost first. Raises: UsageProblem, SyntaxProblem."""
    given = {name: value for name, value in request.fixed.items() if _is_about_blocks(name)}
    decided = {name: value for name, value in given.items() if value is not None}
    if decided:
        return tuple(_read_blocks(name, value) for name, value in decided.items())
    if request.schedule is None:
        return ()
    return tuple(Blocks(axis, size) for axis, size in parse_schedule(request.schedule).blocks)


def _is_about_blocks(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == _KIND


def _read_blocks(name: str, size: int) -> Blocks:
    axis = name.partition(".")[2]
    if not axis or size < 1:
        raise UsageProblem.of(
            "fix-value",
            f"`{name}={size}` decides no blocks",
            help="write the axis, and how many iterations of it: `--fix blocks.p=4`",
        )
    return Blocks(axis, size)
