"""What the site is built from: the repository's pages, the generated ones, and the files that they link to."""

import posixpath
import re
import shutil
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Final

from website.navigation import HOME, sidebar

PICTURES: Final = (".svg", ".png")
LANGUAGES: Final = {".py": "python", ".proto": "protobuf", ".yaml": "yaml", ".toml": "toml", ".js": "js", ".cpp": "cpp"}
"""By the suffix of a source file."""
_LINK: Final = re.compile(r"(?<=\]\()(?!\w+:)(?P<path>[^)#\s]+)(?=[)#])")
_OUTSIDE: Final = "---\norphan: true\n---\n"
"""What a page that is not in the sidebar says of that to Sphinx."""


def stage(pages: Iterable[str], generated: Mapping[str, str], root: Path, folder: Path) -> None:
    """Writes the pages into the folder, under the names that they have in the repository; the home page is the index.

    What they link to comes along: pages and pictures as they are, other files as pages with a block of code, folders as
    their README or a list of their files. Raises FileNotFoundError for a page that is neither there nor generated.
    """
    waiting = list(dict.fromkeys([*pages, *generated]))
    listed = frozenset(waiting)
    for path in waiting:
        page = _page(path, root)
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(PICTURES):
            shutil.copyfile(root / path, folder / page)
            continue
        text = generated[path] if path in generated else _text(path, root)
        here = path if path == HOME else page
        targets = {link: _source(here, link, root, generated) for link in _LINK.findall(text)}
        waiting += {each: None for each in targets.values() if each is not None and each not in waiting}
        for link, source in targets.items():
            if source is not None:
                there = posixpath.relpath(_page(source, root), posixpath.dirname(page) or ".")
                text = re.sub(rf"(?<=\]\(){re.escape(link)}(?=[)#])", there, text)
        (folder / page).write_text(text + (sidebar() if path == HOME else "") if path in listed else _OUTSIDE + text)


def _source(page: str, link: str, root: Path, generated: Container[str]) -> str | None:
    """Returns the generated page, file or folder of the repository that a page links to; None for any other link."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if path in generated:
        return path
    readme = f"{path}/README.md"
    if (root / readme).is_file():
        return readme
    return path if (root / path).exists() else None


def _page(path: str, root: Path) -> str:
    """Returns the page that a file or a folder becomes."""
    if path == HOME:
        return "index.md"
    if (root / path).is_dir():
        return f"{path}/index.md"
    return path if path.endswith((".md", *PICTURES)) else f"{path}.md"


def _text(path: str, root: Path) -> str:
    file = root / path
    if file.is_dir():
        return f"# {path}\n\n" + "".join(f"* [{each.name}]({each.name})\n" for each in sorted(file.glob("*.*")))
    text = file.read_text()
    if file.suffix == ".md":
        return text
    return f"# {path}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{text}````\n"
