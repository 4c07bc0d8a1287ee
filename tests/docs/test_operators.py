"""What README and the texts of attributes say of operators, compared with the table that a server checks calls by."""

import re

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.tensors import DTYPES
from tests.docs.snippets import ROOT

(TABLE,) = re.findall(r"<!-- operators: .*? -->\n(.*?)<!--", (ROOT / "README.md").read_text(), re.DOTALL)
ROWS = [[cell.strip() for cell in row.split("|")[1:-1]] for row in TABLE.splitlines()]
HEAD, _, *FAMILIES = ROWS
ALONG_AND_ACROSS = {"rows": "columns", "height": "width", "oH": "oW", "H": "W", "h": "w"}
AXES = re.compile(r"(?<![a-zA-Z])(rows|columns|height|width|oH|oW|H|W|h|w)(?![a-zA-Z])")


def members(cell: str) -> list[str]:
    """Returns the wire names in a cell, which leaves out `_backward`."""
    names = re.findall(r"`(\w+)`", cell)
    return [name if name in OPERATORS else f"{name}_backward" for name in names]


def test_every_operator_is_in_one_family() -> None:
    assert sorted(name for family in FAMILIES for name in members(family[1])) == sorted(OPERATORS)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family[0])
def test_a_family_takes_the_dtypes_of_its_row(family: list[str]) -> None:
    """Those of all on each product that has an operator, and those of some on at least one of them."""
    row = dict(zip(HEAD, family, strict=True))
    taken = [set(types) for name in members(row["operators"]) for types in OPERATORS[name].inputs[0].dtypes.values()]
    by_all = {dtype for dtype in DTYPES if all(dtype in each for each in taken)}
    by_some = {dtype for dtype in DTYPES if any(dtype in each for each in taken)} - by_all
    assert (row["dtypes of all"], row["of some"]) == (", ".join(sorted(by_all)), ", ".join(sorted(by_some)))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family[0])
def test_a_product_has_the_operators_of_its_cell(family: list[str]) -> None:
    row = dict(zip(HEAD, family, strict=True))
    for product in HEAD[4:]:
        expected = [name for name in members(row["operators"]) if product in OPERATORS[name].products]
        assert (members(row["operators"]) if row[product] == "●" else members(row[product])) == expected


def test_the_attribute_of_each_axis_speaks_of_its_own() -> None:
    """Texts of a pair differ in the axis alone: one for rows, exchanged, is that for columns."""
    exchanged = ALONG_AND_ACROSS | {across: along for along, across in ALONG_AND_ACROSS.items()}
    pairs = 0
    for spec in OPERATORS.values():
        summaries = {each.name: each.summary for each in spec.attributes}
        for name, summary in summaries.items():
            other = re.sub(r"_(h|height)$", lambda found: f"_{exchanged[found[1]]}", name)
            if other != name:
                assert AXES.sub(lambda found: exchanged[found[1]], summary) == summaries[other]
                pairs += 1
    assert pairs >= 2
