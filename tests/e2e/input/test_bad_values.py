"""Values that a device may not be given are refused with their place, and what follows is served."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.masks import MaskLayout, Pooling, argmax_of_input, mask_of_argmax
from tools.calling import AnyClient, maybe_await
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


def unpool_2d(index: int, dtype: type) -> tuple[str, Inputs, dict[str, Any]]:
    indices = np.zeros((1, 2, 2, 2), dtype)
    indices[0, 1, 1, 0] = index
    inputs = {"grad_output": np.ones((1, 2, 4, 4), np.float32), "self": indices.shape, "indices": indices}
    return "max_unpool2d_backward", inputs, {"output_size": (4, 4)}


def pool(indices: np.ndarray, **attributes: Any) -> tuple[str, Inputs, dict[str, Any]]:
    inputs = {"grad_output": POOLED, "self": INPUT.shape, "indices": indices}
    return "max_pool2d_with_mask_backward", inputs, POOL_ATTRIBUTES | attributes


def pool_at(value: int, dtype: type = np.int64) -> tuple[str, Inputs, dict[str, Any]]:
    argmax = ARGMAX.astype(dtype)
    argmax[1, 2, 1, 3] = value
    return pool(argmax)


def pool_with_indices_at(value: int, dtype: type = np.int64) -> tuple[str, Inputs, dict[str, Any]]:
    return "max_pool2d_with_indices_backward", *pool_at(value, dtype)[1:]


def pool_with_prefix_at(value: int) -> tuple[str, Inputs, dict[str, Any]]:
    argmax = ARGMAX.copy()
    argmax[1, 2, 1, 3] = value
    return pool(mask_of_argmax(argmax, POOLING, MaskLayout.INT32_PREFIX))


def roi(column: int = 1, value: float = 0.0, **attributes: Any) -> tuple[str, Inputs, dict[str, Any]]:
    boxes = BOXES.copy()
    boxes[1, column] = value
    inputs = {"grad_output": np.ones((2, 3, 2, 2), np.float32), "boxes": boxes}
    return "roi_align_v2_backward", inputs, ROI_ATTRIBUTES | attributes


def pad(padding: tuple[int, ...], dtype: str = "float32") -> tuple[str, Inputs, dict[str, Any]]:
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    left, right, top, bottom = padding
    grad_output = np.ones((1, 1, 4 + top + bottom, 4 + left + right), kind)
    return "replication_pad2d_backward", {"grad_output": grad_output, "self": (1, 1, 4, 4)}, {"padding": padding}


ILLEGAL = {
    "index_one_beyond": (unpool(32), "inputs[indices].data"),
    "index_negative": (unpool(-1), "inputs[indices].data"),
    "index_huge": (unpool(2**62), "inputs[indices].data"),
    "index_2d_one_beyond": (unpool_2d(16, np.int64), "inputs[indices].data"),
    "index_2d_int32_one_beyond": (unpool_2d(16, np.int32), "inputs[indices].data"),
    "index_2d_int32_negative": (unpool_2d(-1, np.int32), "inputs[indices].data"),
    "position_one_beyond_its_window": (pool_with_indices_at(8 * 1 + 4), "inputs[indices].data"),
    "position_beyond_the_plane": (pool_with_indices_at(48), "inputs[indices].data"),
    "position_huge": (pool_with_indices_at(2**40), "inputs[indices].data"),
    "position_int32_negative": (pool_with_indices_at(-1, np.int32), "inputs[indices].data"),
    "argmax_one_beyond_its_window": (pool_at(8 * 1 + 4), "inputs[indices].data"),
    "argmax_beyond_the_plane": (pool_at(48), "inputs[indices].data"),
    "argmax_negative": (pool_at(-1), "inputs[indices].data"),
    "argmax_huge": (pool_at(2**40), "inputs[indices].data"),
    "argmax_int32_negative": (pool_at(-(2**31), np.int32), "inputs[indices].data"),
    "prefix_beyond_its_window": (pool_with_prefix_at(0), "inputs[indices].data"),
    "prefix_beyond_the_plane": (pool_with_prefix_at(48), "inputs[indices].data"),
    "mask_one_byte_short": (
        pool(mask_of_argmax(ARGMAX, POOLING, MaskLayout.INT32_PREFIX)[..., :-1]),
        "inputs[indices].shape",
    ),
    "argmax_of_another_shape": (pool(ARGMAX[..., :-1].copy()), "inputs[indices].shape"),
    "padding_above_half_the_kernel": (pool(ARGMAX, padding=(2, 1)), "attributes[padding]"),
    "dilation": (pool(ARGMAX, dilation=(2,)), "attributes[dilation]"),
    "kernel_zero": (pool(ARGMAX, kernel_size=(0, 3)), "attributes[kernel_size]"),
    "kernel_of_three": (pool(ARGMAX, kernel_size=(3, 3, 3)), "attributes[kernel_size]"),
    "float_kernel": (pool(ARGMAX, kernel_size=3.0), "attributes[kernel_size]"),
    "ceil_mode_integer": (pool(ARGMAX, ceil_mode=1), "attributes[ceil_mode]"),
    "box_nan": (roi(2, np.nan), "inputs[boxes].data"),
    "box_infinite": (roi(4, np.inf), "inputs[boxes].data"),
    "image_nan": (roi(0, np.nan), "inputs[boxes].data"),
    "scale_below_float": (roi(spatial_scale=1e-40), "attributes[spatial_scale]"),
    "scale_infinite": (roi(spatial_scale=np.inf), "attributes[spatial_scale]"),
    "scale_nan": (roi(spatial_scale=np.nan), "attributes[spatial_scale]"),
    "scale_beyond_float": (roi(spatial_scale=1e39), "attributes[spatial_scale]"),
    "sampling_ratio_negative": (roi(sampling_ratio=-1), "attributes[sampling_ratio]"),
    "sampling_ratio_float": (roi(sampling_ratio=2.0), "attributes[sampling_ratio]"),
    "pooled_size_of_another": (roi(pooled_height=3), "inputs[grad_output].shape"),
    "input_shape_of_three": (roi(input_shape=(2, 3, 6)), "attributes[input_shape]"),
    "input_shape_negative": (roi(input_shape=(2, 3, -6, 6)), "attributes[input_shape]"),
    "padding_of_another": (("replication_pad2d_backward", pad((1, 1, 1, 1))[1], {"padding": (1, 1, 1, 2)}), None),
    "bfloat16_negative_padding": (pad((-1, 0, 0, 0), "bfloat16"), "attributes[padding]"),
    "bfloat16_large_padding": (pad((8, 0, 1, 0), "bfloat16"), "attributes[padding]"),
    "other_dtype_of_self": (
        ("max_unpool3d_backward", unpool(0)[1] | {"self": np.zeros((1, 2, 1, 2, 2))}, UNPOOL_ATTRIBUTES),
        "inputs[self].data_type",
    ),
}
TOO_MUCH = {
    "sampling_ratio_2_to_the_40": (roi(sampling_ratio=2**40), "inputs[boxes].data"),
    "box_of_a_million_cells": (roi(4, 1e9, sampling_ratio=0), "inputs[boxes].data"),
    "output_of_a_terabyte": (
        roi(input_shape=(2, 3, 2**20, 2**20)),
        "outputs[grad_input]",
    ),
    "mask_of_a_terabyte": (
        (
            "max_pool2d_with_mask_backward",
            {
                "grad_output": np.zeros((1, 1, 65, 65), np.float32),
                "self": (1, 1, 64, 64),
                "indices": np.zeros((1, 1, 65, 65), np.int64),
            },
            {"kernel_size": (2**20, 2**20), "stride": (1, 1), "padding": (2**19, 2**19)},
        ),
        "inputs[indices] on the device",
    ),
}


def allocated_bytes(client: aclgrad.Client) -> int:
    return client.server_status().devices[0].pool.allocated_bytes


@pytest.mark.parametrize(("call", "field"), ILLEGAL.values(), ids=ILLEGAL)
async def test_an_illegal_value_is_refused(client: AnyClient, server: Server, call: Any, field: str | None) -> None:
    await refused(client, server, call, field, aclgrad.InvalidFieldError)


@pytest.mark.parametrize(("call", "field"), TOO_MUCH.values(), ids=TOO_MUCH)
async def test_too_much_work_is_refused(client: AnyClient, server: Server, call: Any, field: str) -> None:
    await refused(client, server, call, field, aclgrad.LimitExceededError)


async def refused(
    client: AnyClient, server: Server, call: Any, field: str | None, kind: Callable[..., Exception]
) -> None:
    with aclgrad.Client(server.address) as watcher:
        before = allocated_bytes(watcher)
        with pytest.raises(kind) as error:
            await maybe_await(client.execute(*call))
        assert allocated_bytes(watcher) == before
    assert error.value.field == (field or "inputs[grad_output].shape")
    assert error.value.remedy
    assert error.value.remedy in str(error.value)
    gradient = await maybe_await(client.execute(*unpool(31)))
    assert gradient.sum() == gradient.size


async def test_boxes_of_images_that_do_not_exist_count_for_nothing(client: AnyClient) -> None:
    name, inputs, attributes = roi(0, 7.0)
    gradient = await maybe_await(client.execute(name, inputs, attributes))
    assert gradient[0].any()
    assert not gradient[1].any()


async def test_an_integer_may_stand_for_a_number_and_for_a_list_of_one(client: AnyClient) -> None:
    name, inputs, attributes = roi()
    same = [
        await maybe_await(client.execute(name, inputs, attributes | {"spatial_scale": scale})) for scale in (1, 1.0)
    ]
    np.testing.assert_array_equal(*same)
    name, inputs, attributes = pool(ARGMAX)
    given = [attributes, {"kernel_size": 3, "stride": 2, "padding": 1}]
    np.testing.assert_array_equal(*[await maybe_await(client.execute(name, inputs, each)) for each in given])


def test_the_bound_on_work_follows_the_time_of_a_hang() -> None:
    """A slow kernel on a busy processor must not look like a lost device."""
    call = roi(sampling_ratio=4000)  # of 384 million samples
    with Server() as server, aclgrad.Client(server.address) as client:
        client.execute(*call)
    with (
        Server("--hang-timeout-s", "2") as server,
        aclgrad.Client(server.address) as client,
        pytest.raises(aclgrad.LimitExceededError, match=r"--max-roi-work"),
    ):
        client.execute(*call)
