"""Requests become plans, a form that came before is not planned again, and nothing is kept of large ones."""

import re

import pytest

from aclgrad.errors import InvalidFieldError, LimitExceededError, MalformedRequestError, OperatorTurnedOffError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.sources import SHAPE_ONLY, InChunks, InMessage, SharedRange, Source, in_message
from aclgrad.tensors import TensorView
from aclgrad.wire.limits import MAX_REST_BYTES
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.values import AttributeValue
from aclgrad_server.devices.plan import Limits, plan_call
from aclgrad_server.devices.planning import Planner
from aclgrad_server.devices.turned_off import TurnedOff
from tests.server.sent import NO_LIMIT, pooling_call, tensor


@pytest.fixture
def planner() -> Planner:
    return Planner(Product.ATLAS_A2, Limits(NO_LIMIT))


def request(gradient: bytes = b"abcd", height: int = 2) -> bytes:
    inputs = tensor("grad_output", 1, 1, 1, data=gradient), tensor("self", 1, height, 2)
    return encode_request(OperatorCall("adaptive_avg_pool2d_backward", inputs, {}))


def test_plan_refers_to_the_payloads_of_its_request(planner: Planner) -> None:
    step, payloads = planner.read(request())
    assert step.sources == (InMessage(4, 0), SHAPE_ONLY)
    assert [bytes(each) for each in payloads] == [b"abcd"]
    assert [each and each.content(payloads) for each in step.sources] == [b"abcd", None]


def test_requests_of_one_form_share_one_plan(planner: Planner) -> None:
    first, second, other = (planner.read(each)[0] for each in (request(), request(b"efgh"), request(height=3)))
    assert first is second
    assert [step.plan.outputs[0].type.shape for step in (first, other)] == [(1, 2, 2), (1, 3, 2)]


def sent(source: Source, attributes: dict[str, AttributeValue] | None = None, **memory: SharedRange) -> OperatorCall:
    inputs = TensorView("grad_output", tensor("x", 1, 1, 1).type, source), tensor("self", 1, 2, 2)
    return OperatorCall("adaptive_avg_pool2d_backward", inputs, attributes or {}, memory)


def test_a_plan_does_not_depend_on_where_bytes_come_from_or_go(planner: Planner) -> None:
    range = SharedRange("/aclgrad-x", 8, 4)
    ways = sent(InMessage(4)), sent(InChunks(0, 4)), sent(range), sent(range, out=SharedRange("/aclgrad-y", 0, 16))
    steps = [planner.step(each) for each in ways]
    assert len({id(step.plan) for step in steps}) == 1
    assert [step.sources[0] for step in steps] == [InMessage(4), InChunks(0, 4), range, range]
    assert [step.is_beside for step in steps] == [False, True, True, True]


def test_a_plan_depends_on_whether_values_come(planner: Planner) -> None:
    """A form that came with values is no leave to come without them."""
    planner.step(sent(InMessage(4)))
    for _ in range(2):
        with pytest.raises(InvalidFieldError, match="send the values"):
            planner.step(sent(SHAPE_ONLY))


def softmax(dim: AttributeValue) -> OperatorCall:
    inputs = tuple(tensor(name, 2, 2, data=bytes(16)) for name in ("grad_output", "output"))
    return OperatorCall("softmax_backward", inputs, {"dim": dim})


@pytest.mark.parametrize("value", [True, 1.0], ids=repr)
def test_values_that_are_equal_in_python_and_not_on_the_wire_are_different_forms(
    planner: Planner, value: AttributeValue
) -> None:
    planner.step(softmax(1))
    with pytest.raises(InvalidFieldError, match="send an integer"):
        planner.step(softmax(value))


def test_a_plan_that_is_kept_keeps_nothing_of_a_message(planner: Planner) -> None:
    content = bytearray(4)
    planner.step(sent(in_message(memoryview(content))))
    content.extend(b"a buffer that somebody exports cannot grow")


OVERLAPS = {
    "an input": ({"out": SharedRange("/aclgrad-x", 4, 16)}, "inputs[grad_output]"),
    "a part of one": ({"out": SharedRange("/aclgrad-x", 0, 16)}, "inputs[grad_output]"),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_an_output_shares_no_bytes_with_an_input(planner: Planner, name: str) -> None:
    """A call that is repeated would read what it has written."""
    memory, other = OVERLAPS[name]
    with pytest.raises(InvalidFieldError, match=re.escape(f"shares bytes with {other}; name a range")) as caught:
        planner.step(sent(SharedRange("/aclgrad-x", 8, 4), **memory))
    assert caught.value.field == "output_memory[out]"
    planner.step(sent(SharedRange("/aclgrad-x", 16, 4), out=SharedRange("/aclgrad-x", 0, 16)))
    planner.step(sent(SharedRange("/aclgrad-y", 8, 4), out=SharedRange("/aclgrad-x", 0, 16)))


@pytest.mark.parametrize("offset", [8, 10, 12])
def test_a_tensor_without_elements_shares_no_bytes(planner: Planner, offset: int) -> None:
    """Wherever its range is, also amid another one."""
    empty, whole = SharedRange("/aclgrad-x", offset, 0), SharedRange("/aclgrad-x", 8, 4)
    gradient = TensorView("grad_output", tensor("grad_output", 1, 1, 1).type, whole)
    given = gradient, tensor("self", 1, 0, 4)
    planner.step(OperatorCall("adaptive_avg_pool2d_backward", given, {}, {"out": empty}))
    assert not empty.overlaps(whole)
    assert not whole.overlaps(empty)


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
    assert plan_call(call, product, Limits(NO_LIMIT, shape_only=True)).size_bytes == size_bytes


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


def test_operator_that_is_turned_off_is_refused_with_the_reason() -> None:
    name = "adaptive_avg_pool2d_backward"
    off, spec = TurnedOff(Product.ATLAS_A2), OPERATORS[name]
    off.add(spec, "device 3 refuses it", "float16")
    planner = Planner(Product.ATLAS_A2, Limits(NO_LIMIT), off)
    planner.read(request())
    off.add(spec, "device 3 computes it wrongly", "float32")
    planner = Planner(Product.ATLAS_A2, Limits(NO_LIMIT), off)
    with pytest.raises(OperatorTurnedOffError, match="device 3 computes it wrongly; use another server") as caught:
        planner.read(request())
    assert caught.value.metadata == {"operator": name, "why": "device 3 computes it wrongly"}
