"""The picture of an operator as SVG: letters for grad_output, and in each cell of the gradient the sum that it gets."""

import math
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
_LETTER: Final = 8.5
"""Width of a letter in a heading."""
_LETTERS: Final = string.ascii_lowercase + string.ascii_uppercase


@dataclass(frozen=True, slots=True)
class Drawing:
    """A volume under its heading, and how far from the left; its planes stand one below the other."""

    name: str
    volume: Volume
    left: int

    @property
    def cells(self) -> Iterator[Cell]:
        depth, rows, columns = self.volume
        return ((z, y, x) for z in range(depth) for y in range(rows) for x in range(columns))

    @property
    def right(self) -> int:
        heading = math.ceil((len(self.name) + 1 + len(self.size)) * _LETTER)
        return self.left + max(self.volume[2] * SIDE, heading)

    @property
    def size(self) -> str:
        depth, *plane = self.volume
        return " x ".join(map(str, [depth, *plane] if depth > 1 else plane))

    @property
    def bottom(self) -> int:
        depth, rows, _ = self.volume
        return _HEADING + depth * rows * SIDE + (depth - 1) * _GAP

    def corner(self, cell: Cell) -> tuple[int, int]:
        depth, row, column = cell
        return self.left + column * SIDE, _HEADING + (depth * self.volume[1] + row) * SIDE + depth * _GAP

    def colour(self, cell: Cell) -> str:
        """A hue for the column, a lightness for the row; a plane shifts both."""
        depth, row, column = cell
        planes, rows, columns = self.volume
        hue = 360 * (column + 0.5 * depth / planes) / columns
        light = 84 - 20 * (depth * rows + row) / (planes * rows)
        return f"hsl({hue:.0f} 70% {light:.0f}%)"


def picture(flow: Flow, names: tuple[str, str]) -> str:
    """Returns the drawing of a flow from the tensor of the first name to that of the second."""
    source = Drawing(names[0], flow.source, 0)
    target = Drawing(names[1], flow.target, source.right + _BETWEEN)
    letters = dict(zip(source.cells, _LETTERS, strict=False))
    used = {cell for terms in flow.weights.values() for cell in terms}
    width, height = target.right, max(source.bottom, target.bottom)
    parts = [_heading(source), _heading(target), _arrow(source.right + _BETWEEN // 2, (height + _HEADING) // 2)]
    for cell in source.cells:
        parts.append(_cell(source.corner(cell), {cell: 1.0} if cell in used else {}, letters, source, letters[cell]))
    for cell in target.cells:
        parts.append(_cell(target.corner(cell), flow.weights.get(cell, {}), letters, source, "0"))
    box = f"{-_MARGIN} {-_MARGIN} {width + 2 * _MARGIN} {height + 2 * _MARGIN}"
    opening = f'<svg class="flow" role="img" aria-label="how {names[0]} goes into {names[1]}" viewBox="{box}"'
    return f'{opening} width="{width + 2 * _MARGIN}">\n' + "\n".join(parts) + "\n</svg>"


def _heading(drawing: Drawing) -> str:
    size = f'<tspan class="size" dx="8">{drawing.size}</tspan>'
    return f'<text class="name" x="{drawing.left}" y="14">{drawing.name}{size}</text>'


def _cell(
    corner: tuple[int, int], terms: Mapping[Cell, float], letters: Mapping[Cell, str], source: Drawing, empty: str
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


def _arrow(x: int, y: int) -> str:
    return f'<path class="arrow" d="M{x - 20} {y}h34m-9 -9l9 9l-9 9"/>'
