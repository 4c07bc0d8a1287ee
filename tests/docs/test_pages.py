"""The pages say one thing once: headings, rows of tables, times; and what they say of the project is so."""

import re
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from aclgrad.errors import AccessDeniedError, AclgradError, RequestError, RetryableError
from aclgrad.wire import limits as contract
from aclgrad_server import limits as server
from aclgrad_server.admin import listener
from tests.docs.snippets import PAGES, ROOT
from tools.benchmarks.rates import LEAST
from tools.benchmarks.rivals import FIGURES
from website.limits import amount, constants

DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))
ALL = [*PAGES, *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")), *DECISIONS]
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


def test_targets_that_ci_leaves_out_have_a_row() -> None:
    """Those of `make help` that are tests, and the whole of what CI runs shortened."""
    makefile = (ROOT / "Makefile").read_text()
    in_ci = set(" ".join(re.findall(r"^CI_\w+ := (.*)$", makefile, re.MULTILINE)).split())
    targets = set(re.findall(r"^([a-z0-9-]+):.* ## ", makefile, re.MULTILINE))
    tests = {each for each in targets if each.startswith("test-")} - in_ci - {"test-client"}  # a part of `make test`
    whole = {each.removesuffix("-short") for each in in_ci if each.endswith("-short")} | {"sanitize"}
    table = (
        (ROOT / "CONTRIBUTING.md").read_text().partition("| target | run it if you change |")[2].partition("\n\n")[0]
    )
    rows = set(re.findall(r"`([a-z0-9-]+)`", " ".join(row.split("|")[1] for row in table.splitlines() if row)))
    assert tests | whole <= rows <= targets - in_ci


def test_pages_agree_on_the_time_of_the_first_build() -> None:
    sentences = {
        "README.md": r"The first run compiles the C\+\+: about (\w+) minutes",
        "CONTRIBUTING.md": r"installs the C\+\+ \| (\w+) minutes at first",
        "docs/quick-start.md": r"The first run takes about (\w+) minutes",
        "Makefile": r"Compiling the C\+\+ \(about (\w+) minutes the first time\)",
    }
    told = {re.search(sentence, (ROOT / page).read_text())[1] for page, sentence in sentences.items()}  # type: ignore[index]
    assert len(told) == 1


def test_the_table_of_the_servers_packages_is_that_of_the_linter() -> None:
    """From top to bottom, complete, and with nothing that is gone."""
    contracts = PROJECT["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == ["aclgrad_server"])
    allowed = [set(layer.split(" | ")) for layer in layers]
    text = (ROOT / "ARCHITECTURE.md").read_text()
    (table,) = re.findall(r"^\| package \| subject \|\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [re.findall(r"`(\w+)/?`", row.split("|")[1]) for row in table.splitlines()]
    floors = [next(index for index, layer in enumerate(allowed) if each in layer) for row in rows for each in row]
    assert floors == sorted(floors)
    folder = ROOT / "server/src/aclgrad_server"
    packages = {each for each in set().union(*allowed) if (folder / each / "__init__.py").exists()}
    assert {each for row in rows for each in row} == packages


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


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([\d.to ]+) \| ([\d.to ]+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    shown = {name: ranges for name, *ranges in rows}
    sizes = ("16 KB", "6.4 MB")
    ratios = {(each.server, each.size): each.ratio for each in FIGURES if each.concurrency == 16}
    (ours,) = (name for name in shown if name.startswith("aclgrad"))
    assert shown.pop(ours) == [f"{LEAST[size, 16][0]:g}" for size in sizes]
    assert len(shown) == 2
    (naive,) = (each for each in FIGURES if (each.size, each.concurrency) == ("16 KB", 1) and "naive" in each.server)
    assert f"{naive.ratio:g}, where aclgrad promises {LEAST['16 KB', 1][0]:g}" in (ROOT / "README.md").read_text()
    for names, ranges in shown.items():
        for size, range_of_ratios in zip(sizes, ranges, strict=True):
            found = [ratio for (name, of), ratio in ratios.items() if name.split()[0] in names and of == size]
            assert sorted({min(found), max(found)}) == [*map(float, range_of_ratios.split(" to "))]


def test_every_reason_has_a_cause_and_a_remedy() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text()
    sections = dict(re.findall(r"^### ([A-Z_]+)\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL))
    errors = {each.reason: each for each in kinds(AclgradError) if each.reason}
    assert sections.keys() == errors.keys()
    for reason, section in sections.items():
        name = f"`{errors[reason].__name__}`" + " (repeated)" * issubclass(errors[reason], RetryableError)
        assert (f"\n{name}. **Cause.** " in section, "**Remedy.** " in section) == (True, True), reason


def test_every_error_is_in_troubleshooting() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text()
    groups = {RequestError, RetryableError, AccessDeniedError}
    assert [each for each in kinds(AclgradError) if each not in groups and f"`{each.__name__}`" not in text] == []


def kinds(parent: type[AclgradError]) -> set[type[AclgradError]]:
    """Returns the kinds of an error that clients see."""
    children = {each for each in parent.__subclasses__() if each.__module__ == parent.__module__}
    return children.union(*map(kinds, children))
