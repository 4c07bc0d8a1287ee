"""The picture of an operator as SVG: letters for grad_output, and in each cell of the gradient the sum that it gets."""

import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from website.operators.flows import Cell, Flow, Volume
from website.operators.sums import lines_of, sum_of

SIDE: Final = 46
"""Of a cell, in pixels; text is set for it."""
_GAP: Final = 16
"""Between the planes of a volume."""
_BETWEEN: Final = 72
"""Between the two volumes."""
_HEADING: Final = 24
_LINE: Final = 12
_MARGIN: Final = 2
_WIDEST: Final = 14
"""Cells side by side; two volumes that are wider together stand one below the other."""
_LETTERS: Final = string.ascii_lowercase + string.ascii_uppercase


@dataclass(frozen=True, slots=True)
class Place:
    """A volume and where it stands; its planes stand one below the other."""

    volume: Volume
    left: int
    top: int

    @property
    def cells(self) -> Iterator[Cell]:
        depth, rows, columns = self.volume
        return ((z, y, x) for z in range(depth) for y in range(rows) for x in range(columns))

    @property
    def right(self) -> int:
        return self.left + self.volume[2] * SIDE

    @property
    def bottom(self) -> int:
        depth, rows, _ = self.volume
        return self.top + _HEADING + depth * rows * SIDE + (depth - 1) * _GAP

    def corner(self, cell: Cell) -> tuple[int, int]:
        depth, row, column = cell
        down = (depth * self.volume[1] + row) * SIDE + depth * _GAP
        return self.left + column * SIDE, self.top + _HEADING + down

    def colour(self, cell: Cell) -> str:
        """A hue for the column, a lightness for the row; a plane shifts both."""
        depth, row, column = cell
        planes, rows, columns = self.volume
        hue = 360 * (column + 0.5 * depth / planes) / columns
        light = 84 - 20 * (depth * rows + row) / (planes * rows)
        return f"hsl({hue:.0f} 70% {light:.0f}%)"


def picture(flow: Flow, names: tuple[str, str]) -> str:
    """Returns the drawing of a flow from the tensor of the first name to that of the second."""
    source = Place(flow.source, 0, 0)
    is_beside = flow.source[2] + flow.target[2] <= _WIDEST
    target = Place(flow.target, *((source.right + _BETWEEN, 0) if is_beside else (0, source.bottom + _BETWEEN)))
    letters = dict(zip(source.cells, _LETTERS, strict=False))
    used = {cell for terms in flow.weights.values() for cell in terms}
    parts = [_heading(source, names[0]), _heading(target, names[1]), _arrow(source, target, is_beside)]
    for cell in source.cells:
        parts.append(_cell(source.corner(cell), {cell: 1.0} if cell in used else {}, letters, source, letters[cell]))
    for cell in target.cells:
        parts.append(_cell(target.corner(cell), flow.weights.get(cell, {}), letters, source, "0"))
    width, height = (max(source.right, target.right), max(source.bottom, target.bottom))
    box = f"{-_MARGIN} {-_MARGIN} {width + 2 * _MARGIN} {height + 2 * _MARGIN}"
    opening = f'<svg class="flow" role="img" aria-label="how {names[0]} goes into {names[1]}" viewBox="{box}"'
    return f'{opening} width="{width + 2 * _MARGIN}">\n' + "\n".join(parts) + "\n</svg>"


def _heading(place: Place, name: str) -> str:
    depth, *plane = place.volume
    sizes = " x ".join(map(str, [depth, *plane] if depth > 1 else plane))
    size = f'<tspan class="size" dx="8">{sizes}</tspan>'
    return f'<text class="name" x="{place.left}" y="{place.top + 14}">{name}{size}</text>'


def _cell(
    corner: tuple[int, int], terms: Mapping[Cell, float], letters: Mapping[Cell, str], source: Place, empty: str
) -> str:
    """Stripes in the colours of the terms, as wide as their shares, under the sum; `empty` is what no terms show."""
    x, y = corner
    whole, at, parts = sum(map(abs, terms.values())), float(x), []
    for cell, weight in terms.items():
        width = SIDE * abs(weight) / whole
        size = f'width="{width:.1f}" height="{SIDE}"'
        parts.append(f'<rect x="{at:.1f}" y="{y}" {size} fill="{source.colour(cell)}"/>')
        at += width
    parts.append(f'<rect class="cell" x="{x}" y="{y}" width="{SIDE}" height="{SIDE}"/>')
    words = sum_of({letters[cell]: weight for cell, weight in terms.items()}) or [empty]
    lines = lines_of(words, len(terms))
    first = y + SIDE / 2 + 4 - (len(lines) - 1) * _LINE / 2
    for number, line in enumerate(lines):
        kind = "sum" if terms else "none"
        parts.append(f'<text class="{kind}" x="{x + SIDE // 2}" y="{first + number * _LINE:g}">{line}</text>')
    return f"<g><title>{''.join(words)}</title>{''.join(parts)}</g>"


def _arrow(source: Place, target: Place, is_beside: bool) -> str:
    if is_beside:
        x, y = source.right + _BETWEEN // 2, (max(source.bottom, target.bottom) + _HEADING) // 2
        return f'<path class="arrow" d="M{x - 20} {y}h34m-9 -9l9 9l-9 9"/>'
    x, y = source.right // 2, source.bottom + (_BETWEEN - _HEADING) // 2
    return f'<path class="arrow" d="M{x} {y - 14}v34m-9 -9l9 9l9 -9"/>'
