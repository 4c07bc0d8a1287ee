"""The table of the server's packages, from the order that the linter keeps and the first sentence of each docstring."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SERVER: Final = "aclgrad_server"


def table() -> str:
    """Returns a row for each package and module, from top to bottom."""
    rows = "".join(f"| `{name}` | {subject} |\n" for layer in _layers() for name, subject in layer.items())
    return f"| package or module | subject |\n|---|---|\n{rows}"


def _layers() -> Iterator[dict[str, str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == [SERVER])
    for layer in layers:
        yield {name: _subject(name) for name in layer.split(" | ")}


def _subject(name: str) -> str:
    path = ROOT / "server/src" / SERVER / name
    # A folder may be what is left of a package that is a module now.
    module = path.with_suffix(".py")
    source = module if module.exists() else path / "__init__.py"
    lines = (ast.get_docstring(ast.parse(source.read_text())) or "").partition("\n\n")[0]
    return " ".join(lines.split())
