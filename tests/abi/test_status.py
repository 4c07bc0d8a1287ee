"""Phase 1 accepts the sample calls, refuses everything that the operator table excludes, and checks in CANN's order."""

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tools.abi.acl import Library

from .checks import every_row
from .phase_one import phase_one


@pytest.mark.parametrize("name", OPERATORS)
def test_every_row(acl: Library, name: str) -> None:
    rows = every_row(name, Product.ATLAS_A2)
    answers = {row: phase_one(acl, OPERATORS[name].symbol, each.arguments) for row, each in rows.items()}
    got = {row: (code, message[: len(rows[row].message)]) for row, (code, message) in answers.items()}
    assert got == {row: (each.code, acl.told(each.message)) for row, each in rows.items()}
