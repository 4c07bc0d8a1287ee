"""A weighted sum of letters in words that fit a small cell."""

from collections.abc import Mapping
from typing import Final

_LINE_LENGTH: Final = 6
_LINES: Final = 3
_EXACT: Final = 1e-9


def sum_of(weights: Mapping[str, float]) -> list[str]:
    """Returns the sum in pieces that stay together; a weight that all letters have stands once."""
    different = set(weights.values())
    if len(weights) > 1 and len(different) == 1 and (common := different.pop()) != 1:
        first, *middle, last = weights
        return [f"({first}", *(f"+{each}" for each in middle), f"+{last})", _times("", common)]
    signs = ["", *["+"] * (len(weights) - 1)]
    return [sign + _times(letter, weight) for sign, (letter, weight) in zip(signs, weights.items(), strict=False)]


def lines_of(words: list[str], terms: int) -> list[str]:
    """Returns the sum in as many lines as fit a cell, or the number of its terms."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) <= _LINE_LENGTH:
            lines[-1] += word
        else:
            lines.append(word)
    return lines if len(lines) <= _LINES else [f"{terms}", "terms"]


def _times(letter: str, weight: float) -> str:
    divisor = round(1 / weight)
    if abs(weight * divisor - 1) < _EXACT:
        return letter if divisor == 1 else f"{letter}/{divisor}"
    return f"{weight:.2f}".lstrip("0") + letter
