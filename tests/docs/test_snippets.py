"""The Python, `aclgrad` and `make` snippets of README and docs run as they stand, but for the address."""

import re
import shlex
from pathlib import Path

import click
import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad_server.cli import main
from aclgrad_server.listen_addresses import is_local
from aclgrad_server.settings import read_settings
from tests.docs.running import LIMIT_S, run
from tests.docs.snippets import PAGES, ROOT, Snippet, snippets
from tools.rehearsal.__main__ import RUNBOOK
from tools.serving import Server
from website.commands import PROGRAMS
from website.operators.pages import example

SNIPPETS = {page: list(snippets(page)) for page in PAGES}
# `make rehearsal` runs the runbook.
RUN_HERE = [page for page, found in SNIPPETS.items() if page != RUNBOOK and not all(each.needs for each in found)]
NEEDS = {
    "Docker",
    "HAProxy",
    "a card",
    "a cluster",
    "a dump",
    "a maintainer",
    "a model",
    "a quiet machine",
    "certificates",
    "msprobe",
    "root",
    "two hosts",
}


def first_steps(page: str) -> list[Snippet]:
    """Returns the blocks up to the first one in Python."""
    found = SNIPPETS[ROOT / page]
    return found[: 1 + next(number for number, each in enumerate(found) if each.language == "python")]


def test_the_first_snippets_run(server: Server, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run(first_steps("README.md") + first_steps("docs/quick-start.md"), server, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("page", RUN_HERE, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_snippets_of_a_page_run(page: Path, server: Server, tmp_path: Path) -> None:
    run(SNIPPETS[page], server, tmp_path)


@pytest.mark.slow
def test_the_client_for_several_servers_runs(server: Server, tmp_path: Path) -> None:
    run([Snippet("workers.py", "python", (ROOT / "examples/workers.py").read_text())], server, tmp_path)


@pytest.mark.slow
def test_the_examples_of_the_operators_run(server: Server, tmp_path: Path) -> None:
    run([Snippet(name, "python", example(spec)) for name, spec in OPERATORS.items()], server, tmp_path)


def test_what_cannot_run_here_says_what_it_needs() -> None:
    everything = [each for found in SNIPPETS.values() for each in found]
    marked = [each for each in everything if each.needs]
    assert {each.needs for each in marked} <= NEEDS
    assert len(marked) < len(everything) / 3
    assert all(each.needs for each in everything if each.language == "console")


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", ROOT / "SECURITY.md"):
        named = set(re.findall(r"`make ([a-z0-9-]+)", page.read_text()))
        assert named <= targets, page.name


def test_every_flag_that_a_page_names_exists() -> None:
    # Of the programs, and of `aclgrad-server probe`, which reads its arguments itself.
    flags = {flag for command in PROGRAMS.values() for each in command.params for flag in each.opts} | {"--live"}
    for page in [page for page in PAGES if page != ROOT / "deploy/README.md"]:
        assert set(re.findall(r"`(--[a-z-]+)[ `]", page.read_text())) <= flags, page.name


def test_every_container_of_a_page_serves_others() -> None:
    """A server refuses an address that others reach without TLS or --insecure, and is alone on its own loopback."""
    pages = [*PAGES, *(page for folder in ("website", "examples") for page in (ROOT / folder).rglob("*.md"))]
    texts = {page: "".join(each.text for each in snippets(page)).replace("\\\n", " ") for page in pages}
    starts = {page: re.findall(r"\bdocker run\b.* aclgrad:(?:host|ascend) (.*)", text) for page, text in texts.items()}
    assert starts[ROOT / "deploy/README.md"]
    for page, commands in starts.items():
        for arguments in commands:
            with click.Context(main) as context:
                main.parse_args(context, shlex.split(arguments))
                settings = read_settings(context.params)
            assert not all(map(is_local, settings.listen)), (page, arguments)
