"""Values that a device may not be given are refused with their place, and what follows is served.

More rules: tests/client/operators/test_refusals.py and tests/native/test_checked_calls.py.
"""

from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.masks import MaskLayout, Pooling, argmax_of_input, mask_of_argmax
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


BOXES_DATA = "inputs[boxes].data"
# One of each kind of check: the checks themselves are tested in tests/native/test_values.py and test_variances.py.
REFUSED: dict[str, tuple[Any, str, type[aclgrad.AclgradError]]] = {
    "index_one_beyond": (unpool(32), "inputs[indices].data", aclgrad.InvalidFieldError),
    "prefix_beyond_its_window": (pool_with_prefix_at(0), "inputs[indices].data", aclgrad.InvalidFieldError),
    "box_nan": (roi(2, np.nan), BOXES_DATA, aclgrad.InvalidFieldError),
    "scale_nan": (roi(spatial_scale=np.nan), "attributes[spatial_scale]", aclgrad.InvalidFieldError),
    "reciprocal_of_another_eps": (normalise(2.001), "inputs[save_invstd].data", aclgrad.InvalidFieldError),
    "box_of_a_million_cells": (roi(4, 1e9, sampling_ratio=0), BOXES_DATA, aclgrad.LimitExceededError),
    "output_of_a_terabyte": (
        roi(input_shape=(2, 3, 2**20, 2**20)),
        "outputs[grad_input]",
        aclgrad.LimitExceededError,
    ),
}


@pytest.mark.parametrize(("call", "field", "kind"), REFUSED.values(), ids=REFUSED)
def test_an_illegal_value_or_too_much_work_is_refused(
    server: Server, call: Any, field: str, kind: type[aclgrad.AclgradError]
) -> None:
    with aclgrad.Client(server.address) as client:
        with pytest.raises(kind) as error:
            client.execute(*call)
        assert client.server_status().devices[0].pool.allocated_bytes == 0
        assert error.value.field == field
        assert error.value.remedy
        assert error.value.remedy in str(error.value)
        gradient = client.execute(*unpool(31))
    assert gradient.sum() == gradient.size
