"""docs/coverage.md: its tables, what they promise, and what README says of it."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

from tools.coverage.shares import MOST_ERROR, Shares
from tools.generate.marks import replaced

PAGE: Final = Path(__file__).parents[2] / "docs/coverage.md"
BLOCK, STEP = "In a block", "As a step"
_HEADS: Final = {
    BLOCK: ("model", "backward calls", "FLOPs", "other bytes", "error", "stays here"),
    STEP: ("model", "functions", "FLOPs", "other bytes", "error", "programs", "stays here"),
}
_ROW: Final = re.compile(
    r"^\| (?P<name>\w+) \| (?P<calls>\d+) of (?P<all>\d+) \| (?P<operations>\d+) % \| (?P<bytes>\d+) % \|", re.MULTILINE
)
_TOTALS: Final = re.compile(
    r"^\*\*(?P<complete>\d+) of (?P<all>\d+) models have no kernel that stays here in a block: on average, "
    r"(?P<calls>\d+ %) of the backward calls and (?P<operations>\d+ %) of the FLOPs are the server's\. As a step, "
    r"(?P<whole>\d+) of \d+ are a single program, and (?P<of_step>\d+ %) of the FLOPs of the (?P<traced>\d+) ",
    re.MULTILINE,
)
"""The text that `totals` makes."""
Found = Mapping[str, Mapping[str, Shares]]
"""Shares by way and model."""


class Promise(NamedTuple):
    """What the page says of a model in one way, at least."""

    call_share: float
    operation_percent: int
    byte_percent: int

    def problems(self, shares: Shares) -> list[str]:
        """Returns what has become worse than promised, and an error that is too large."""
        pairs = (
            ("calls", shares.call_share, self.call_share),
            ("FLOPs", shares.operation_share, self.operation_percent / 100),
            ("other bytes", shares.byte_share, self.byte_percent / 100),
        )
        found = [
            f"{share:.1%} of the {what} are the server's, and the page promises {least:.1%}"
            for what, share, least in pairs
            if share < least - 1e-9
        ]
        return found + too_large(shares)


def too_large(shares: Shares) -> list[str]:
    """Returns the problem of gradients that are not as exact as they have to be."""
    if shares.error <= MOST_ERROR:
        return []
    return [f"the error of the gradients is {shares.error:.2f} times PyTorch's own, and {MOST_ERROR:g} is the limit"]


def promises(text: str) -> dict[tuple[str, str], Promise]:
    """Returns what a page promises, by way and model."""
    found = {}
    for way in _HEADS:
        table = text.partition(f"## {way}\n")[2].partition("\n## ")[0]
        for row in _ROW.finditer(table):
            share = int(row["calls"]) / int(row["all"])
            found[way, row["name"]] = Promise(share, int(row["operations"]), int(row["bytes"]))
    return found


def with_tables(text: str, found: Found, refused: Mapping[str, str], versions: str) -> str:
    """Returns the page with the tables of this run between its marks."""
    return replaced(text, "coverage", "make coverage", PAGE.name, "".join(_tables(found, refused, versions)))


def _tables(found: Found, refused: Mapping[str, str], versions: str) -> Iterable[str]:
    yield f"{totals(found)}\n\n{versions}\n"
    for way, heads in _HEADS.items():
        yield f"\n## {way}\n\n| {' | '.join(heads)} |\n|---|{'--:|' * (len(heads) - 2)}---|\n"
        for name, shares in sorted(found[way].items()):
            cells = [
                *(name, f"{shares.remote_calls} of {shares.calls}"),
                *(f"{int(100 * share + 1e-9)} %" for share in (shares.operation_share, shares.byte_share)),
                *(f"{shares.error:.2f}", *([str(shares.programs)] if way is STEP else [])),
                ", ".join(f"{name} {count}" for name, count in shares.local.most_common()),
            ]
            yield f"| {' | '.join(cells)} |\n"
    for name, reason in refused.items():
        yield f"\n`{name}` cannot be a step: it {reason}.\n"


def totals(found: Found) -> str:
    """Returns the sentences that sum up the tables."""
    block, step = found[BLOCK].values(), found[STEP].values()
    calls, operations, of_step = (
        f"{100 * fmean(values):.0f} %"
        for values in (
            [each.call_share for each in block],
            [each.operation_share for each in block],
            [each.operation_share for each in step],
        )
    )
    complete = sum(not each.local for each in block)
    whole = sum(each.programs == 1 for each in step)
    worst = max(each.error for each in [*block, *step])
    return (
        f"**{complete} of {len(block)} models have no kernel that stays here in a block: on average, {calls} of the "
        f"backward calls and {operations} of the FLOPs are the server's. As a step, {whole} of {len(block)} are a "
        f"single program, and {of_step} of the FLOPs of the {len(step)} that can be traced are the server's. The "
        f"largest error is {worst:.1f} times PyTorch's own.**"
    )


def readme_line(coverage_page_text: str) -> str:
    """Returns README's sentences on coverage with the figures of the page; they link to it."""
    line = _TOTALS.search(coverage_page_text)
    if line is None:
        raise SystemExit(f"{PAGE.name} has no totals; run `make coverage`")
    return (
        f"As whole steps of [{line['all']} small models](docs/coverage.md), the server computes {line['of_step']} of "
        f"the FLOPs of the {line['traced']} that can be traced, {line['whole']} of them in one program. With single "
        f"gradients, it computes {line['calls']} of the backward calls and {line['operations']} of the FLOPs on "
        f"average; in {line['complete']} models, only plain arithmetic is left to PyTorch here."
    )
