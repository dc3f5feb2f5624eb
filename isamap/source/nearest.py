"""The question that a typo is answered with: did you mean `gemm_f32`?"""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The question after the nearest names, None where none is near."""
    from difflib import SequenceMatcher, get_close_matches

    near = get_close_matches(word, list(known), n=3)
    ratios = [SequenceMatcher(None, name, word).ratio() for name in near]
    best = sorted(name for name, ratio in zip(near, ratios, strict=True) if ratio == max(ratios))
    return f"did you mean {' or '.join(f'`{name}`' for name in best)}?" if best else None
