"""Attributes in every form that Python code has them in: each way to send a call makes the same of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import decode_request
from tools.calling import maybe_await

from .scripted_batches import answer_each
from .scripted_service import ScriptedService
from .scripted_streams import ScriptedStreams

POOL = "max_pool2d_with_mask_backward"
ROI = "roi_align_v2_backward"
LARGE = np.ones((3, 1024, 1024), np.float32)
"""Goes in chunks."""
MEDIUM = np.ones((256, 256), np.float32)
"""Goes through shared memory, if there is any."""
Connect = Callable[..., Any]

# Operator, attribute, what a caller gives, and the plain value that is sent.
FORMS: dict[str, tuple[str, str, Any, Any]] = {
    "sizes_list": (ROI, "input_shape", [1, 3, 8, 8], (1, 3, 8, 8)),
    "sizes_array": (ROI, "input_shape", np.array([1, 3, 8, 8]), (1, 3, 8, 8)),
    "sizes_small_array": (ROI, "input_shape", np.array([1, 3, 8, 8], np.uint8), (1, 3, 8, 8)),
    "sizes_range": (ROI, "input_shape", range(1, 5), (1, 2, 3, 4)),
    "sizes_numpy_integers": (ROI, "input_shape", [np.int64(1), np.int32(3), np.int8(8), 8], (1, 3, 8, 8)),
    "pair_tuple": (POOL, "kernel_size", (2, 3), (2, 3)),
    "pair_int": (POOL, "kernel_size", 2, (2,)),
    "pair_numpy_integer": (POOL, "kernel_size", np.int8(2), (2,)),
    "pair_array_of_one": (POOL, "kernel_size", np.array([2]), (2,)),
    "pair_scalar_array": (POOL, "kernel_size", np.array(2), (2,)),
    "pair_list_of_one": (POOL, "kernel_size", [2], (2,)),
    "no_stride": (POOL, "stride", [], ()),
    "int": (ROI, "pooled_height", 2, 2),
    "int_numpy": (ROI, "pooled_height", np.uint16(2), 2),
    "int_scalar_array": (ROI, "pooled_height", np.array(2), 2),
    "int_array_of_one": (ROI, "pooled_height", np.array([2]), 2),
    "number_int": (ROI, "spatial_scale", 2, 2.0),
    "number_half": (ROI, "spatial_scale", np.float16(0.5), 0.5),
    "number_array_of_one": (ROI, "spatial_scale", np.array([0.5], np.float32), 0.5),
    "bool_numpy": (ROI, "aligned", np.bool_(True), True),
    "bool_array_of_one": (ROI, "aligned", np.array([True]), True),
    "unknown_list": ("any", "sizes", [1, 2], (1, 2)),
    "unknown_array_of_one": ("any", "sizes", np.array([1]), (1,)),
}
forms = pytest.mark.parametrize(("operator", "name", "given", "plain"), FORMS.values(), ids=FORMS)


def assert_plain(sent: Any, plain: Any) -> None:
    assert (sent, type(sent)) == (plain, type(plain))


def inputs_of(operator: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    spec = OPERATORS.get(operator)
    names = [each.name for each in spec.inputs] if spec else ["grad_output"]
    return {name: np.ones((1, 1), np.float32) for name in names} | {"grad_output": array}


@forms
@pytest.mark.parametrize("shared_memory", [False, True], ids=["message", "shared"])
async def test_in_a_message(
    connect: Connect, service: ScriptedService, operator: str, name: str, given: Any, plain: Any, shared_memory: bool
) -> None:
    client = connect(service.address, shared_memory=shared_memory)
    await maybe_await(client.execute(operator, inputs_of(operator, MEDIUM), {name: given}))
    ((_, request),) = service.requests
    call = decode_request(request)
    assert_plain(call.attributes[name], plain)


@forms
async def test_in_a_batch(
    connect: Connect, service: ScriptedService, operator: str, name: str, given: Any, plain: Any
) -> None:
    answer_each(service, lambda call: 1.0)
    batch = connect(service.address).batch()
    batch.execute(operator, inputs_of(operator, MEDIUM), {name: given})
    await maybe_await(batch.run())
    ((_, request),) = service.requests
    (call,) = pb.BatchExecuteOperatorsRequest.FromString(request).calls
    assert_plain(decode_request(call.SerializeToString()).attributes[name], plain)


@forms
async def test_in_chunks(
    connect: Connect, streams: ScriptedStreams, operator: str, name: str, given: Any, plain: Any
) -> None:
    await maybe_await(connect(streams.address).execute(operator, inputs_of(operator, LARGE), {name: given}))
    (received,) = streams.attempts
    assert_plain(received.header.call.attributes[name], plain)


MISFITS: dict[str, tuple[str, str, Any]] = {
    "text_for_sizes": (ROI, "input_shape", "1388"),
    "fractions_for_sizes": (ROI, "input_shape", np.array([1.0, 3.0, 8.0, 8.0])),
    "matrix_for_sizes": (ROI, "input_shape", np.ones((2, 2), int)),
    "set_for_sizes": (ROI, "input_shape", {1, 3, 8}),
    "huge": (ROI, "spatial_scale", 10**400),
    "none": (POOL, "kernel_size", None),
    "object_array": (POOL, "kernel_size", np.array([None])),
}


@pytest.mark.parametrize("way", ["message", "batch"])
@pytest.mark.parametrize(("operator", "name", "given"), MISFITS.values(), ids=MISFITS)
async def test_what_is_no_attribute_is_refused_before_sending(
    connect: Connect, service: ScriptedService, operator: str, name: str, given: Any, way: str
) -> None:
    client = connect(service.address)
    target = client if way == "message" else client.batch()
    with pytest.raises(aclgrad.InvalidFieldError, match="give a bool, a 64-bit integer") as caught:
        await maybe_await(target.execute(operator, inputs_of(operator, MEDIUM), {name: given}))
    assert caught.value.field == f"attributes[{name}]"
    assert not service.requests


KINDS: dict[str, tuple[str, Any]] = {
    "int_for_sizes": ("input_shape", 4),
    "fraction_for_int": ("pooled_height", 2.5),
    "list_for_int": ("pooled_height", [7]),
    "sizes_of_another_rank": ("input_shape", [1, 2]),
}


@pytest.mark.parametrize(("name", "given"), KINDS.values(), ids=KINDS)
async def test_another_kind_is_left_to_the_server_to_refuse(client: Any, name: str, given: Any) -> None:
    boxes = np.array([[0, 0, 0, 3, 3]], np.float32)
    attributes = {"input_shape": (1, 3, 8, 8), "pooled_height": 2, "pooled_width": 2} | {name: given}
    with pytest.raises(aclgrad.InvalidFieldError, match="send") as caught:
        await maybe_await(client.execute(ROI, {"grad_output": np.ones((1, 3, 2, 2), "f4"), "boxes": boxes}, attributes))
    assert caught.value.field == f"attributes[{name}]"


async def test_the_forms_make_the_same_gradient(client: Any) -> None:
    grad_output = np.ones((1, 2, 4, 4), np.float32)
    windows = np.arange(64).reshape(1, 8, 8)[:, ::2, ::2]
    indices = np.broadcast_to(windows, grad_output.shape)
    truth = await maybe_await(client.max_pool2d_with_mask_backward(grad_output, (1, 2, 8, 8), indices, (2, 2), (2, 2)))
    assert truth.sum() == grad_output.size
    for kernel, stride in ((2, 2), ([2], np.array([2])), (np.array(2), []), (np.int32(2), range(2, 3))):
        gradient = client.max_pool2d_with_mask_backward(grad_output, (1, 2, 8, 8), indices, kernel, stride)
        np.testing.assert_array_equal(await maybe_await(gradient), truth)
