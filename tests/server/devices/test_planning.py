"""Requests become plans, a form that came before is not planned again, and nothing is kept of large ones."""

import pytest

from aclgrad.errors import InvalidFieldError, LimitExceededError, MalformedRequestError, OperatorTurnedOffError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.tensors import Announced, TensorView
from aclgrad.wire.limits import MAX_BATCH_CALLS, MAX_REST_BYTES
from aclgrad.wire.messages import OperatorCall, encode_batch, encode_request, split_batch
from aclgrad_server.devices.planning import Planner, extract_payloads, plan_call
from aclgrad_server.devices.turned_off import TurnedOff
from tests.server.fakes import NO_LIMIT, pooling_call, tensor


@pytest.fixture
def planner() -> Planner:
    return Planner(Product.ATLAS_A2, NO_LIMIT)


def request(gradient: bytes = b"abcd", height: int = 2) -> bytes:
    inputs = tensor("grad_output", 1, 1, 1, data=gradient), tensor("self", 1, height, 2)
    return encode_request(OperatorCall("adaptive_avg_pool2d_backward", inputs, {}))


def test_plan_refers_to_the_payloads_of_its_request(planner: Planner) -> None:
    plan, payloads = planner.read(request())
    assert plan.inputs[0].data == Announced(0, 4)
    assert [bytes(each) for each in payloads] == [b"abcd"]
    assert plan.contents(payloads) == [memoryview(b"abcd"), None]


def test_requests_of_one_form_share_one_plan(planner: Planner) -> None:
    first, second, other = (planner.read(each)[0] for each in (request(), request(b"efgh"), request(height=3)))
    assert first is second
    assert [plan.outputs[0].type.shape for plan in (first, other)] == [(1, 2, 2), (1, 3, 2)]


def pooling(input: TensorView) -> OperatorCall:
    gradient = tensor("grad_output", 1, 1, 1, data=bytes(4))
    return OperatorCall("adaptive_avg_pool2d_backward", (gradient, input), {})


def normalization(*outputs: str) -> OperatorCall:
    """Returns a call of inputs of 24, 24, 8 and 8 bytes with values, and of 12 without."""
    sizes = {"grad_output": (2, 3), "input": (2, 3), "mean": (2, 1), "rstd": (2, 1)}
    given = [tensor(name, *shape, data=bytes(4 * shape[0] * shape[1])) for name, shape in sizes.items()]
    attributes = {"normalized_shape": (3,)}
    return OperatorCall("layer_norm_backward", (*given, tensor("bias", 3)), attributes, outputs=outputs)


@pytest.mark.parametrize(
    ("call", "product", "size_bytes"),
    [
        pytest.param(pooling(tensor("self", 1, 6, 6)), Product.ATLAS_A2, 4 + 144, id="shape"),
        pytest.param(pooling(tensor("self", 1, 6, 6)), Product.ATLAS_INFERENCE, 4 + 2 * 144, id="may_be_read"),
        pytest.param(
            pooling(tensor("self", 1, 6, 6, data=bytes(144))), Product.ATLAS_A2, 4 + 2 * 144, id="with_values"
        ),
        # The bias has the size of grad_weight and grad_bias.
        pytest.param(normalization(), Product.ATLAS_A2, 64 + 24 + 12 + 12, id="second_output"),
        pytest.param(normalization("grad_input"), Product.ATLAS_A2, 64 + 12 + 24, id="no_output_of_its_size"),
    ],
)
def test_shape_that_an_output_has_takes_no_memory_of_its_own(
    call: OperatorCall, product: Product, size_bytes: int
) -> None:
    """If the product does not read the values, though the server takes the shape of any input like it."""
    assert plan_call(call, product, NO_LIMIT, shape_only=True).size_bytes == size_bytes


def test_payload_of_another_length_is_another_form_and_what_is_refused_is_refused_again(planner: Planner) -> None:
    planner.read(request())
    for _ in range(2):
        with pytest.raises(InvalidFieldError, match="has 8 bytes, but"):
            planner.read(request(b"abcdefgh"))
    with pytest.raises(MalformedRequestError):
        planner.read(b"\xff\xff\xff")


def test_request_with_much_beside_its_payloads_is_refused(planner: Planner) -> None:
    call = pooling_call(1, 2, 2)
    large = OperatorCall("x" * MAX_REST_BYTES, call.inputs, {})
    with pytest.raises(LimitExceededError, match=f"more than {MAX_REST_BYTES} bytes"):
        planner.read(encode_request(large))


def test_batch_is_split_into_its_requests_up_to_their_limit() -> None:
    requests = [request(), request(height=5)]
    assert [bytes(each) for each in split_batch(encode_batch(requests), extract_payloads)] == requests
    assert list(split_batch(b"", extract_payloads)) == []
    with pytest.raises(LimitExceededError, match=f"at most {MAX_BATCH_CALLS} calls"):
        split_batch(encode_batch([b""] * 100_000), extract_payloads)


def test_operator_that_is_turned_off_is_refused_with_the_reason() -> None:
    name = "adaptive_avg_pool2d_backward"
    off, spec = TurnedOff(Product.ATLAS_A2), OPERATORS[name]
    off.add(spec, "device 3 refuses it", "float16")
    planner = Planner(Product.ATLAS_A2, NO_LIMIT, turned_off=off)
    planner.read(request())
    off.add(spec, "device 3 computes it wrongly", "float32")
    planner = Planner(Product.ATLAS_A2, NO_LIMIT, turned_off=off)
    with pytest.raises(OperatorTurnedOffError, match="device 3 computes it wrongly; use another server") as caught:
        planner.read(request())
    assert caught.value.metadata == {"operator": name, "why": "device 3 computes it wrongly"}
