"""Charts with logarithmic axes, as inline SVG."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from aclgrad.judge.findings.rows import Row

_WIDTH, _HEIGHT = 460, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 24, 26, 40
_COLOURS: Final = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    *("#8b6f47", "#7b3ff2", "#a8a800", "#c00000", "#777777"),
)
_FLOOR: Final = 1e-6
"""A logarithmic axis has no 0, so an error of 0 is drawn at this share of the limit."""

_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "\N{SUPERSCRIPT MINUS}⁰¹²³⁴⁵⁶⁷⁸⁹")

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis over whole decades."""

    label: str
    low: int
    high: int
    has_zero: bool
    """Whether its lower end stands for 0."""

    @classmethod
    def over(cls, label: str, values: Sequence[float], *, has_zero: bool = False) -> "Axis":
        low = math.floor(math.log10(min(values)))
        return cls(label, low, max(math.ceil(math.log10(max(values))), low + 1), has_zero)

    def fraction(self, value: float) -> float:
        """Returns the position of a value: 0 at the lower end, 1 at the upper."""
        return (math.log10(value) - self.low) / (self.high - self.low)

    def ticks(self) -> range:
        return range(self.low, self.high + 1, max(1, (self.high - self.low) // 6))


def error_charts(rows: Sequence[Row]) -> Iterator[str]:
    """Yields a chart for each operator: the largest error as a share of what is allowed, by size and dtype."""
    own = [
        row
        for row in rows
        if row.check == "accuracy" and row.figures.get("error_of_limit") is not None and row.elements
    ]
    colours = _colours_of(row.dtype for row in own)
    for operator in sorted({row.operator for row in own}):
        series: dict[str, Points] = {}
        for row in own:
            if row.operator == operator:
                share = max(row.figures["error_of_limit"] or 0.0, _FLOOR)
                series.setdefault(row.dtype, []).append((float(row.elements), share))
        everything = [row.elements for row in own]
        highest = max(y for points in series.values() for _, y in points)
        axes = (
            Axis.over("elements of the gradient", everything),
            Axis.over("error / limit", [_FLOOR, max(1.0, highest)], has_zero=True),
        )
        yield chart(operator, axes, series, dots, limit=1.0, colours=colours)


def latency_charts(rows: Sequence[Row]) -> Iterator[str]:
    """Yields one chart: the median time of a call by the gradient's size, with a whisker up to the 99th percentile."""
    own = [row for row in rows if row.check == "latency" and row.figures.get("p50_ms") is not None]
    if not own:
        return
    series: dict[str, Points] = {}
    for row in own:
        size = row.figures["gradient_bytes"] or 1.0
        series.setdefault(row.operator, []).extend((size, row.figures[key] or _FLOOR) for key in ("p50_ms", "p99_ms"))
    points = [point for each in series.values() for point in each]
    axes = Axis.over("bytes of the gradient", [x for x, _ in points]), Axis.over("ms", [y for _, y in points])
    yield chart("time of a call: p50, and p99 above it", axes, series, _whiskers)


def _colours_of(names: Iterable[str]) -> dict[str, str]:
    return {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(sorted(set(names)))}


def chart(
    title: str,
    axes: tuple[Axis, Axis],
    series: dict[str, Points],
    draw: Callable[[str, list[tuple[float, float]]], Iterator[str]],
    limit: float | None = None,
    colours: Mapping[str, str] | None = None,
) -> str:
    """Returns the chart as an SVG element; `draw` makes the marks of one series from their coordinates.

    `colours` is shared by charts in which a series has the same colour.
    """
    names = sorted(series)
    colours = colours or _colours_of(names)
    height = _HEIGHT + 18 * math.ceil(len(names) / 2)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    parts.append(f'<text class="title" x="{_LEFT}" y="16">{escape(title)}</text>')
    parts.extend(_grid(*axes))
    if limit is not None:
        y = _y(axes[1], limit)
        parts.append(f'<line class="limit" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{y - 4:.1f}" text-anchor="end">limit</text>')
    for number, name in enumerate(names):
        colour = colours[name]
        parts.extend(draw(colour, [(_x(axes[0], x), _y(axes[1], y)) for x, y in series[name]]))
        x, y = _LEFT + 190 * (number % 2), _HEIGHT + 12 + 18 * (number // 2)
        parts.append(
            f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{colour}"/><text x="{x + 9}" y="{y}">{escape(name)}</text>'
        )
    return "".join([*parts, "</svg>"])


def dots(colour: str, coordinates: list[tuple[float, float]]) -> Iterator[str]:
    """Draws a dot at each point."""
    for x, y in coordinates:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}" fill-opacity="0.65"/>'


def _whiskers(colour: str, coordinates: list[tuple[float, float]]) -> Iterator[str]:
    medians, highs = coordinates[::2], coordinates[1::2]
    yield from curve(colour, medians)
    for (x, y), (_, high) in zip(medians, highs, strict=True):
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{high:.1f}" stroke="{colour}"/>'
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>'


def curve(colour: str, coordinates: list[tuple[float, float]]) -> Iterator[str]:
    """Draws a line through the points."""
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in coordinates)
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _grid(across: Axis, up: Axis) -> Iterator[str]:
    bottom = _HEIGHT - _BOTTOM
    for tick in across.ticks():
        x = _x(across, 10.0**tick)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{_power(tick)}</text>'
    for tick in up.ticks():
        y = _y(up, 10.0**tick)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        told = "0" if up.has_zero and tick == up.low else _power(tick)
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{told}</text>'
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield f'<text x="{middle}" y="{bottom + 32}" text-anchor="middle">{across.label}</text>'
    yield f'<text transform="translate(13 {(_TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">{up.label}</text>'


def _power(exponent: int) -> str:
    return f"{10**exponent}" if 0 <= exponent <= 2 else "10" + str(exponent).translate(_SUPERSCRIPTS)


def _x(axis: Axis, value: float) -> float:
    return _LEFT + axis.fraction(value) * (_WIDTH - _LEFT - _RIGHT)


def _y(axis: Axis, value: float) -> float:
    return _HEIGHT - _BOTTOM - axis.fraction(value) * (_HEIGHT - _TOP - _BOTTOM)
