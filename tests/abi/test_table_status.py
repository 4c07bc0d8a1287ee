"""Phase 1 follows the operator table: it accepts the sample calls, and refuses everything that the table excludes."""

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tools.abi.acl import Library

from .phase_one import phase_one
from .table_calls import Row, rows_of

ROWS = [
    pytest.param(spec.symbol, row, id=f"{spec.name}-{name}")
    for spec in OPERATORS.values()
    for name, row in rows_of(spec, Product.ATLAS_A2).items()
]


@pytest.mark.parametrize(("symbol", "row"), ROWS)
def test_answer(acl: Library, symbol: str, row: Row) -> None:
    code, message = phase_one(acl, symbol, row.arguments)
    assert (code, message[: len(row.message)]) == (row.code, acl.told(row.message)), message
