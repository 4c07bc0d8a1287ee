"""The table of `make bench`: its verdicts, its page, and the rows of it that the README shows."""

import math
from pathlib import Path

import pytest

from tools.benchmarks.goals import GOALS, HEADINGS, Found, Goal, rows, verdict
from tools.generate.figures import PAGE, README, block, readme_rows, with_block

ROOT = Path(__file__).parents[2]
PAGE_TEXT = (ROOT / PAGE).read_text()
ALL = [Found(goal.what, goal.beside, "1 ms", number / 10) for number, goal in enumerate(GOALS)]


@pytest.mark.parametrize(
    ("ratio", "said"), [(0.74, "missed"), (0.75, "kept"), (0.79, "kept"), (0.8, "reached"), (math.nan, "missed")]
)
def test_a_verdict_is_that_of_the_ratio_as_it_is_shown(ratio: float, said: str) -> None:
    assert verdict(Goal("", "", least=0.75, goal=0.8), ratio) == said
    assert verdict(Goal("", "", least=0.75, goal=0.8), ratio + 0.001) == said
    assert verdict(Goal("", "", least=0.75), ratio) == ("missed" if said == "missed" else "kept")
    assert verdict(Goal("", ""), ratio) == "no promise"


def test_a_new_run_replaces_the_table_and_nothing_else() -> None:
    before, after = PAGE_TEXT.split("<!-- bench: ")[0], PAGE_TEXT.split("<!-- end of bench -->")[1]
    once = with_block(PAGE_TEXT, block("yesterday", HEADINGS, rows(ALL)))
    twice = with_block(once, block("today", HEADINGS, rows(ALL[:1])))
    assert twice.startswith(before)
    assert twice.endswith(after)
    assert "yesterday" not in twice
    assert twice.count("| call of 16 KB") == 1


def test_the_readme_has_rows_of_the_latest_run_and_its_date() -> None:
    table = readme_rows(with_block(PAGE_TEXT, block("today, here", HEADINGS, rows(ALL))))
    for what, beside in README:
        (found,) = (each for each in ALL if (each.what, each.beside) == (what, beside))
        assert f"| {what} | {beside} | {found.ratio:.2f} |" in table
    assert "On the CPU, today, above 1" in table


@pytest.mark.parametrize("page", [PAGE_TEXT.replace("<!-- end of bench -->", ""), with_block(PAGE_TEXT, "")])
def test_a_page_without_the_table_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match=r"capacity\.md lacks"):
        readme_rows(page)


def test_the_page_has_the_rows_of_the_readme() -> None:
    assert readme_rows(PAGE_TEXT).count("\n| ") == len(README)
