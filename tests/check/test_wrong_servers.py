"""What a run says of servers that compute wrongly, or that it cannot check."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.v1 import operator_service_pb2 as pb
from tests.check.checking import check
from tests.wrong_servers import Change, changed, of_gradients, of_status

OPERATOR, ROI = "replication_pad2d_backward", "roi_align_v2_backward"
Array = np.ndarray[Any, Any]


def test_a_negated_gradient_fails_its_operator_alone(address: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    with changed(address, of_gradients(OPERATOR, np.negative)) as wrong:
        checked = check(tmp_path, wrong, "--html", str(page))
    assert checked.exit_code == 1
    failed = [row for row in checked.rows if row["verdict"] == "failed"]
    assert {(row["operator"], row["check"]) for row in failed} == {(OPERATOR, "accuracy")}
    assert "elements are outside the tolerance" in failed[0]["message"]
    assert failed[0]["figures"]["outside"] > 0.9
    assert "Rows that did not pass" in page.read_text()


def reshape(message: pb.ExecuteOperatorResponse) -> None:
    """Changes the gradient's shape, even if it is empty."""
    message.outputs[0].shape.append(1)


def test_a_gradient_of_another_shape_fails(address: str, tmp_path: Path) -> None:
    def reshaped(method: str, request: bytes, reply: bytes) -> bytes:
        if method != "ExecuteOperator":
            return reply
        message = pb.ExecuteOperatorResponse.FromString(reply)
        reshape(message)
        return message.SerializeToString()

    with changed(address, reshaped) as wrong:
        checked = check(tmp_path, wrong, only=("accuracy",))
    assert checked.exit_code == 1
    assert checked.verdicts("accuracy") == {"failed"}
    assert "instead of" in next(row["message"] for row in checked.rows if row["check"] == "accuracy")


def stained(gradient: Array) -> Array:
    return np.where(gradient == 0, np.asarray(1e-7, gradient.dtype), gradient)


def unsteady() -> Change:
    numbers = itertools.count()

    def last_bit(gradient: Array) -> Array:
        return np.nextafter(gradient, gradient.dtype.type(np.inf)) if next(numbers) % 3 == 2 else gradient

    return of_gradients(ROI, last_bit)


def reads_self(method: str, request: bytes, reply: bytes) -> bytes:
    if method != "ExecuteOperator":
        return reply
    call = pb.ExecuteOperatorRequest.FromString(request)
    sent = next((each.data for each in call.inputs if each.name == "self"), b"")
    if call.operator != OPERATOR or sent.count(0xCB) < len(sent) or not sent:
        return reply
    message = pb.ExecuteOperatorResponse.FromString(reply)
    message.outputs[0].data = sent
    return message.SerializeToString()


def leaking() -> Change:
    kept = itertools.count(2**20, 512)

    def of_reply(method: str, request: bytes, reply: bytes) -> bytes:
        if method != "GetServerStatus":
            return reply
        status = pb.GetServerStatusResponse.FromString(reply)
        pool = status.devices.add().pool
        pool.allocated_bytes = pool.reserved_bytes = next(kept)
        return status.SerializeToString()

    return of_reply


@pytest.mark.parametrize(
    ("change", "only", "is_deterministic", "not_passed"),
    [
        (of_gradients(ROI, stained), ("accuracy", "fills"), False, {("fills", ROI, "failed")}),
        (unsteady(), ("determinism",), True, {("determinism", ROI, "failed")}),
        (unsteady(), ("determinism",), False, {("determinism", ROI, "noted")}),
        (reads_self, ("shape_only",), False, {("shape_only", OPERATOR, "failed")}),
        (leaking(), ("memory",), False, {("memory", "", "failed")}),
    ],
    ids=["stained", "unsteady", "unsteady_by_its_own_word", "reads_self", "leaking"],
)
def test_what_is_wrong_fails_its_check_alone(
    address: str, tmp_path: Path, change: Change, only: tuple[str, ...], is_deterministic: bool, not_passed: set[Any]
) -> None:
    with changed(address, of_status(deterministic=is_deterministic)) as told, changed(told, change) as wrong:
        checked = check(tmp_path, wrong, only=only)
    found = {(row["check"], row["operator"], row["verdict"]) for row in checked.rows if row["verdict"] != "passed"}
    assert found == not_passed
    assert checked.exit_code == any(verdict == "failed" for *_, verdict in not_passed)
    switch = checked.summary["switches"]["--shape-only"]["verdict"]
    assert (switch == "not safe") is (change is reads_self)


def test_an_unknown_product_is_refused(address: str, tmp_path: Path) -> None:
    with changed(address, of_status(product="910Z")) as unknown:
        checked = check(tmp_path, unknown)
    assert checked.exit_code == 2
    assert all(each in checked.output for each in ("product '910Z' is not known", "310P", "upgrade aclgrad"))


def test_operators_and_dtypes_that_only_one_side_knows_have_a_row(address: str, tmp_path: Path) -> None:
    def other_operators(method: str, request: bytes, reply: bytes) -> bytes:
        if method != "ListOperators":
            return reply
        message = pb.ListOperatorsResponse.FromString(reply)
        kept = [each for each in message.operators if each.name != OPERATOR]
        kept[0].inputs[0].data_types.append(99)
        del kept[-1].inputs[0].data_types[0]
        return pb.ListOperatorsResponse(
            operators=[*kept, pb.OperatorDescription(name="fold_backward")]
        ).SerializeToString()

    with changed(address, other_operators) as wrong:
        checked = check(tmp_path, wrong, only=("listing", "accuracy"))
    assert checked.exit_code == 1
    listing = {row["operator"]: row for row in checked.rows if row["verdict"] in ("failed", "skipped")}
    assert "does not know the operator" in listing["fold_backward"]["message"]
    assert "does not list the operator" in listing[OPERATOR]["message"]
    assert listing[min(OPERATORS)]["dtype"] == "DataType 99"
    assert "does not list float32" in listing[max(OPERATORS)]["message"]
    verdicts = {name: row["verdict"] for name, row in listing.items()}
    assert verdicts == {
        "fold_backward": "skipped",
        OPERATOR: "failed",
        min(OPERATORS): "skipped",
        max(OPERATORS): "failed",
    }
    assert {row["operator"] for row in checked.rows if row["check"] == "accuracy"} == set(OPERATORS) - {
        OPERATOR,
        max(OPERATORS),
    }


def test_operators_that_are_not_served_fail_whatever_is_checked(address: str, tmp_path: Path) -> None:
    """Turned off by the self-test, or not listed; a server of another version may not have them."""

    def none(method: str, request: bytes, reply: bytes) -> bytes:
        if method == "GetServerStatus":
            status = pb.GetServerStatusResponse.FromString(reply)
            status.turned_off_operators.add(name=OPERATOR, reason="device 3 computes int8 wrongly")
            return status.SerializeToString()
        return b"" if method == "ListOperators" else reply

    with changed(address, none) as wrong:
        checked = check(tmp_path, wrong, only=("accuracy",))
        with changed(wrong, of_status(version="0.0.1")) as old:
            older = check(tmp_path, old)
    why = {row["operator"]: (row["verdict"], row["message"]) for row in checked.rows}
    assert checked.exit_code == 1
    off = "the server has turned the operator off: device 3 computes int8 wrongly; its log says more"
    assert why.pop(OPERATOR) == ("failed", off)
    assert set(why.values()) == {("failed", "the server does not list the operator, which product 910B has")}
    why = {row["operator"]: (row["verdict"], row["message"]) for row in older.rows}
    assert older.exit_code == 1
    assert why.pop(OPERATOR) == ("failed", off)
    assert set(why.values()) == {("skipped", "aclgrad 0.0.1 of the server does not have the operator")}
