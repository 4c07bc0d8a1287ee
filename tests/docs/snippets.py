"""The blocks of code in README and docs: where they stand, and which of them cannot run here."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = tuple(
    ROOT / name
    for name in ("README.md", "website/home.md", *sorted(map(str, (ROOT / "docs").glob("*.md"))), "deploy/README.md")
)
_BLOCK: Final = re.compile(
    r"^(<!-- needs (?P<what>[^\n]+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
LANGUAGES: Final = ("python", "sh", "console")
"""A console is for people: its blocks are marked."""


class Snippet(NamedTuple):
    """One block of code."""

    place: str
    language: str
    text: str
    needs: str | None = None
    """What a comment before the block says that it needs, and a machine for tests lacks."""


def snippets(page: Path) -> Iterator[Snippet]:
    """Yields the blocks of a page that are programs, in order."""
    text = page.read_text()
    for found in _BLOCK.finditer(text):
        if found["language"] in LANGUAGES:
            line = text.count("\n", 0, found.start()) + 1
            yield Snippet(f"{page.relative_to(ROOT)}:{line}", found["language"], found["text"], found["what"])
