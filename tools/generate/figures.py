"""The table of the latest run of `make bench` in docs/capacity.md, and what of it stands in the README."""

from collections.abc import Iterable, Sequence
from typing import Final

from tools.generate.marks import parts, replaced

PAGE: Final = "docs/capacity.md"
_MARKS: Final = ("bench", "make bench", PAGE)
README: Final = (
    ("call of 16 KB, 16 at once", "a naive grpcio and PyTorch server"),
    ("call of 16 KB, 1 at once", "a bare gRPC echo"),
    ("training step of ResNet-18, 8 images", "PyTorch here, without a server"),
)
"""The rows that convince or warn: what, and relative to what."""
_MEASURED: Final = "Measured "


def block(conditions: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns what stands between the marks: when and where it was measured, and the table."""
    return f"{_MEASURED}{conditions}.\n\n{_table(headings, rows)}"


def with_block(page: str, text: str) -> str:
    """Returns the page with this text between the marks."""
    return replaced(page, *_MARKS, text)


def readme_rows(page: str) -> str:
    """Returns the README's table from the text of docs/capacity.md, and the date of the run.

    Raises ValueError if the page lacks one of the rows.
    """
    _, text, _ = parts(page, *_MARKS)
    lines = text.splitlines()
    rows = [[each.strip() for each in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    found = {(row[0], row[2]): row for row in rows}
    missing = [f"{what}, relative to {beside}" for what, beside in README if (what, beside) not in found]
    if missing or not lines or not lines[0].startswith(_MEASURED):
        raise ValueError(f"{PAGE} lacks {missing[0] if missing else _MEASURED}; run `make bench BENCH_FLAGS=--write`")
    table = _table(("aclgrad", "relative to", "speed"), ([*key, found[key][3]] for key in README))
    day = lines[0].removeprefix(_MEASURED).partition(",")[0]
    return f"{table}\nOn the CPU, {day}, above 1 aclgrad is faster: [all figures]({PAGE}).\n"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace("| --- ", "|---").replace("--- |", "---|")
