"""Which statistics of batch norm a device reads: found by its gradients alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.cases import arrays_of
from aclgrad.products import Product
from aclgrad.tensors import dtype_of_wire
from aclgrad.testing import serve
from aclgrad.v1 import operator_service_pb2 as pb
from tests.judge.checking import BATCH_NORM, Checked, check
from tests.wrong_servers import Change, changed, of_gradients
from tools.serving import Server, write_host_config

PRODUCTS = [Product.ATLAS_A2, Product.ASCEND_950]


def rows_of(checked: Checked) -> dict[str, tuple[str, str]]:
    rows = [row for row in checked.rows if row["check"] == "statistics"]
    assert {(row["operator"], row["dtype"]) for row in rows} == {(BATCH_NORM, "float32")}
    return {row["case"]: (row["verdict"], row["message"]) for row in rows}


def reading_of(product: Product) -> str:
    return "the reciprocal 1 / sqrt(var + eps)" if product is Product.ASCEND_950 else "the variance"


def with_the_other_reading(product: Product) -> Change:
    """A device that takes what it gets for what other products get."""

    def of_reply(method: str, request: bytes, reply: bytes) -> bytes:
        if method != "ExecuteOperator":
            return reply
        call, message = pb.ExecuteOperatorRequest.FromString(request), pb.ExecuteOperatorResponse.FromString(reply)
        if call.operator != BATCH_NORM:
            return reply
        inputs: dict[str, Any] = {}
        for each in call.inputs:
            dtype = dtype_of_wire(each.data_type)
            assert dtype is not None
            inputs[each.name] = np.frombuffer(each.data, dtype.numpy).reshape(tuple(each.shape))
        eps = float(np.float32(1e-5))
        sent = inputs["save_invstd"].astype(np.float64)
        on_device = sent if product is Product.ASCEND_950 else 1 / sent**2 - eps
        read = 1 / np.sqrt(on_device + eps) if product is Product.ASCEND_950 else on_device
        truths = reference.define(BATCH_NORM, {**inputs, "save_invstd": read}, {"training": True, "eps": eps})
        for tensor, truth in zip(message.outputs, arrays_of(truths), strict=True):
            tensor.data = truth.astype(np.float32).tobytes()
        return message.SerializeToString()

    return of_reply


@pytest.mark.parametrize("product", PRODUCTS)
def test_what_a_device_reads_is_named(few: pytest.MonkeyPatch, tmp_path: Path, product: Product) -> None:
    with serve(product=str(product)) as server, changed(server.target, with_the_other_reading(product)) as wrong:
        sound = check(tmp_path, server.target, only=("statistics",))
        checked = check(tmp_path, wrong, only=("statistics",))
    assert (sound.exit_code, checked.exit_code) == (0, 1)
    told = ("passed", f"saveInvstd is read as {reading_of(product)}")
    assert rows_of(sound) == {"PyTorch's": told, "of the other reading": told}
    (other,) = {"the variance", "the reciprocal 1 / sqrt(var + eps)"} - {reading_of(product)}
    begin = f"saveInvstd is read as {other}, and product {product} should read {reading_of(product)}: gradients with "
    for verdict, message in rows_of(checked).values():
        assert verdict == "failed"
        assert message.startswith(begin)


@pytest.mark.slow
def test_the_host_library_reads_what_its_product_reads(few: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Others are among all checks of a server: test_both_layouts_of_masks_pass."""
    config = write_host_config(tmp_path, product=str(Product.ASCEND_950), host_pointers=False)
    with Server("--backend", "host", "--acl-config", config) as server:
        checked = check(tmp_path, server.address, only=("statistics",))
    assert checked.exit_code == 0, checked.output


def test_gradients_that_neither_reading_explains_fail_as_such(address: str, tmp_path: Path) -> None:
    with changed(address, of_gradients(BATCH_NORM, np.negative)) as wrong:
        checked = check(tmp_path, wrong, only=("statistics",))
    told = "saveInvstd is read neither as the variance nor as the reciprocal 1 / sqrt(var + eps): "
    assert all(verdict == "failed" and message.startswith(told) for verdict, message in rows_of(checked).values())


def test_a_product_without_the_operator_has_no_row(few: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serve(product="310P") as server:
        checked = check(tmp_path, server.target, only=("statistics",))
    assert [row for row in checked.rows if row["check"] == "statistics"] == []
