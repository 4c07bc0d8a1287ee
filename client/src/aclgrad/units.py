"""Sizes, counts, durations and rates as people read them."""

from typing import Final

_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_PARTS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def size(count: float) -> str:
    """Returns bytes, for example "1.5 GiB"."""
    for unit in _SIZES[:-1]:
        if abs(count) < 1023.5:
            return f"{_three(count)} {unit}"
        count /= 1024
    return f"{_three(count)} {_SIZES[-1]}"


def number(count: int) -> str:
    """Returns a count, for example "12,345" or "1.25 M"."""
    return f"{count:,}" if abs(count) < 1_000_000 else f"{_three(count / 1e6)} M"


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun, for example "1 device" or "12,345 devices"."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def span(seconds: float) -> str:
    """Returns a duration in one unit or in two, for example "85 µs", "1.25 s" or "3 d 4 h"."""
    if seconds == 0:
        return "0 s"
    if seconds < 0:
        return f"-{span(-seconds)}"
    for length, unit, part, name in _PARTS:
        if seconds >= length:
            whole, rest = divmod(int(seconds), length)
            return f"{whole} {unit} {rest // part} {name}"
    if seconds >= 0.9995:
        return f"{_three(seconds)} s"
    return f"{_three(seconds * 1e3)} ms" if seconds >= 0.9995e-3 else f"{seconds * 1e6:.0f} µs"


def rate(per_second: float) -> str:
    """Returns a rate per second, for example "1,250" or "0.17"."""
    return f"{per_second:,.0f}" if per_second >= 99.5 else _three(per_second)


def _three(value: float) -> str:
    digits = 0 if abs(value) >= 99.5 else 1 if abs(value) >= 9.95 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text
