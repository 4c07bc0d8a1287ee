"""Each product serves what CANN documents for it, in the dtypes and mask layout that it has."""

import json
from pathlib import Path

import pytest

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tools.serving import Server, run_to_end

pytestmark = pytest.mark.once

SERVED = {
    product: {name for name, spec in OPERATORS.items() if product in spec.products}
    for product in Product
    if any(product in spec.products for spec in OPERATORS.values())
}


def config_of(product: Product, folder: Path) -> str:
    path = folder / f"{product}.json"
    path.write_text(json.dumps({"host": {"product": product}}))
    return str(path)


# The one that lacks most: bfloat16, and operators.
QUICK = Product.ATLAS_INFERENCE
PRODUCTS = [pytest.param(each, marks=[] if each is QUICK else pytest.mark.slow) for each in SERVED]


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_the_product_and_its_operators_are_told(product: Product, tmp_path: Path) -> None:
    """The self-test has compared a gradient of each operator and dtype with the definition, and turned none off."""
    with Server("--acl-config", config_of(product, tmp_path)) as server, aclgrad.Client(server.address) as client:
        status = client.server_status()
        assert (status.product, status.turned_off_operators) == (product, ())
        assert {each.name for each in client.list_operators()} == SERVED[product]


@pytest.mark.slow
def test_a_product_without_operators_is_reported_and_never_ready(tmp_path: Path) -> None:
    config = config_of(Product.ATLAS_200I_A2, tmp_path)
    done = run_to_end("--backend", "host", "--listen", "127.0.0.1:0", "--acl-config", config)
    assert done.returncode == 1
    assert "ready" not in done.stdout
    assert "product 310B (Ascend310B1) has none of the operators" in done.stderr
