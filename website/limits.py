"""The page of limits, from the settings and from the constants of the server and the contract."""

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Final

from aclgrad.wire import limits as contract
from aclgrad_server import limits as server
from aclgrad_server.admin import listener
from aclgrad_server.settings import Settings

_INTRODUCTION: Final = """\
# Limits

Each limit is enforced before any work that is proportional to it, and is that of one process; [several
workers](docs/server.md#limits-of-a-host) divide some. An excess is LIMIT_EXCEEDED, INVALID_FIELD or MALFORMED_REQUEST
unless a row says otherwise. [The server](docs/server.md#limits) explains how callers share what there is.
"""
_SECTIONS: Final = {
    "Of the contract": (contract, "The same for every server; clients know them."),
    "Of the server": (server, "Constants of this server."),
    "Of the admin listener": (listener, "It serves the status page, health and metrics."),
}
_SETTING: Final = re.compile(r"max_|streams$|pool_bytes$|.*_timeout_s$|.*_limit_bytes$")
_UNITS: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def page() -> str:
    """Returns the page with a table for the settings, and one for the constants of each module."""
    settings = "".join(
        f"| `--{name.replace('_', '-')}` | {_default(name, field.default)} | {_line(field.description)} |\n"
        for name, field in Settings.model_fields.items()
        if _SETTING.match(name)
    )
    text = f"{_INTRODUCTION}\n## Settings\n\n| setting | default | meaning |\n|---|---|---|\n{settings}"
    for heading, (module, what) in _SECTIONS.items():
        rows = "".join(f"| `{name}` | {value} | {meaning} |\n" for name, value, meaning in constants(module))
        text += f"\n## {heading}\n\n{what}\n\n| limit | value | what it bounds |\n|---|---|---|\n{rows}"
    return text


def constants(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Yields name, value and docstring of each constant that has one, in the order of the source."""
    body = ast.parse(inspect.getsource(module)).body
    for assignment, text in pairwise(body):
        match assignment, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning))):
                yield name, amount(name, getattr(module, name)), _line(meaning)


def amount(name: str, value: float) -> str:
    """Returns a value in the unit that ends its name."""
    if name.endswith("_BYTES_PER_S"):
        return f"{value / 1e6:g} MB/s"
    if name.endswith("_PER_S"):
        return f"{value:,.0f} a second"
    if name.endswith("_S"):
        return f"{value:g} s" if value >= 0.1 else f"{value * 1000:g} ms"
    if name.endswith("_BYTES"):
        return next((f"{value // size:g} {unit}" for size, unit in _UNITS if value % size == 0), f"{value} bytes")
    return f"{100 * value:g} %" if isinstance(value, float) else f"{value:,}"


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def _default(name: str, value: float | None) -> str:
    return "" if value is None else amount(name.upper(), value)
