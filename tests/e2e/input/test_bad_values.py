"""Whatever a client sends: a typed error that names the field and the remedy, and a server that goes on.

More rules: tests/server/devices/test_validation.py, tests/client/operators/test_refusals.py and
tests/native/test_checked_calls.py.
"""

import random
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.masks import MaskLayout, Pooling, argmax_of_input, mask_of_argmax
from aclgrad.tensors import DTYPES, TensorType, TensorView, view_of_array
from aclgrad.wire.messages import OperatorCall, encode_request
from tools.calling import calls_in
from tools.raw_calls import SERVICE, error_of
from tools.serving import Server

POOLING = Pooling.of((6, 8), (3, 3), (2, 2), (1, 1))
INPUT = np.random.default_rng(2).standard_normal((2, 3, 6, 8)).astype(np.float32)
POOLED, ARGMAX = argmax_of_input(INPUT, POOLING)
POOL_ATTRIBUTES = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1)}
UNPOOL_ATTRIBUTES = {"output_size": (2, 4, 4)}
BOXES = np.array([[0, 1, 1, 5, 5], [1, 0, 0, 3, 3]], np.float32)
ROI_ATTRIBUTES = {"input_shape": (2, 3, 6, 6), "pooled_height": 2, "pooled_width": 2, "sampling_ratio": 2}

Inputs = dict[str, Any]


def unpool(index: int) -> tuple[str, Inputs, dict[str, Any]]:
    indices = np.zeros((1, 2, 1, 2, 2), np.int64)
    indices[0, 1, 0, 1, 0] = index
    inputs = {"grad_output": np.ones((1, 2, 2, 4, 4), np.float32), "self": indices.shape, "indices": indices}
    return "max_unpool3d_backward", inputs, UNPOOL_ATTRIBUTES


def pool_with_prefix_at(value: int) -> tuple[str, Inputs, dict[str, Any]]:
    argmax = ARGMAX.copy()
    argmax[1, 2, 1, 3] = value
    indices = mask_of_argmax(argmax, POOLING, MaskLayout.INT32_PREFIX)
    inputs = {"grad_output": POOLED, "self": INPUT.shape, "indices": indices}
    return "max_pool2d_with_mask_backward", inputs, POOL_ATTRIBUTES


def roi(column: int = 1, value: float = 0.0, **attributes: Any) -> tuple[str, Inputs, dict[str, Any]]:
    boxes = BOXES.copy()
    boxes[1, column] = value
    inputs = {"grad_output": np.ones((2, 3, 2, 2), np.float32), "boxes": boxes}
    return "roi_align_v2_backward", inputs, ROI_ATTRIBUTES | attributes


def normalise(reciprocal: float) -> tuple[str, Inputs, dict[str, Any]]:
    """The bound for this eps is 2."""
    saved = np.array([0.5, reciprocal, 2.0], np.float32)
    inputs = {"grad_output": INPUT, "input": INPUT, "save_mean": np.zeros(3, np.float32), "save_invstd": saved}
    return "batch_norm_backward", inputs, {"training": True, "eps": 0.25}


GRAD = np.ones((1, 2, 2), np.float32)
NAME = "adaptive_avg_pool2d_backward"
BOXES_DATA = "inputs[boxes].data"
INVALID, LIMIT, UNKNOWN = aclgrad.InvalidFieldError, aclgrad.LimitExceededError, aclgrad.UnknownOperatorError
# The call, the field and the kind of its error. One of each kind of check: the checks of values themselves are in
# tests/native/test_values.py and test_variances.py.
REFUSED: dict[str, tuple[Any, str, type[aclgrad.AclgradError]]] = {
    "index_one_beyond": (unpool(32), "inputs[indices].data", INVALID),
    "prefix_beyond_its_window": (pool_with_prefix_at(0), "inputs[indices].data", INVALID),
    "box_nan": (roi(2, np.nan), BOXES_DATA, INVALID),
    "scale_nan": (roi(spatial_scale=np.nan), "attributes[spatial_scale]", INVALID),
    "reciprocal_of_another_eps": (normalise(2.001), "inputs[save_invstd].data", INVALID),
    "box_of_a_million_million_cells": (roi(4, 1e12, sampling_ratio=0), BOXES_DATA, LIMIT),
    "output_of_a_terabyte": (roi(input_shape=(2, 3, 2**20, 2**20)), "outputs[grad_input]", LIMIT),
    "input_of_a_terabyte": ((NAME, {"grad_output": GRAD, "self": (1, 2**20, 2**20)}), "inputs[self].shape", LIMIT),
    "unknown_operator": (("x" * 20_000, {"grad_output": GRAD}), "operator", UNKNOWN),
    "long_input": ((NAME, {"y" * 20_000: GRAD}), "inputs[grad_output]", INVALID),
    "many_inputs": ((NAME, {f"input{number}": GRAD for number in range(1100)}), "inputs", INVALID),
    "output_with_a_zero_beyond_64_bits": (
        (
            "roi_align_v2_backward",
            {"grad_output": np.ones((0, 1, 2, 2), np.float32), "boxes": np.ones((0, 5), np.float32)},
            {"input_shape": (2**62, 1, 4, 0), "pooled_height": 2, "pooled_width": 2},
        ),
        "outputs[grad_input]",
        LIMIT,
    ),
    "padding_that_cancels_beyond_64_bits": (
        (
            "replication_pad2d_backward",
            {"grad_output": np.ones((1, 4, 4), np.float32), "self": (1, 4, 4)},
            {"padding": (2**63 - 1, -(2**63 - 1), 0, 0)},
        ),
        "attributes[padding][0]",
        INVALID,
    ),
}


def assert_goes_on(client: aclgrad.Client) -> None:
    status = client.server_status()
    assert (status.devices[0].pool.allocated_bytes, status.devices[0].leased_stream_count) == (0, 0)
    assert calls_in(status.queue) == 0
    gradient = client.execute(*unpool(31))
    assert gradient.sum() == gradient.size


@pytest.mark.parametrize(("call", "field", "kind"), REFUSED.values(), ids=REFUSED)
def test_an_illegal_value_or_too_much_work_is_refused(
    server: Server, call: Any, field: str, kind: type[aclgrad.AclgradError]
) -> None:
    with aclgrad.Client(server.address) as client:
        with pytest.raises(kind) as caught:
            client.execute(*call)
        error = caught.value
        assert error.field == field
        assert error.remedy
        assert error.remedy in str(error)
        assert len(str(error)) < 1000
        assert error.request_id
        assert_goes_on(client)


def test_bytes_that_are_no_message(server: Server) -> None:
    inputs = (view_of_array("grad_output", GRAD), TensorView("self", TensorType(DTYPES["float32"], (1, 4, 4))))
    generator, good = random.Random(1), encode_request(OperatorCall(NAME, inputs, {}))
    wrong = [generator.randbytes(generator.randrange(200)) for _ in range(50)]
    wrong += [good[: generator.randrange(len(good))] for _ in range(50)]
    with server.channel() as channel:

        def error_for(request: bytes, method: str = "ExecuteOperator") -> aclgrad.AclgradError:
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(SERVICE + method)(request, timeout=60)
            return error_of(caught.value)

        for method in ("ExecuteOperator", "ListOperators", "GetServerStatus"):
            assert type(error_for(b"\x0f", method)) is aclgrad.MalformedRequestError
        assert "more than 20000 fields" in str(error_for(b"\x78\x00" * 1_000_000))
        assert all(isinstance(error_for(each), aclgrad.RequestError) for each in wrong)
    with aclgrad.Client(server.address) as client:
        assert_goes_on(client)
