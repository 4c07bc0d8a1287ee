"""What the pages say of the project is so: what is run, limits, figures, errors, attributes, what to install."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from aclgrad.errors import AccessDeniedError, AclgradError, RequestError, RetryableError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.wire import limits as contract
from aclgrad_server import limits as server
from aclgrad_server.admin import listener
from tests.docs.snippets import PAGES, ROOT, snippets
from website.limits import amount, constants

DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))
ALL = [*PAGES, *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")), *DECISIONS]
ALONG_AND_ACROSS = {"rows": "columns", "height": "width", "oH": "oW", "H": "W", "h": "w"}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_no_page_says_that_all_tests_run() -> None:
    """`make test` leaves out folders."""
    assert [name(page) for page in ALL if "every test" in page.read_text()] == []


def test_targets_that_ci_leaves_out_are_listed() -> None:
    """Those of `make help` that are tests, and the whole of what CI runs shortened."""
    makefile = (ROOT / "Makefile").read_text()
    in_ci = set(" ".join(re.findall(r"^CI_\w+ := (.*)$", makefile, re.MULTILINE)).split())
    targets = set(re.findall(r"^([a-z0-9-]+):.* ## ", makefile, re.MULTILINE))
    tests = {each for each in targets if each.startswith("test-")} - in_ci - {"test-client"}  # a part of `make test`
    whole = {each.removesuffix("-short") for each in in_ci if each.endswith("-short")} | {"sanitize"}
    lines = re.findall(r"^\* (`[a-z0-9-]+`.*): ", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    listed = set(re.findall(r"`([a-z0-9-]+)`", " ".join(lines)))
    assert tests | whole <= listed <= targets - in_ci


@pytest.mark.parametrize("module", [contract, server, listener], ids=lambda module: module.__name__)
def test_the_page_of_limits_has_every_limit(module: ModuleType) -> None:
    """A constant without a docstring has no row."""
    names = {each for each in vars(module) if re.match(r"MAX_|LONGEST_|.*_(LIMIT|LIMIT_S|BYTES|TIMEOUT_S)$", each)}
    assert names - {row for row, _, _ in constants(module)} <= {"STOP_LIMIT_S"}


def test_limits_are_shown_in_their_units() -> None:
    shown = {name: value for name, value, _ in constants(server)}
    assert (shown["UNREAD_BYTES"], shown["SMALL_S"], shown["MEMORY_SOFT_LIMIT"]) == ("1 MiB", "1 ms", "85 %")
    assert amount("A_BYTES", 3 * 2**29) == "1536 MiB"
    assert amount("A_BYTES_PER_S", 1.5e6) == "1.5 MB/s"


def test_every_decision_is_in_the_list_of_decisions() -> None:
    notes = {page.name for page in DECISIONS} - {"README.md"}
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/decisions/README.md").read_text())) == notes


def test_every_error_is_in_troubleshooting_and_every_reason_has_a_cause_and_a_remedy() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text()
    groups = {RequestError, RetryableError, AccessDeniedError}
    assert [each for each in kinds(AclgradError) if each not in groups and f"`{each.__name__}`" not in text] == []
    sections = dict(re.findall(r"^### ([A-Z_]+)\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL))
    errors = {each.reason: each for each in kinds(AclgradError) if each.reason}
    assert sections.keys() == errors.keys()
    for reason, section in sections.items():
        name = f"`{errors[reason].__name__}`" + " (repeated)" * issubclass(errors[reason], RetryableError)
        assert (f"\n{name}. **Cause.** " in section, "**Remedy.** " in section) == (True, True), reason


def kinds(parent: type[AclgradError]) -> set[type[AclgradError]]:
    """Returns the kinds of an error that clients see."""
    children = {each for each in parent.__subclasses__() if each.__module__ == parent.__module__}
    return children.union(*map(kinds, children))


def test_the_attribute_of_each_axis_speaks_of_its_own() -> None:
    """Texts of a pair differ in the axis alone: one for rows, exchanged, is that for columns."""
    exchanged = ALONG_AND_ACROSS | {across: along for along, across in ALONG_AND_ACROSS.items()}
    axes = re.compile(rf"(?<![a-zA-Z])({'|'.join(exchanged)})(?![a-zA-Z])")
    pairs = 0
    for spec in OPERATORS.values():
        summaries = {each.name: each.summary for each in spec.attributes}
        for attribute, summary in summaries.items():
            other = re.sub(r"_(h|height)$", lambda found: f"_{exchanged[found[1]]}", attribute)
            if other != attribute:
                assert axes.sub(lambda found: exchanged[found[1]], summary) == summaries[other]
                pairs += 1
    assert pairs >= 2


@pytest.mark.parametrize(
    "page", ["README.md", "docs/quick-start.md", "docs/command-line.md", "docs/pytorch.md", "docs/jax.md"]
)
def test_pip_installs_a_checkout_in_an_environment(page: str) -> None:
    """`aclgrad` is on no index, and Debian 12 and Ubuntu 24.04 refuse other environments (PEP 668)."""
    blocks = [each.text for each in snippets(ROOT / page) if each.language == "sh" and "pip install" in each.text]
    assert blocks
    for block in blocks:
        first, second = block.splitlines()[:2]
        assert first == "python3 -m venv .venv && . .venv/bin/activate"
        assert second.startswith(("pip install ./client", "pip install './client"))


def test_no_page_or_message_installs_from_an_index_what_is_on_none() -> None:
    """A client that is there takes its own extras from no index, so messages name them."""
    published = re.compile(r"pip install (?!'aclgrad\[)['\"]?aclgrad")
    files = [
        each for each in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if published.search(each.read_text())
    ]
    for folder in ("client/src", "server/src", "native/python", "deploy", "examples", "website", "tools"):
        for suffix in ("py", "md", "html", "jinja"):
            files += [each for each in (ROOT / folder).rglob(f"*.{suffix}") if published.search(each.read_text())]
    assert files == []
