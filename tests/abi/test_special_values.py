"""What calls with ordinary values cannot show: NaN and infinity, empty tensors, extreme attributes."""

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase, arrays_of, typed_cases
from tests.bounds import assert_defined
from tests.call_file import PRODUCT
from tools.abi.acl import Library

from .cann_answers import answer_of
from .table_calls import TABLED
from .table_gradients import call, gradient_of, unwritten

NAN, INF = np.nan, np.inf
WRITTEN = {
    "addmm", "batch_mat_mul", "binary_cross_entropy_with_logits", "ctc_loss_backward", "embedding_dense_backward",
    "flash_attention_score", "flash_attention_score_grad", "flash_attention_score_grad_v2", "flash_attention_score_v2",
    "layer_norm_backward", "matmul", "mean", "mm", "mse_loss", "nll_loss", "prelu_backward", "reduce_sum",
    "roi_align_v2_backward", "scatter_add", "smooth_l1_loss",
}  # fmt: skip
"""Operators that write an output for empty inputs."""


def is_empty(typed: TypedCase) -> bool:
    read = (each.name for each in typed.spec.inputs if each.unread_on is None and each.name in typed.case.shapes)
    return not all(all(typed.case.shapes[name]) for name in read)


def test_empty_inputs(acl: Library) -> None:
    for typed in filter(is_empty, typed_cases(PRODUCT, *TABLED)):
        if answer_of(typed.spec.name, f"{typed.case.name} {typed.dtype}", 0, PRODUCT) != 0:
            continue  # refused, see test_products.py
        found = gradient_of(acl, typed)
        if typed.spec.name in WRITTEN:
            assert_defined(typed, found, PRODUCT)
            continue
        for gradient, type in zip(arrays_of(found), typed.outputs.values(), strict=True):
            assert (gradient == unwritten(type)).all(), typed


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_what_is_not_finite_passes_through_means(acl: Library, dtype: str) -> None:
    typed = call("adaptive_avg_pool2d_backward", dtype, grad_output=(1, 2, 2), self=(1, 2, 4))
    grad = np.array([[[INF, -INF], [NAN, 0]]], typed.arrays()["grad_output"].dtype)
    result = gradient_of(acl, typed, grad_output=grad).astype(np.float32)
    np.testing.assert_array_equal(result[0], [[INF, INF, -INF, -INF], [NAN, NAN, 0, 0]])


def test_what_is_not_finite_stays_in_its_cell_of_padding(acl: Library) -> None:
    typed = call("replication_pad2d_backward", grad_output=(1, 1, 6), self=(1, 1, 4), padding=(1, 1, 0, 0))
    grad = np.array([[[INF, 1, 2, NAN, 3, 4]]], np.float32)
    np.testing.assert_array_equal(gradient_of(acl, typed, grad_output=grad), [[[INF, 2, NAN, 7]]])


def test_padding_and_cropping_of_any_size(acl: Library) -> None:
    typed = call(
        "replication_pad2d_backward",
        grad_output=(1, 1, 3, 3), self=(1, 1, 3, 4), padding=(-(2**63), 2**63 - 1, 0, 0),
    )  # fmt: skip
    grad = np.ones((1, 1, 3, 3), np.float32)
    np.testing.assert_array_equal(gradient_of(acl, typed, grad_output=grad), [[[[0, 0, 0, 3]] * 3]])


@pytest.mark.parametrize("width", range(1, 5))
def test_every_small_padding_of_a_row(acl: Library, width: int) -> None:
    for left in range(-5, 4):
        for right in range(-5, 4):
            if width + left + right <= 0:
                continue
            shapes = {"grad_output": (1, 1, 1, width + left + right), "self": (1, 1, 1, width)}
            typed = call("replication_pad2d_backward", padding=(left, right, 0, 0), **shapes)
            grad = np.arange(1, width + left + right + 1, dtype=np.float32).reshape(1, 1, 1, -1)
            sources = np.clip(np.arange(-left, width + right), 0, width - 1)
            expected = np.bincount(sources, grad.ravel(), width)
            np.testing.assert_array_equal(gradient_of(acl, typed, grad_output=grad)[0, 0, 0], expected)


def test_a_window_far_beyond_the_plane_takes_neither_memory_nor_time(acl: Library) -> None:
    """With ceil_mode the last window may have any size."""
    windows = {"kernel_size": (2**31 - 1,), "padding": (1,), "ceil_mode": True, "count_include_pad": False}
    typed = call("avg_pool2d_backward", grad_output=(1, 2, 1, 1), self=(1, 2, 5, 7), **windows)
    assert_defined(typed, gradient_of(acl, typed), PRODUCT)


@pytest.mark.parametrize("side", [2, 3, 4])
def test_shares_of_windows_are_quotients_bit_by_bit(acl: Library, side: int) -> None:
    """Of the largest numbers and the smallest: the kernel multiplies where the divisor is a power of two."""
    shape, plane = (1, 1, 4, 32), (1, 1, 4 * side, 32 * side)
    typed = call("avg_pool2d_backward", grad_output=shape, self=plane, kernel_size=(side,), stride=(side,))
    limits = np.finfo(np.float32)
    generator = np.random.default_rng(side)
    grad = generator.choice([limits.max, limits.tiny, limits.smallest_subnormal, 1.0], shape).astype(np.float32)
    grad *= generator.random(shape, np.float32)
    expected = (grad / np.float32(side**2)).repeat(side, 2).repeat(side, 3)
    np.testing.assert_array_equal(gradient_of(acl, typed, grad_output=grad).view(np.uint32), expected.view(np.uint32))
