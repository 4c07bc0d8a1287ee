"""`aclgrad.testing` answers and refuses as `aclgrad-server` does."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.operators.cases import first_cases, returned_arrays
from aclgrad.products import Product
from aclgrad.testing import serve
from tools.serving import Server

GRAD = np.ones((3, 7, 7), np.float32)
SHAPE = (3, 14, 14)
BAD_CALLS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "unknown_operator": ("avg_pool9d_backward", {"grad_output": GRAD}, {}),
    "missing_input": ("adaptive_avg_pool2d_backward", {"grad_output": GRAD}, {}),
    "wrong_shape": ("adaptive_avg_pool2d_backward", {"grad_output": GRAD, "self": (3, 14)}, {}),
    "wrong_dtype": ("adaptive_avg_pool2d_backward", {"grad_output": GRAD.astype("int32"), "self": SHAPE}, {}),
    "too_large": (
        "adaptive_avg_pool2d_backward",
        {"grad_output": np.ones((1, 1, 1), np.float32), "self": (1, 2**20, 2**20)},
        {},
    ),
    "unknown_attribute": ("adaptive_avg_pool2d_backward", {"grad_output": GRAD, "self": SHAPE}, {"size": 3}),
    "wrong_index": (
        "max_unpool3d_backward",
        {
            "grad_output": np.ones((1, 2, 4, 4), np.float32),
            "self": (1, 2, 2, 2),
            "indices": np.full((1, 2, 2, 2), 32, np.int64),
        },
        {"output_size": (2, 4, 4), "stride": (1, 2, 2), "padding": (0, 0, 0)},
    ),
    "wrong_argmax": (
        "max_pool2d_with_mask_backward",
        {"grad_output": np.ones((1, 2, 2), np.float32), "self": (1, 4, 4), "indices": np.full((1, 2, 2), 15, np.int64)},
        {"kernel_size": (2, 2), "stride": (2, 2)},
    ),
    "index_outside_its_window": (
        "max_pool2d_with_indices_backward",
        {"grad_output": np.ones((1, 2, 2), np.float32), "self": (1, 4, 4), "indices": np.full((1, 2, 2), 15, np.int64)},
        {"kernel_size": (2, 2), "stride": (2, 2)},
    ),
    "wrong_box": (
        "roi_align_v2_backward",
        {"grad_output": np.ones((1, 1, 1, 1), np.float32), "boxes": np.full((1, 5), np.inf, np.float32)},
        {"input_shape": (1, 1, 4, 4), "pooled_height": 1, "pooled_width": 1},
    ),
}


@pytest.fixture
def pair(server: Server) -> Iterator[tuple[aclgrad.Client, aclgrad.Client]]:
    """Clients of both servers."""
    with serve() as testing, aclgrad.Client(testing.target) as ours, aclgrad.Client(server.address) as real:
        yield ours, real


def test_it_computes_what_the_real_server_computes(pair: tuple[aclgrad.Client, aclgrad.Client]) -> None:
    for typed in first_cases(Product.ATLAS_A2):
        call = typed.spec.name, typed.arrays(), typed.attributes
        for found, expected in zip(*(returned_arrays(each.execute(*call)) for each in pair), strict=True):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            wide = found.astype(np.complex128), expected.astype(np.complex128)
            np.testing.assert_allclose(*wide, rtol=1e-3, atol=1e-3, err_msg=str(typed))


def test_it_refuses_what_the_real_server_refuses(pair: tuple[aclgrad.Client, aclgrad.Client]) -> None:
    for name, call in BAD_CALLS.items():
        errors = []
        for each in pair:
            with pytest.raises(aclgrad.RequestError) as caught:
                each.execute(*call)
            errors.append(caught.value)
        assert (type(errors[0]), errors[0].field) == (type(errors[1]), errors[1].field), name
        assert errors[0].remedy
