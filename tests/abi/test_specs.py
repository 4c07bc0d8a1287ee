"""The host library and the operator table agree on which product takes which data types."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.tensors import DTYPES

from . import test_products
from .acl import DataType, Library
from .phase_one import Tensor, phase_one


def answer(acl: Library) -> None:
    """Runs in the product's process: prints the data types that each operator takes for its gradient."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    answers: dict[str, list[int]] = {}
    for name, module in test_products.OPERATORS.items():
        answers[name] = []
        for data_type in DataType:
            changes = {
                key: replace(value, data_type=data_type)
                for key, value in module.VALID.items()
                if isinstance(value, Tensor) and value.data_type == module.VALID["gradOutput"].data_type
            }
            code, _ = phase_one(acl, name, module.VALID | changes)
            answers[name] += [int(data_type)] if code == 0 else []
    print(json.dumps(answers))


@pytest.mark.parametrize("product", Product)
def test_products_and_data_types(run_program: Callable[..., list[str]], tmp_path: Path, product: Product) -> None:
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"host": {"product": product}}))
    program = f"from abi.{Path(__file__).stem} import answer\nanswer(acl)\n"
    answers = json.loads(run_program(program, ACL_HOST_CONFIG=str(config))[-1])
    for spec in OPERATORS.values():
        named = spec.inputs[0].dtypes.get(product, ())
        assert sorted(answers[spec.symbol]) == sorted(int(DTYPES[each].acl) for each in named), (
            f"{spec.symbol} on {product}: plan.cpp of its folder and its spec say different things"
        )
