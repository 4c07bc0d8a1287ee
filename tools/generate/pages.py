"""The tables of README, ARCHITECTURE.md and docs/check.md that follow from the source."""

import ast
import inspect
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from aclgrad.judge.check.command import CHECKS
from aclgrad.operators.spec import OperatorSpec
from tools.coverage.page import PAGE as COVERAGE
from tools.coverage.page import readme_line
from tools.generate.figures import PAGE as CAPACITY
from tools.generate.figures import readme_rows
from tools.generate.marks import replaced

ROOT: Final = Path(__file__).parents[2]
SERVER: Final = "aclgrad_server"


def files(_specs: Sequence[OperatorSpec]) -> dict[Path, bytes]:
    """Returns each page with its table."""
    figures = readme_rows((ROOT / CAPACITY).read_text())
    return {
        ROOT / name: with_tables(ROOT / name, tables)
        for name, tables in {
            "README.md": {"coverage": f"{readme_line(COVERAGE.read_text())}\n", "figures": figures},
            "ARCHITECTURE.md": {"packages": package_table()},
            "docs/check.md": {"checks": check_table()},
        }.items()
    }


def with_tables(page: Path, tables: Mapping[str, str]) -> bytes:
    """Returns the page with each table between the two marks of its subject."""
    text = page.read_text()
    for subject, table in tables.items():
        text = replaced(text, subject, "make generate", page.name, table)
    return text.encode()


def check_table() -> str:
    """Returns a row for each check of `aclgrad check`, with its docstring."""
    texts = {name: " ".join((inspect.getdoc(check) or "").split()) for name, check in CHECKS.items()}
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in texts.items())
    return f"| check | what is right |\n|---|---|\n{rows}"


def package_table() -> str:
    """Returns a row for each package of the server in the linter's order, with its docstring's first sentence."""
    rows = "".join(f"| `{name}` | {subject} |\n" for layer in layers() for name, subject in layer.items())
    return f"| package | subject |\n|---|---|\n{rows}"


def layers() -> Iterator[dict[str, str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == [SERVER])
    for layer in layers:
        sources = {name: ROOT / "server/src" / SERVER / name / "__init__.py" for name in layer.split(" | ")}
        yield {name: subject_of(source) for name, source in sources.items() if source.exists()}


def subject_of(source: Path) -> str:
    lines = (ast.get_docstring(ast.parse(source.read_text())) or "").partition("\n\n")[0]
    return " ".join(lines.split())
