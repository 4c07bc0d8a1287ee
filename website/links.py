"""Checks a built site: every link, picture, style and script is there, and nothing is fetched from elsewhere."""

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_FETCHED: Final = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}
"""The attributes that a browser follows by itself; a link is followed by a person."""
_ABSOLUTE: Final = ("http", "https", "mailto")


class Page(HTMLParser):
    """The anchors of a page, and what it points to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors = {""}
        self.linked: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.linked.append(given["href"])
        elif tag in _FETCHED and _FETCHED[tag] in given:
            self.fetched.append(given[_FETCHED[tag]])


def problems(site: Path) -> Iterator[str]:
    """Yields what is broken, by page."""
    for file in sorted(site.rglob("*.html")):
        page, name = _read(file), file.relative_to(site)
        for target in page.fetched:
            if urlsplit(target).scheme or urlsplit(target).netloc:
                yield f"{name} fetches {target} from elsewhere"
        for target in dict.fromkeys(page.linked + page.fetched):
            if urlsplit(target).scheme not in _ABSOLUTE and not _exists(file, target):
                yield f"{name} points to {target}, which does not exist"


def _exists(file: Path, target: str) -> bool:
    parts = urlsplit(target)
    found = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not found.is_file():
        return False
    return found.suffix != ".html" or unquote(parts.fragment) in _read(found).anchors


@cache
def _read(file: Path) -> Page:
    return Page(file.read_text())
