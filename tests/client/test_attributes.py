"""Attributes in every form that Python code has them in: each way to send a call makes the same of them."""

from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import decode_request
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_batches import answer_each
from .scripted_service import ScriptedService
from .scripted_streams import ScriptedStreams

POOL = "max_pool2d_with_mask_backward"
ROI = "roi_align_v2_backward"
MEDIUM = np.ones((256, 256), np.float32)
"""256 KiB: goes through shared memory if there is any, and in chunks if no message may be as large."""
LIMIT = 100_000

# Operator, attribute, what a caller gives, and the plain value that is sent.
FORMS: list[tuple[str, str, Any, Any]] = [
    (ROI, "input_shape", [1, 3, 8, 8], (1, 3, 8, 8)),
    (ROI, "input_shape", np.array([1, 3, 8, 8]), (1, 3, 8, 8)),
    (ROI, "input_shape", np.array([1, 3, 8, 8], np.uint8), (1, 3, 8, 8)),
    (ROI, "input_shape", range(1, 5), (1, 2, 3, 4)),
    (ROI, "input_shape", [np.int64(1), np.int32(3), np.int8(8), 8], (1, 3, 8, 8)),
    (POOL, "kernel_size", (2, 3), (2, 3)),
    (POOL, "kernel_size", 2, (2,)),
    (POOL, "kernel_size", np.int8(2), (2,)),
    (POOL, "kernel_size", np.array([2]), (2,)),
    (POOL, "kernel_size", np.array(2), (2,)),
    (POOL, "kernel_size", [2], (2,)),
    (POOL, "stride", [], ()),
    (ROI, "pooled_height", 2, 2),
    (ROI, "pooled_height", np.uint16(2), 2),
    (ROI, "pooled_height", np.array(2), 2),
    (ROI, "pooled_height", np.array([2]), 2),
    (ROI, "spatial_scale", 2, 2.0),
    (ROI, "spatial_scale", np.float16(0.5), 0.5),
    (ROI, "spatial_scale", np.array([0.5], np.float32), 0.5),
    (ROI, "aligned", np.bool_(True), True),
    (ROI, "aligned", np.array([True]), True),
    ("any", "sizes", [1, 2], (1, 2)),
    ("any", "sizes", np.array([1]), (1,)),
]


def inputs_of(operator: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    spec = OPERATORS.get(operator)
    names = [each.name for each in spec.inputs] if spec else ["grad_output"]
    return {name: np.ones((1, 1), np.float32) for name in names} | {"grad_output": array}


@pytest.mark.parametrize("way", ["message", "shared", "batch"])
async def test_what_a_message_has(connect: Connect, service: ScriptedService, way: str) -> None:
    if way == "batch":
        answer_each(service, lambda call: 1.0)
    client = connect(service.address, shared_memory=way == "shared")
    for operator, name, given, plain in FORMS:
        service.requests.clear()
        target = client.batch() if way == "batch" else client
        result = target.execute(operator, inputs_of(operator, MEDIUM), {name: given})
        await maybe_await(target.run() if way == "batch" else result)
        ((_, request),) = service.requests
        if way == "batch":
            (call,) = pb.ExecuteProgramRequest.FromString(request).steps
            request = call.SerializeToString()
        found = decode_request(request).attributes[name]
        assert (found, type(found)) == (plain, type(plain)), (operator, name, given)


async def test_what_the_header_of_chunks_has(connect: Connect, streams: ScriptedStreams) -> None:
    client = connect(streams.address, max_message_bytes=LIMIT)
    for operator, name, given, plain in FORMS:
        await maybe_await(client.execute(operator, inputs_of(operator, MEDIUM), {name: given}))
        found = streams.attempts[-1].call.attributes[name]
        assert (found, type(found)) == (plain, type(plain)), (operator, name, given)
    assert len(streams.attempts) == len(FORMS)


KINDS: list[tuple[str, Any]] = [
    ("input_shape", 4),
    ("pooled_height", 2.5),
    ("pooled_height", [7]),
    ("pooled_height", "7"),
    ("input_shape", [1, 2]),
]


async def test_another_kind_is_left_to_the_server_to_refuse(client: Any) -> None:
    inputs = {"grad_output": np.ones((1, 3, 2, 2), "f4"), "boxes": np.array([[0, 0, 0, 3, 3]], np.float32)}
    for name, given in KINDS:
        attributes = {"input_shape": (1, 3, 8, 8), "pooled_height": 2, "pooled_width": 2} | {name: given}
        with pytest.raises(aclgrad.InvalidFieldError, match="send") as caught:
            await maybe_await(client.execute(ROI, inputs, attributes))
        assert caught.value.field == f"attributes[{name}]"


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**5000], ids=int.bit_length)
async def test_an_integer_that_the_wire_cannot_hold(client: Any, number: int) -> None:
    grad_output = np.ones((2, 3), np.float32)
    with pytest.raises(aclgrad.InvalidFieldError, match=f"is an integer of {number.bit_length()} bits") as caught:
        await maybe_await(client.softmax_backward(grad_output, grad_output, number))
    assert caught.value.field == "attributes[dim]"


async def test_the_forms_make_the_same_gradient(client: Any) -> None:
    grad_output = np.ones((1, 2, 4, 4), np.float32)
    windows = np.arange(64).reshape(1, 8, 8)[:, ::2, ::2]
    indices = np.broadcast_to(windows, grad_output.shape)
    truth = await maybe_await(client.max_pool2d_with_mask_backward(grad_output, (1, 2, 8, 8), indices, (2, 2), (2, 2)))
    assert truth.sum() == grad_output.size
    for kernel, stride in ((2, 2), ([2], np.array([2])), (np.array(2), []), (np.int32(2), range(2, 3))):
        gradient = client.max_pool2d_with_mask_backward(grad_output, (1, 2, 8, 8), indices, kernel, stride)
        np.testing.assert_array_equal(await maybe_await(gradient), truth)
