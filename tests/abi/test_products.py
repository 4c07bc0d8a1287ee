"""Phase 1 takes the sample calls, refuses what the operator table excludes, and has CANN's codes; so on every product.

A process has one product, so each answers all questions in one process.
"""

import ctypes
import json
from collections.abc import Callable

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import STREAM_LIMITS, Product
from tools.abi.acl import Library

from .checks import every_row
from .phase_one import INVALID, Row, wrong_answers
from .programs_in_forks import call_of
from .table_calls import TABLED

HBM = 1

# SoC name, streams of a device, memory that an allocation of one byte takes.
PRODUCTS = {
    "910A": ("Ascend910A", 2048, 64),
    "910B": ("Ascend910B1", 1984, 64),
    "910_93": ("Ascend910_9391", 1984, 64),
    "310P": ("Ascend310P3", 1024, 64),
    "310B": ("Ascend310B1", 512, 64),
    "950": ("Ascend950PR_9589", 1984, 32),
}


def answer(acl: Library, product: str) -> None:
    """Runs in the product's process; prints what it is like, and answers that are not as expected."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    free = free_bytes(acl)
    with acl.buffer(1):
        allocation = free - free_bytes(acl)
    streams = 1  # the default stream
    while acl.aclrtCreateStream(ctypes.byref(ctypes.c_void_p())) == 0:
        streams += 1
    wrong = {}
    for name, spec in TABLED.items():
        rows = wrong_answers(acl, spec.symbol, expected_rows(name, Product(product)))
        wrong |= {f"{name}: {row}": each for row, each in rows.items()}
    print(json.dumps({"device": (acl.aclrtGetSocName().decode(), streams, allocation), "wrong": wrong}))


def free_bytes(acl: Library) -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    acl.call("aclrtGetMemInfo", HBM, ctypes.byref(free), ctypes.byref(total))
    return free.value


def expected_rows(name: str, product: Product) -> dict[str, Row]:
    rows = every_row(name, product)
    if product in OPERATORS[name].products:
        return rows
    message = f"the product {product} does not support this operator"
    if (product, name) == (Product.ASCEND_950, "max_pool2d_with_mask_backward"):
        message += "; use aclnnMaxPool2dWithIndicesBackward"
    return {row: Row(each.arguments, INVALID, message) for row, each in rows.items()}


@pytest.mark.parametrize("product", PRODUCTS)
def test_product(run_program: Callable[..., list[str]], product: str) -> None:
    (line,) = run_program(call_of(answer, product), {"product": product})
    assert json.loads(line) == {"device": list(PRODUCTS[product]), "wrong": {}}
    assert STREAM_LIMITS[Product(product)] == PRODUCTS[product][1]


@pytest.mark.parametrize("name", TABLED)
def test_every_row_of_the_default_product(acl: Library, name: str) -> None:
    assert wrong_answers(acl, OPERATORS[name].symbol, every_row(name, Product.ATLAS_A2)) == {}
