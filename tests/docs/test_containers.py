"""The lines of the pages that start a container start a server that others reach, with what is needed for that."""

import re
import shlex
from pathlib import Path

import click
import pytest

from aclgrad_server.cli import main
from aclgrad_server.listen_addresses import is_local
from aclgrad_server.settings import read_settings
from tests.docs.snippets import PAGES, ROOT, snippets

FOLDERS = ("website", "examples")
_ARGUMENTS = re.compile(r"\bdocker run\b.* aclgrad:(?:host|ascend) (.*)")


def starts(page: Path) -> list[str]:
    """Returns the server's arguments in each line of the page's blocks that starts a container."""
    texts = [each.text.replace("\\\n", " ") for each in snippets(page)]
    return [found for text in texts for found in _ARGUMENTS.findall(text)]


@pytest.mark.parametrize("page", ["README.md", "deploy/README.md"])
def test_a_page_about_containers_starts_one(page: str) -> None:
    assert starts(ROOT / page)


def test_every_container_serves_others() -> None:
    """A server refuses an address that others reach without TLS or --insecure, and is alone on its own loopback."""
    pages = [*PAGES, *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
    for page in pages:
        for arguments in starts(page):
            with click.Context(main) as context:
                main.parse_args(context, shlex.split(arguments))
                settings = read_settings(context.params)
            assert not all(map(is_local, settings.listen)), (page, arguments)
