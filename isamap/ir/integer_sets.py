"""Integer sets: index expressions written for isl, and whether a set has an element.

    0 <= i < N and i - N >= 0    { [v0, v1] : v0 >= 0 and v0 - v1 <= -1 and v0 - v1 >= 0 } is empty

isl knows sums, numbers times variables, quotients and remainders by numbers, minima and maxima. A product of
two symbols is none of these: `Names.text` gives None for it, or a variable of its own where `opaque` is
allowed. Every question has a limit of operations; one that is too hard is answered by None.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from isamap.ir.atoms import Element, FloorDiv, MinMax, Mod
from isamap.ir.index import Atom, Index, Monomial
from isamap.source.records import dataclass, field

if TYPE_CHECKING:
    import islpy


MOST_OPERATIONS = 100_000
"""The most operations of one question. They take about 0.1 s."""
PRODUCT = "product "
"""The prefix of variables for terms that are not affine. No symbol contains a blank."""


@dataclass
class Names:
    """The symbols of some index expressions as isl reads them, each the same wherever it occurs."""

    known: dict[str, str] = field(default_factory=dict[str, str])
    opaque: dict[Monomial, str] | None = None

    def of(self, symbol: str) -> str:
        return self.known.setdefault(symbol, f"v{len(self.known)}")

    def text(self, index: Index) -> str | None:
        """Return an index expression in isl's words; None if it is not affine.

        With `opaque`, each product that is not affine gets a variable of its own, kept there.
        """
        parts: list[str] = []
        for monomial, coefficient in index.terms:
            factor = "1" if not monomial else self._atom(monomial[0]) if len(monomial) == 1 else None
            if factor is None and self.opaque is not None:
                factor = self.opaque.setdefault(monomial, self.of(f"{PRODUCT}{len(self.opaque)}"))
            if factor is None:
                return None
            parts.append(f"{coefficient}*{factor}")
        return " + ".join(parts) or "0"

    def _atom(self, atom: Atom) -> str | None:
        match atom:
            case str():
                return self.of(atom)
            case FloorDiv(value, divisor) if divisor.value:
                inner = self.text(value)
                return None if inner is None else f"floor(({inner})/{divisor.value})"
            case Mod(value, divisor) if divisor.value:
                inner = self.text(value)
                return None if inner is None else f"(({inner}) mod {divisor.value})"
            case MinMax(op, left, right):
                sides = self.text(left), self.text(right)
                return None if None in sides else f"{op}({sides[0]}, {sides[1]})"
            case FloorDiv() | Mod() | Element():
                return None


def is_empty(names: Names, conditions: Iterable[str]) -> bool | None:
    """Return whether no integers meet all conditions; None if that is too hard to say."""
    return _is_empty(tuple(names.known.values()), tuple(conditions))


@lru_cache(maxsize=65536)
def _is_empty(variables: tuple[str, ...], conditions: tuple[str, ...]) -> bool | None:
    import islpy

    context = isl_context()
    context.reset_operations()
    text = f"{{ [{', '.join(variables)}] : {' and '.join(f'({c})' for c in conditions) or '1 = 1'} }}"
    try:
        return islpy.Set.read_from_str(context, text).is_empty()
    except islpy.Error:  # isl says "syntax error" where it reaches the limit while it reads
        return None


@lru_cache(maxsize=1)
def isl_context() -> islpy.Context:
    """Return the context of all questions: reset its operations before each."""
    import islpy

    context = islpy.Context()
    context.set_max_operations(MOST_OPERATIONS)
    return context
