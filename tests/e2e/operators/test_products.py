"""Each product serves what CANN documents for it, in the dtypes and mask layout that it has."""

from pathlib import Path

import pytest

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tests.e2e.fault_plans import write_config
from tools.serving import Server

pytestmark = pytest.mark.once

SERVED = {
    product: {name for name, spec in OPERATORS.items() if product in spec.products}
    for product in Product
    if any(product in spec.products for spec in OPERATORS.values())
}


# The one that lacks most: bfloat16, and operators.
QUICK = Product.ATLAS_INFERENCE
PRODUCTS = [pytest.param(each, marks=[] if each is QUICK else pytest.mark.slow) for each in SERVED]


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_the_product_and_its_operators_are_told(product: Product, tmp_path: Path) -> None:
    """The self-test has compared a gradient of each operator and dtype with the definition, and turned none off."""
    with (
        Server("--acl-config", write_config(tmp_path, strict=False, product=product)) as server,
        aclgrad.Client(server.address) as client,
    ):
        status = client.server_status()
        assert (status.product, status.turned_off_operators) == (product, ())
        assert {each.name for each in client.list_operators()} == SERVED[product]
