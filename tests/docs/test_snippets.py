"""The Python, `aclgrad` and `make` snippets of README and docs run as they stand, but for the address."""

from collections import Counter
from pathlib import Path

import pytest

from aclgrad.operators.catalogue import OPERATORS
from tests.docs.running import LIMIT_S, run
from tests.docs.snippets import PAGES, ROOT, Snippet, snippets
from tests.rehearsal.__main__ import RUNBOOK
from tests.serving import Server
from website.operators.pages import example

# `make rehearsal` runs the runbook.
SNIPPETS = {str(page.relative_to(ROOT)): list(snippets(page)) for page in PAGES if page != RUNBOOK}


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("page", [page for page, found in SNIPPETS.items() if found])
def test_the_snippets_of_a_page_run(page: str, server: Server, tmp_path: Path) -> None:
    run(SNIPPETS[page], server, tmp_path)


def test_the_examples_of_the_operators_run(server: Server, tmp_path: Path) -> None:
    run([Snippet(name, "python", example(spec)) for name, spec in OPERATORS.items()], server, tmp_path)


def test_what_cannot_run_here_is_marked_and_counted() -> None:
    marked = Counter(each.needs for found in SNIPPETS.values() for each in found if each.needs)
    assert marked == {"Docker": 4, "a cluster": 2, "certificates": 2}
