"""The page of what was seen on cards has every observation once, each with a source and with what it became."""

import re
from collections import Counter

from tests.docs.snippets import ROOT

COUNT = 58
TEXT = (ROOT / "docs/cards-seen.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in re.findall(r"^\| \d+ \|.*$", TEXT, re.MULTILINE)]
TOTALS = {kind: int(count) for kind, count in re.findall(r"^\| ([a-z ]+) \| (\d+) \|", TEXT, re.MULTILINE)}


def test_every_observation_has_one_row_with_a_source() -> None:
    seen = [row for row in ROWS if len(row) == 5]
    assert sorted(int(number) for number, *_ in seen) == list(range(1, COUNT + 1))
    for number, _, _, source, _ in seen:
        assert re.search(r"\]\(https://|^\[[\w-]+ \w+\]", source), number


def test_the_totals_are_those_of_the_rows() -> None:
    kinds = Counter(re.split("[:,]", row[4])[0] for row in ROWS if len(row) == 5)
    assert kinds == TOTALS
    assert sum(TOTALS.values()) == COUNT


def test_links_by_name_lead_somewhere() -> None:
    defined = set(re.findall(r"^\[([^\]]+)\]: https://", TEXT, re.MULTILINE))
    used = set(re.findall(r"\[([^\]]+)\](?![(:])", TEXT))
    assert used == defined


def test_tests_that_a_row_names_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", TEXT)
    assert len(named) > 5
    assert [each for each in named if not (ROOT / each).exists()] == []
