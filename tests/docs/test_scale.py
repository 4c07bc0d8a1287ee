"""The page on scale has the tables that its script makes, from the times of the page on capacity."""

import re

import pytest

from tests.docs.snippets import ROOT
from tools.scale.figures import LOADS, TARGET
from tools.scale.tables import PAGE, written

pytestmark = pytest.mark.once

CAPACITY = (ROOT / "docs/capacity.md").read_text()


@pytest.mark.slow
@pytest.mark.long
def test_the_tables_are_those_of_the_script() -> None:
    assert written(PAGE.read_text()) == PAGE.read_text(), "run `make scale`"


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_times_are_the_upper_ends_of_those_measured(load: object) -> None:
    rows = {
        f"{size} in batches" if kind.startswith("batch") else size: float(time.split(" to ")[-1])
        for size, kind, time in re.findall(r"^\| (\S+ \wB) \| (\w[^|]+) \| ([\d. to]+) \|", CAPACITY, re.MULTILINE)
    }
    assert load.cpu_ms == rows[load.name]  # type: ignore[attr-defined]


def test_the_page_on_capacity_plans_for_the_same_utilisation() -> None:
    assert f"/ 1000 / {TARGET:g}`: size for {TARGET:.0%}".replace("%", " %") in CAPACITY
