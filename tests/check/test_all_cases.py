"""Every case of the table: the plan of a run, and runs on servers of the host library."""

import json
from pathlib import Path

import pytest

from aclgrad.check.run import plan
from aclgrad.check.target import open_target
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.testing import serve
from tests.check.checking import check
from tools.serving import Server


@pytest.mark.parametrize("is_quick", [True, False])
def test_two_runs_make_the_same_cases_with_every_dtype(is_quick: bool) -> None:
    plans = []
    with serve() as server:
        for _ in range(2):
            with open_target(server.target, 60) as target:
                tasks = plan(target, is_quick=is_quick)
                plans.append([(task.check, task.operator, task.dtype, task.case) for task in tasks])
    assert plans[0] == plans[1]
    assert len(set(plans[0])) == len(plans[0])
    covered = {(operator, dtype) for check, operator, dtype, _ in plans[0] if check == "accuracy"}
    assert covered == {
        (spec.name, dtype) for spec in OPERATORS.values() for dtype in spec.inputs[0].dtypes[Product.ATLAS_A2]
    }


def test_memory_of_a_servers_devices_comes_back(server: Server, tmp_path: Path) -> None:
    checked = check(tmp_path, server.address, only=("memory",))
    assert (checked.exit_code, checked.verdicts("memory")) == (0, {"passed"}), checked.output
    assert {(row["library"], bool(row["runtime_version"])) for row in checked.rows} == {("libacl_host.so", True)}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("product", [Product.ATLAS_A2, Product.ATLAS_TRAINING])
def test_both_layouts_of_masks_pass(product: Product, tmp_path: Path) -> None:
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"host": {"product": product}}))
    with Server("--acl-config", str(config)) as server:
        checked = check(tmp_path, server.address)
        invariant = check(tmp_path, server.address, "--invariance")
    assert (checked.exit_code, invariant.exit_code) == (0, 0), checked.output + invariant.output
    assert {row["verdict"] for row in (*checked.rows, *invariant.rows)} == {"passed"}
    served = {spec.name for spec in OPERATORS.values() if product in spec.products}
    assert {row["operator"] for row in checked.rows} - {""} == served
    if product is Product.ATLAS_TRAINING:
        assert "uint16 bits" in {row["message"] for row in checked.rows if row["check"] == "layouts"}
