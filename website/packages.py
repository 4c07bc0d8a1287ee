"""The table of the server's packages, from the order that the linter keeps and the first sentence of each docstring."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SERVER: Final = "aclgrad_server"


def table() -> str:
    """Returns a row for each package, from top to bottom."""
    rows = "".join(f"| `{name}` | {subject} |\n" for layer in _layers() for name, subject in layer.items())
    return f"| package | subject |\n|---|---|\n{rows}"


def _layers() -> Iterator[dict[str, str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == [SERVER])
    for layer in layers:
        sources = {name: ROOT / "server/src" / SERVER / name / "__init__.py" for name in layer.split(" | ")}
        yield {name: _subject(source) for name, source in sources.items() if source.exists()}


def _subject(source: Path) -> str:
    lines = (ast.get_docstring(ast.parse(source.read_text())) or "").partition("\n\n")[0]
    return " ".join(lines.split())
