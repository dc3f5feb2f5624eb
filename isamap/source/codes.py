"""Every diagnostic code with its explanation: what `isamap explain CODE` prints.

Codes are stable and kebab-case. A layer with many codes has a table of its own, in order; the few of the
other layers stand here.
"""

from __future__ import annotations

from isamap.source.explanation import Explanation
from isamap.source.language_codes import LANGUAGE_CODES

_OTHERS: dict[str, Explanation] = {}

CODES: dict[str, Explanation] = dict(sorted((LANGUAGE_CODES | _OTHERS).items()))
