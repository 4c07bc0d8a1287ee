"""What commands share: arguments and options, and how their modules are imported."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from aclgrad.operators.names import NAMES

TARGET: Final = "127.0.0.1:50051"
SECONDS: Final = click.FloatRange(min=0, min_open=True)
FILE: Final = click.Path(dir_okay=False, path_type=Path)
OLD_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def completed(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in NAMES if name.startswith(incomplete)]


def addressed(given: dict[str, Any], address: str | None) -> dict[str, Any]:
    """Returns the options with the server that stands without a flag, if there is one."""
    return given if address is None else given | {"target": address}


def target_option(help: str, default: str | None = TARGET) -> Callable[..., Any]:
    """`Client.from_env` reads the other variables."""
    return click.option(
        "--target", envvar="ACLGRAD_TARGET", show_envvar=True, default=default, show_default=True, help=help
    )


target: Final = target_option("The server: host:port or unix:path; several with commas.")
address: Final = click.argument("address", metavar="[TARGET]", required=False)
as_json: Final = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
precision: Final = click.option(
    "--precision",
    type=click.Choice(("auto", "float32", "hf32", "float16")),
    default="auto",
    show_default=True,
    help="What products of float32 may be rounded to; auto notes which one it was.",
)
verbose: Final = click.option("-v", "--verbose", is_flag=True, help="Show all rows, not only those that failed.")


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Says so on a terminal: Ctrl-C may end the process at once, so the cursor stays as it is."""
    is_shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if is_shown:
        click.echo(f"loading {what} ...", nl=False, err=True)
    try:
        with importing():
            yield
    finally:
        if is_shown:
            click.echo("\r\x1b[2K", nl=False, err=True)


@contextmanager
def importing() -> Iterator[None]:
    """Ctrl-C ends the process without a traceback while a command's modules are imported, and gRPC is, quietly."""
    # Its own lines would come between those of the command, which say the same.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
