"""Each product serves what CANN documents for it, in the dtypes and mask layout that it has."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import aclgrad
from aclgrad import reference
from aclgrad.masks import MaskLayout, Pooling, argmax_of_input, mask_of_argmax
from aclgrad.operators.cases import first_cases
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


@pytest.fixture(scope="module", params=PRODUCTS, ids=str)
def product(request: pytest.FixtureRequest) -> Product:
    return request.param


@pytest.fixture(scope="module")
def client(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[aclgrad.Client]:
    config = config_of(product, tmp_path_factory.mktemp("config"))
    with Server("--acl-config", config) as server, aclgrad.Client(server.address) as client:
        yield client


def test_the_product_and_its_operators_are_told(client: aclgrad.Client, product: Product) -> None:
    assert client.server_status().product == product
    assert {each.name for each in client.list_operators()} == SERVED[product]


def test_gradients_of_the_product_are_right(client: aclgrad.Client, product: Product) -> None:
    cases = list(first_cases(product, every_dtype=True))
    assert {typed.spec.name for typed in cases} == SERVED[product]
    for typed in cases:
        inputs = typed.arrays()
        gradient = client.execute(typed.spec.name, inputs, typed.case.attributes)
        truth = reference.define(typed.spec.name, inputs, typed.case.attributes)
        tolerance = typed.spec.tolerance(product, typed.dtype)
        error = np.abs(gradient.astype(truth.dtype) - truth)
        assert (error <= tolerance.absolute + tolerance.relative * np.abs(truth)).all(), str(typed)


@pytest.mark.parametrize("kernel", [(3, 2), (1, 1)], ids=str)
def test_the_mask_of_the_product_means_what_its_argmax_means(
    client: aclgrad.Client, product: Product, kernel: tuple[int, int]
) -> None:
    if "max_pool2d_with_mask_backward" not in SERVED[product]:
        return
    pooling = Pooling.of((9, 10), kernel, (2, 3), (kernel[0] // 2, kernel[1] // 2), ceil_mode=True)
    generator = np.random.default_rng(5)
    input = generator.standard_normal((2, 19, 9, 10), np.float32)
    pooled, argmax = argmax_of_input(input, pooling)
    grad_output = generator.standard_normal(pooled.shape, np.float32)
    has_prefix = product is not Product.ATLAS_TRAINING and kernel != (1, 1)
    mask = mask_of_argmax(argmax, pooling, MaskLayout.INT32_PREFIX if has_prefix else MaskLayout.UINT16_BITS)
    attributes = (pooling.kernel_size, pooling.stride, pooling.padding)
    gradients = [
        client.max_pool2d_with_mask_backward(grad_output, input, indices, *attributes, ceil_mode=True)
        for indices in (mask, argmax, argmax.astype(np.int64))
    ]
    truth = reference.max_pool2d_with_mask_backward(grad_output, input, argmax, *attributes, ceil_mode=True)
    np.testing.assert_allclose(gradients[0], truth, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(gradients[1], gradients[0])
    np.testing.assert_array_equal(gradients[2], gradients[0])


@pytest.mark.slow
def test_a_product_without_operators_is_reported_and_never_ready(tmp_path: Path) -> None:
    config = config_of(Product.ATLAS_200I_A2, tmp_path)
    done = run_to_end("--backend", "host", "--listen", "127.0.0.1:0", "--acl-config", config)
    assert done.returncode == 1
    assert "ready" not in done.stdout
    assert "product 310B (Ascend310B1) has none of the operators" in done.stderr
