"""Plans of attention: what of a device's arguments the server makes of what a client sends or leaves out."""

from typing import Any

import pytest

from aclgrad.errors import LimitExceededError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.families.attention.samples import attention_case
from aclgrad.products import Product
from aclgrad.sources import in_message
from aclgrad.tensors import TensorView
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.devices.plan import Limits, StepPlan, plan_call
from tests.server.sent import NO_LIMIT

FORWARD, GRADIENT = "flash_attention_score", "flash_attention_score_grad"
SIZES = (2, 4, 5, 7)
STATISTICS = ("softmax_max", "softmax_sum")


def plan(operator: str, tensor_bytes: int = NO_LIMIT, head_size: int = 8, **given: Any) -> StepPlan:
    case = attention_case("call", "BNSD", *SIZES, head_size, operator=operator, **given)
    arguments = case.arguments(OPERATORS[operator], "float32")
    views = tuple(
        TensorView(name, type, in_message(memoryview(bytes(type.size_bytes))))
        for name, type in arguments.inputs.items()
    )
    attributes = {name: each for name, each in case.attributes.items() if each is not None}
    return plan_call(OperatorCall(operator, views, attributes), Product.ATLAS_A2, Limits(tensor_bytes))


def bytes_of(found: StepPlan) -> dict[str, int]:
    return dict(zip((each.name for each in found.inputs), found.input_bytes, strict=True))


def test_a_value_of_each_row_takes_eight_lanes_of_the_device() -> None:
    alone, lanes = (bytes_of(plan(GRADIENT, has_lanes=each)) for each in (False, True))
    rows = 2 * 4 * 5 * 4
    for name in STATISTICS:
        assert lanes[name] == 8 * rows
        # The client's bytes, and the copy that has the lanes.
        assert alone[name] == rows + 8 * rows
    assert {name: each for name, each in alone.items() if name not in STATISTICS} == {
        name: each for name, each in lanes.items() if name not in STATISTICS
    }


def test_lanes_count_for_the_limit_of_a_tensor() -> None:
    largest = 2 * 4 * 5 * 8 * 4
    plan(GRADIENT, has_lanes=False, head_size=2, tensor_bytes=largest)
    with pytest.raises(LimitExceededError, match=r"inputs\[softmax_max\].shape takes 1280 bytes"):
        plan(GRADIENT, has_lanes=False, head_size=2, tensor_bytes=largest - 1)


def test_the_servers_mask_takes_no_memory_of_a_call() -> None:
    """A device has one copy for all calls."""
    for operator in (FORWARD, GRADIENT):
        plain, causal, masked = (plan(operator, **each) for each in ({}, {"sparse_mode": 2}, {"mask": "ST"}))
        assert bytes_of(plain) == bytes_of(causal)
        assert (plain.size_bytes, plain.outputs) == (causal.size_bytes, causal.outputs)
        assert bytes_of(masked)["atten_mask"] == 5 * 7


@pytest.mark.parametrize(
    ("operator", "null", "outputs"),
    [
        (FORWARD, 3, ["softmax_max", "softmax_sum", "attention_out"]),
        (f"{FORWARD}_v2", 2, ["softmax_max", "softmax_sum", "attention_out"]),
        (GRADIENT, 4, ["dq", "dk", "dv"]),
        (f"{GRADIENT}_v2", 3, ["dq", "dk", "dv"]),
    ],
)
def test_what_is_null_in_every_call_has_a_place_and_no_bytes(operator: str, null: int, outputs: list[str]) -> None:
    found = plan(operator)
    absent = [each for each, type in zip(found.inputs, found.types, strict=True) if type is None]
    assert [each.name for each in absent if each.name] == ["atten_mask"]
    assert len(absent) == null + 1
    assert [each.name for each in found.outputs] == outputs


def test_the_work_is_that_of_the_products() -> None:
    """Two of the forward pass and five of the gradients, so that limits and queues know long calls."""
    forward, gradient = plan(FORWARD).work, plan(GRADIENT).work
    scores = 2 * 4 * 5 * 7
    assert (forward.matrix_operations, gradient.matrix_operations) == (2 * 2 * 8 * scores, 5 * 2 * 8 * scores)
    assert plan(GRADIENT, value_size=2).work.matrix_operations == 2 * (3 * 8 + 2 * 2) * scores
