"""The pages say one thing once: headings, rows of tables, times; and what they say of the project is so."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from aclgrad.v1 import error_reason_pb2
from tests.docs.snippets import PAGES, ROOT

ALL = [*PAGES, *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """Returns the page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ALL, ids=name)
def test_no_heading_occurs_twice_in_a_page(page: Path) -> None:
    headings = Counter(re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE))
    assert [heading for heading, count in headings.items() if count > 1] == []


@pytest.mark.parametrize("page", ALL, ids=name)
def test_no_name_has_two_rows_in_a_table(page: Path) -> None:
    for table in re.findall(r"(?:^\|.*\n)+", prose(page), re.MULTILINE):
        names = Counter(row.split("|")[1].strip() for row in table.splitlines()[2:])
        assert [each for each, count in names.items() if count > 1 and each.startswith("`")] == []


def test_folders_that_make_test_leaves_out_are_told() -> None:
    """And where pages say what it runs, they do not say that it is everything."""
    folders = {path.parent.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/test_*.py")}
    left_out = set(PROJECT["pytest"]["ini_options"]["norecursedirs"]) & folders
    (told,) = re.findall(r"`make test` leaves out (.*?):", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert set(re.findall(r"`(\w+)`", told)) == left_out
    assert [name(page) for page in ALL if "every test" in page.read_text()] == []


def test_pages_agree_on_the_time_of_the_first_build() -> None:
    sentences = {
        "README.md": r"The first run compiles the C\+\+: about (\w+) minutes",
        "CONTRIBUTING.md": r"installs the C\+\+ \| (\w+) minutes at first",
        "docs/quick-start.md": r"The first run takes about (\w+) minutes",
    }
    told = {re.search(sentence, (ROOT / page).read_text())[1] for page, sentence in sentences.items()}  # type: ignore[index]
    assert len(told) == 1


def test_the_table_of_the_servers_packages_is_that_of_the_linter() -> None:
    """From top to bottom, complete, and with nothing that is gone."""
    contracts = PROJECT["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == ["aclgrad_server"])
    allowed = [set(layer.split(" | ")) for layer in layers]
    text = (ROOT / "ARCHITECTURE.md").read_text()
    (table,) = re.findall(r"^\| package or module \| subject \|\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [re.findall(r"`(\w+)/?`", row.split("|")[1]) for row in table.splitlines()]
    floors = [next(index for index, layer in enumerate(allowed) if each in layer) for row in rows for each in row]
    assert floors == sorted(floors)
    assert sorted(each for row in rows for each in row) == sorted(set().union(*allowed))


def test_files_that_the_table_of_limits_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    (table,) = re.findall(r"^\| what \| limit \| where \| beyond it \|\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    named = {file for row in table.splitlines() for file in re.findall(r"`([\w/]+\.py)`", row.split("|")[3])}
    there = [str(path) for folder in ("server/src", "client/src") for path in (ROOT / folder).rglob("*.py")]
    assert named
    assert {file for file in named if not any(path.endswith(f"/{file}") for path in there)} == set()


def test_nothing_is_installed_from_where_nothing_is_published() -> None:
    """Until there is a release, packages come from the checkout or from the wheels of `make dist`."""
    for page in ALL:
        for found in re.findall(r"pip install ([^\n`]+)", page.read_text()):
            assert not re.match(r"'?aclgrad", found), (name(page), found)


def test_every_reason_has_a_cause_and_a_remedy() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text()
    sections = dict(re.findall(r"^### ([A-Z_]+)\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL))
    reasons = {name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.DESCRIPTOR.values_by_name}
    assert set(sections) == reasons - {"UNSPECIFIED"}
    for reason, section in sections.items():
        assert ("**Cause.** " in section, "**Remedy.** " in section) == (True, True), reason
