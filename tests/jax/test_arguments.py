"""What the functions refuse in the forward pass, also while they are traced, and how errors of calls are told."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from jax import numpy as jnp

import aclgrad
import aclgrad.jax
from aclgrad.products import Product
from tests.jax.rows import BOXES, FIRST, arrays_of, ours
from tests.torch.table import Call
from tools.serving import Server, write_host_config

PLANES = np.ones((2, 3, 8, 8), np.float32)
VOLUMES = np.ones((2, 3, 8, 8, 8), np.float32)
INDICES = np.zeros((2, 3, 8, 8), np.int32)
ROWS, THREE = np.ones((2, 3, 4), np.float32), np.ones(3, np.float32)
IMAGES, GRID = np.ones((2, 3, 4, 4), np.float32), np.zeros((2, 5, 5, 2), np.float32)

REFUSED: tuple[tuple[str, tuple[Any, ...], dict[str, Any], str], ...] = (
    ("max_pool2d", (PLANES[0, 0], 2), {}, r"input.shape is \(8, 8\); give 3 or 4 dimensions"),
    ("interpolate", (PLANES[0], 9), {}, r"input.shape is \(3, 8, 8\); give 4 dimensions"),
    ("interpolate", (PLANES[0],), {"scale_factor": 2}, r"input.shape is \(3, 8, 8\); give 4 dimensions"),
    ("max_pool2d", (PLANES[:, :0], 2), {}, r"input.shape is \(2, 0, 8, 8\); only the first of 4 sizes"),
    ("max_pool2d", (INDICES, 2), {}, "input is int32; give float32 or float16 or bfloat16"),
    ("max_unpool2d", (INDICES, INDICES, 8), {}, "input is int32; give float32 or float16"),
    ("avg_pool2d", (PLANES.astype("complex64"), 2), {}, "input is complex64; give float32"),
    ("avg_pool2d", (PLANES.astype(object), 2), {}, "input is object; give float32"),
    ("max_pool2d", (PLANES, 0), {}, "kernel_size is 0; send at least 1"),
    ("max_pool2d", (PLANES, "2"), {}, "kernel_size is '2'; send a list of integers"),
    ("avg_pool2d", (PLANES, (2, 2, 2)), {}, "kernel_size has 3 values; send 1 or 2"),
    ("avg_pool2d", (PLANES, 9), {}, r"kernel_size is \(9, 9\), larger than the padded \(8, 8\) of input;"),
    ("max_pool2d", (PLANES, 2), {"padding": 2}, r"padding is \(2, 2\) for kernel_size \(2, 2\); send at most half"),
    ("adaptive_avg_pool2d", (PLANES, (2, 2, 2)), {}, "output_size is .*; give an integer of at least 0, or 2 of them"),
    ("adaptive_avg_pool3d", (VOLUMES, "2"), {}, "output_size is '2'; give an integer"),
    ("interpolate", (PLANES, 2.5), {}, "size is 2.5; give an integer"),
    ("interpolate", (PLANES, 0), {}, r"\(1\) size\[0\] is 0; send at least 1 \(2\) size\[1\] is 0; "),
    ("interpolate", (PLANES,), {}, "size is None and scale_factor None; give one of them"),
    ("interpolate", (PLANES,), {"scale_factor": 1.3}, "scale_factor is 1.3 for the sizes .*; give a size"),
    ("interpolate", (PLANES,), {"scale_factor": "2"}, "scale_factor is '2'.*; give a size"),
    ("interpolate", (PLANES,), {"scale_factor": (2, 2, 2)}, "scale_factor is .*; give a size"),
    ("interpolate", (PLANES, 4, None, "bicubic"), {}, "mode is 'bicubic'; give 'bilinear' or 'nearest'"),
    ("glu", (ROWS[..., :3],), {}, r"axis is -1, and input has the shape \(2, 3, 3\); give an axis that has two"),
    ("prelu", (ROWS, THREE[:2]), {}, r"weight.shape is \(2,\) for an input of \(2, 3, 4\); give one weight"),
    ("max_unpool2d", (PLANES, INDICES.astype(np.float32), 8), {}, "indices is float32; give int64 or int32"),
    ("max_unpool2d", (PLANES, INDICES[:1], 8), {}, r"indices.shape is \(1, 3, 8, 8\); give \(2, 3, 8, 8\)"),
    ("max_unpool3d", (VOLUMES, INDICES, 8), {}, r"indices.shape is \(2, 3, 8, 8\); give \(2, 3, 8, 8, 8\)"),
    ("max_unpool3d", (VOLUMES, VOLUMES.astype(int), 7), {}, "output_size is .*; give the size that the pooled"),
    ("roi_align", (PLANES, BOXES[:, 1:], 2), {}, r"boxes.shape is \(4, 4\); give \(4, 5\)"),
    ("roi_align", (PLANES, BOXES.tolist(), 2), {}, "boxes is a list; give a jax.Array"),
    ("roi_align", (PLANES, BOXES, 2), {"sampling_ratio": 0}, "sampling_ratio is 0.*give at least 1"),
    ("pad", (PLANES, (1, 1, 1, 1), "constant"), {}, "mode is 'constant' for 4 values of pad; use jax.numpy.pad"),
    ("pad", (PLANES, 1, "reflect"), {}, "mode is 'reflect' for 0 values of pad"),
    ("pad", (PLANES, (1, 1, 8, 1), "reflect"), {}, r"pad is \(1, 1, 8, 1\) for input of sizes \(8, 8\); send less"),
    ("pad", (PLANES, (1, 1), "reflect"), {}, r"input.shape is \(2, 3, 8, 8\); give 2 or 3 dimensions"),
    ("pad", (jnp.ones((1, 1, 20, 20), jnp.bfloat16), (0, 8, 8, 0), "reflect"), {}, "pad is .*; for bfloat16 send"),
    ("layer_norm", (ROWS, (3,)), {}, r"normalized_shape is \(3,\) for an input of \(2, 3, 4\); give its last sizes"),
    ("layer_norm", (ROWS, ()), {}, r"normalized_shape is \(\)"),
    ("layer_norm", (ROWS, 4, THREE), {}, r"weight.shape is \(3,\); give \(4,\)"),
    ("layer_norm", (ROWS, 4, None, THREE), {}, r"bias.shape is \(3,\); give \(4,\)"),
    ("layer_norm", (ROWS, 4, [1.0]), {}, "weight is a list; give a jax.Array"),
    ("layer_norm", (ROWS, 4), {"eps": 0.0}, "eps is 0.0; give a number above 0"),
    ("layer_norm", (ROWS.astype(np.int32), 4), {}, "input is int32; give float32"),
    ("layer_norm", (ROWS, 4, np.ones(4, np.float16)), {}, "weight.data_type is float16"),
    ("batch_norm", (ROWS, THREE, THREE[:2]), {}, r"running_var.shape is \(2,\); give \(3,\)"),
    ("batch_norm", (ROWS, None, None), {}, "running_mean is None; give both running statistics"),
    ("batch_norm", (ROWS, THREE, None), {"training": True}, "running_var is None; give both"),
    ("batch_norm", (ROWS[:1, :, :1], None, None), {"training": True}, "input.shape is .* one value per channel"),
    ("batch_norm", (ROWS, THREE, THREE), {"training": 1}, "training is 1; give a bool"),
    ("batch_norm", (THREE, THREE, THREE), {}, r"input.shape is \(3,\); give 2"),
    ("grid_sample", (IMAGES, GRID, "bicubic"), {}, "mode is 'bicubic'; give 'bilinear' or 'nearest'"),
    ("grid_sample", (IMAGES, GRID), {"padding_mode": "mirror"}, "padding_mode is 'mirror'; give 'zeros'"),
    ("grid_sample", (IMAGES, GRID[:1]), {}, r"grid.shape is \(1, 5, 5, 2\); give \(2, 5, 5, 2\)"),
    ("grid_sample", (IMAGES, GRID[0]), {}, r"grid.shape is \(5, 5, 2\); give 4 dimensions"),
    ("grid_sample", (IMAGES, GRID.astype(np.float16)), {}, "grid.data_type is float16"),
    *(
        ("softmax", (ROWS[0], dim), {}, r"dim is .* for an input of \(3, 4\); give -2 to 1")
        for dim in (2, -3, True, None, 0.5)
    ),
    ("embedding", (INDICES[0, 0, 0], ROWS[0], 3), {}, "padding_idx"),
    ("embedding", (INDICES[0, 0, 0], THREE), {}, r".*give \(rows, columns\)"),
)


@pytest.mark.parametrize("call", [each for name, each in FIRST.items() if name != "embedding"], ids=str)
def test_what_is_no_array_is_refused_by_name(client: aclgrad.Client, call: Call) -> None:
    # Every array has a last axis, and a number counts as an array of one axis.
    call = replace(call, options=call.options | dict.fromkeys(call.options.keys() & {"dim"}, -1))
    for value, told in (([[1.0, 2.0]], "list"), (None, "NoneType"), (torch.ones(1, 1, 2, 2), "Tensor")):
        with pytest.raises(aclgrad.InvalidFieldError, match=f"^{call.tensors[0]} is a {told}; give a jax.Array$"):
            ours(call, client)(value, *arrays_of(call.values)[1:])


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(("name", "arguments", "options", "message"), REFUSED)
def test_arguments_are_refused_by_name_in_the_forward_pass(
    client: aclgrad.Client, name: str, arguments: tuple[Any, ...], options: Any, message: str, traced: bool
) -> None:
    input, *others = arguments
    call = partial(getattr(aclgrad.jax, name), client=client, **options)
    # Objects of Python cannot be traced.
    is_traced = traced and np.asarray(input).dtype.kind != "O" and np.ndim(input)
    made = len(client.bridge_functions)
    with pytest.raises(aclgrad.InvalidFieldError, match=f"^{message}"):
        jax.eval_shape(lambda x: call(x, *others), input) if is_traced else call(input, *others)
    assert len(client.bridge_functions) == made


def test_the_rules_are_those_of_the_card_that_a_server_comes_back_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for a function that was called before."""
    monkeypatch.setattr("aclgrad.bridges.served_operators.FRESH_S", 0.0)
    config = write_host_config(tmp_path, product=Product.ATLAS_INFERENCE)
    with Server() as server:
        client = aclgrad.Client(server.address)
        aclgrad.jax.adaptive_avg_pool3d(VOLUMES, 2, client=client)
    with client, Server("--acl-config", config, listen=[server.address]):
        client.wait_until_ready(20)
        with pytest.raises(aclgrad.InvalidFieldError, match=r"output.shape is .*product 310P has no other kernel"):
            aclgrad.jax.adaptive_avg_pool3d(VOLUMES, 2, client=client)
        with pytest.raises(aclgrad.OperatorNotSupportedError, match="roi_align_v2_backward is not served"):
            aclgrad.jax.roi_align(PLANES, BOXES, 2, client=client)


def test_64_bits_of_numpy_are_the_32_of_jax(client: aclgrad.Client) -> None:
    gradient = jax.grad(lambda x: aclgrad.jax.avg_pool2d(x, 2, client=client).sum())
    assert gradient(PLANES.astype(np.float64)).dtype == jnp.float32


def test_what_the_server_does_not_compute_is_refused_in_the_forward_pass(client: aclgrad.Client) -> None:
    volumes = VOLUMES.astype(np.float64)
    with jax.enable_x64(True):
        assert aclgrad.jax.adaptive_avg_pool3d(volumes, 1, client=client).dtype == jnp.float64
        with pytest.raises(aclgrad.InvalidFieldError, match=r"output.data_type is float64 for \(2, 2, 2\) windows"):
            aclgrad.jax.adaptive_avg_pool3d(volumes, 2, client=client)


def test_only_a_client_makes_calls(client: aclgrad.Client) -> None:
    with pytest.raises(aclgrad.InvalidSettingError, match=r"client is a str; give an aclgrad.Client"):
        aclgrad.jax.interpolate(PLANES, 8, client="127.0.0.1:1")


def test_indices_that_are_no_rows_are_refused_in_the_backward_pass(client: aclgrad.Client) -> None:
    gradient = jax.grad(lambda weight: aclgrad.jax.embedding(np.array([9]), weight, client=client).sum())
    with pytest.raises(Exception, match="indices"):
        jax.block_until_ready(gradient(ROWS[0]))


def test_an_error_of_a_call_names_the_operator() -> None:
    """The process survives, and so do later calls."""
    with Server() as server:
        client = aclgrad.Client(server.address, retries=0, connect_timeout_s=0.1)
        gradient = jax.grad(lambda x: aclgrad.jax.avg_pool2d(x, 2, client=client).sum())
        compiled = jax.jit(gradient)
        expected = np.asarray(gradient(PLANES))
    for each in gradient, compiled:
        with pytest.raises(Exception, match=r"ServerUnreachableError: avg_pool2d_backward: .*no connection"):
            jax.block_until_ready(each(PLANES))
    with Server(listen=[server.address]):
        client.wait_until_ready(20)
        for each in gradient, compiled:
            np.testing.assert_array_equal(each(PLANES), expected)
    client.close()
    for each in gradient, compiled:
        with pytest.raises(Exception, match=r"CallCancelledError: avg_pool2d_backward: .*closed"):
            jax.block_until_ready(each(PLANES))
