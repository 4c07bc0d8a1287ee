"""Phase 1 accepts the sample calls, refuses everything that the operator table excludes, and checks in CANN's order."""

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tools.abi.acl import Library

from .checks import every_row
from .phase_one import wrong_answers


@pytest.mark.parametrize("name", OPERATORS)
def test_every_row(acl: Library, name: str) -> None:
    assert wrong_answers(acl, OPERATORS[name].symbol, every_row(name, Product.ATLAS_A2)) == {}
