"""The gradients of convolutions: values along any number of axes, of any view and type, and the same bits always."""

import pytest

from tools.abi.acl import Library

from .convolutions import assert_gradients, convolution, gradients, tensors_of
from .products import TYPES

CASES = (
    # One axis.
    convolution((3, 4, 9), (5, 4, 3)),
    convolution((2, 4, 20), (6, 2, 4), 2, 3, 2, 2),
    convolution((2, 4, 17), (4, 3, 3), 3, 1, 1, 2, output_padding=2),
    # Two axes.
    convolution((2, 3, 9, 8), (4, 3, 3, 3), 1, 1),
    convolution((2, 3, 9, 8), (4, 3, 3, 2), (2, 3), (1, 0), (1, 2)),
    convolution((2, 6, 11, 10), (9, 2, 1, 1), 1, 0, 1, 3),
    convolution((2, 6, 11, 10), (9, 2, 1, 1), 2, 0, 1, 3),
    convolution((2, 3, 7, 6), (4, 3, 3, 3), (2, 1), (1, 2, 0, 3)),
    convolution((2, 3, 5, 6), (3, 4, 3, 4), 2, 1, 1, 1, output_padding=(1, 0)),
    convolution((2, 6, 5, 6), (6, 2, 2, 3), (3, 1), (0, 1), (2, 3), 3, output_padding=(2, 2)),
    # Three axes.
    convolution((2, 3, 5, 6, 4), (4, 3, 3, 2, 3), (1, 2, 1), (1, 0, 1)),
    convolution((2, 4, 5, 6, 4), (6, 2, 2, 3, 1), (2, 1, 1), (0, 1, 2), (1, 2, 1), 2),
    convolution((2, 4, 3, 4, 2), (4, 3, 2, 3, 2), 2, (0, 1, 0), 1, 2, output_padding=1),
    # Positions that no tap touches, a kernel that is larger than the input, taps that never touch it.
    convolution((2, 3, 11, 12), (4, 3, 2, 1), 5, 0, 1),
    convolution((2, 3, 2, 3), (4, 3, 7, 5), 2, 3, 1),
    convolution((2, 3, 2, 2), (4, 3, 3, 3), 1, 9, 9),
    convolution((1, 1, 1, 1), (1, 1, 1, 1)),
    # Many channels.
    convolution((2, 70, 9, 7), (40, 70, 3, 3), 1, 1),
    convolution((2, 66, 9, 7), (44, 33, 3, 3), 2, 1, 1, 2),
    # A channel in each group, and several of its gradient.
    convolution((3, 5, 14, 15), (5, 1, 3, 3), 1, 1, 1, 5),
    convolution((3, 5, 14, 15), (10, 1, 3, 3), 2, 1, 1, 5),
    convolution((2, 5, 40, 37), (15, 1, 5, 4), (2, 3), (2, 1), (2, 1), 5),
    convolution((2, 3, 9, 8), (3, 1, 2, 1), 4, 0, 1, 3),
    convolution((2, 3, 130, 131), (3, 1, 7, 7), 1, 3, 1, 3),
    convolution((2, 3, 33, 31), (3, 1, 31, 17), 1, 15, 1, 3),
    convolution((2, 3, 2, 3), (3, 1, 7, 5), 2, 3, 1, 3),
    convolution((2, 3, 2, 2), (3, 1, 3, 3), 1, 9, 9, 3),
    convolution((2, 4, 5, 6), (4, 2, 2, 3), (3, 1), (0, 1), (2, 3), 4, output_padding=(2, 2)),
    convolution((2, 4, 30_000), (4, 1, 9), 1, 4, 1, 4),
    convolution((2, 4, 30_000), (8, 1, 5), 3, 4, 700, 4),
    convolution((2, 3, 9, 10, 11), (6, 1, 3, 2, 3), (1, 2, 3), (1, 0, 2), (2, 1, 1), 3),
    convolution((1, 2, 30, 40, 50), (2, 1, 3, 3, 3), 1, 1, 1, 2),
    # Small planes of many channels.
    convolution((3, 35, 7, 7), (35, 1, 3, 3), 1, 1, 1, 35),
    convolution((3, 35, 14, 13), (35, 1, 5, 3), 2, (2, 1), 1, 35),
    convolution((2, 18, 7, 5), (18, 1, 7, 7), 1, 3, 1, 18),
    convolution((2, 16, 9, 8), (16, 1, 2, 3), (3, 1), (0, 1), (1, 2), 16, output_padding=(2, 1)),
    convolution((2, 33, 3, 4, 5), (33, 1, 3, 3, 3), (1, 2, 1), 1, 1, 33),
    convolution((300, 17, 15), (17, 1, 4), 1, 1, 2, 17),
)  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(acl: Library, case: object, dtype: str) -> None:
    tensors = tensors_of(case, dtype)
    assert_gradients(gradients(acl, case, tensors), case, tensors)
