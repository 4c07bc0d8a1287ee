"""What differs from product to product. A process has one product, so each answers all questions in one process."""

import ctypes
import json
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tools.abi.acl import Library

from .phase_one import INVALID, Refused, phase_one
from .table_calls import Row, rows_of
from .test_max_pool2d_with_mask_backward_status import ON_910A

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
# Rows of the operators' own tables, which hold for 910B, that have another answer.
OTHERWISE: dict[tuple[str, str], dict[str, Refused]] = {("910A", "max_pool2d_with_mask_backward"): ON_910A}


def expected_rows(name: str, product: str) -> dict[str, Row]:
    """Returns the rows of the operator table, and those of the operator's own table if there is one."""
    spec = OPERATORS[name]
    rows = rows_of(spec, Product(product))
    if find_spec(f".test_{name}_status", __package__) is not None:
        own = import_module(f".test_{name}_status", __package__)
        rows |= {row: Row(own.VALID | changes) for row, changes in own.ACCEPTED.items()}
        for row, refused in own.REFUSED.items():
            rows[row] = Row(own.VALID | refused.changes, refused.code, refused.message)
    for row, refused in OTHERWISE.get((product, name), {}).items():
        rows[row] = Row(rows[row].arguments, refused.code, refused.message)
    if product not in spec.products:
        message = f"the product {product} does not support this operator"
        rows = {row: Row(each.arguments, INVALID, message) for row, each in rows.items()}
    return rows


def answer(acl: Library, product: str) -> None:
    """Runs in the product's process, and prints the values that the tests below compare."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    free = free_bytes(acl)
    with acl.buffer(1):
        allocation = free - free_bytes(acl)
    streams = 1  # the default stream
    while acl.aclrtCreateStream(ctypes.byref(ctypes.c_void_p())) == 0:
        streams += 1
    answers = {"device": (acl.aclrtGetSocName().decode(), streams, allocation)}
    for name, spec in OPERATORS.items():
        rows = expected_rows(name, product)
        answers[name] = {row: phase_one(acl, spec.symbol, each.arguments) for row, each in rows.items()}
    print(json.dumps(answers))


def free_bytes(acl: Library) -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    acl.call("aclrtGetMemInfo", HBM, ctypes.byref(free), ctypes.byref(total))
    return free.value


@pytest.fixture(scope="package")
def answers(tmp_path_factory: pytest.TempPathFactory, run_program: Callable[..., list[str]]) -> Callable[[str], dict]:
    @cache
    def ask(product: str) -> dict:
        config = tmp_path_factory.mktemp("product") / f"{product}.json"
        config.write_text(json.dumps({"host": {"product": product}}))
        program = f"from tests.abi.{Path(__file__).stem} import answer\nanswer(acl, {product!r})\n"
        return json.loads(run_program(program, ACL_HOST_CONFIG=str(config))[-1])

    return ask


@pytest.mark.parametrize("product", PRODUCTS)
def test_device(answers: Callable[[str], dict], product: str) -> None:
    assert tuple(answers(product)["device"]) == PRODUCTS[product]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_operator(answers: Callable[[str], dict], product: str, name: str) -> None:
    expected = {row: (each.code, each.message) for row, each in expected_rows(name, product).items()}
    got = {row: (code, message[: len(expected[row][1])]) for row, (code, message) in answers(product)[name].items()}
    assert got == expected


def test_950_names_the_operator_to_use_instead(answers: Callable[[str], dict]) -> None:
    _, message = answers("950")["max_pool2d_with_mask_backward"]["as it is"]
    assert "use aclnnMaxPool2dWithIndicesBackward" in message
