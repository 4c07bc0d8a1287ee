"""Convolutions: values along any number of axes, of any view and type, and the same bits for any number of threads.

Their kernels are those of the gradients, whose tests are more.
"""

import hashlib
from collections.abc import Callable
from math import prod

import numpy as np
import pytest

from tools.abi.acl import Library

from .convolutions import Convolution, assert_result, convolution, result
from .products import FILL, TYPES, numbers
from .programs_in_forks import call_of
from .test_convolution_backward import CASES as PLAIN
from .test_convolution_backward import FEW, seen
from .test_convolution_bits import GEOMETRIES

CASES = (
    *(each for each in (*PLAIN, *GEOMETRIES) if prod(each.output) * prod(each.weight[1:]) < 1 << 20),
    # More products than are added up at a time, in groups, beside one another and in several blocks of columns.
    convolution((2, 70, 20, 21), (26, 35, 3, 3), 1, 1, 1, 2),
    convolution((1, 300, 4, 5), (17, 300, 1, 1)),
    convolution((2, 96, 5, 6), (96, 14, 3, 3), 2, 1, 1, 2, output_padding=1),
    convolution((2, 34, 9), (34, 1, 400), 1, 200, 1, 34),
    # Rows that are longer than a box of a depthwise convolution.
    convolution((1, 3, 30_000), (6, 1, 3), 2, 1, 1, 3),
    # Zeros on one side of one axis.
    convolution((2, 4, 9), (5, 4, 3), 1, (0, 2)),
)
Tensors = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def tensors_of(case: Convolution, dtype: str = "float32", seed: int = 0) -> Tensors:
    """Returns input, weight and bias."""
    input_, weight, bias = (
        numbers(seed + number, shape, dtype) for number, shape in enumerate((case.input, case.weight, case.output[1:2]))
    )
    return input_, weight, bias


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", FEW, ids=str)
def test_views(acl: Library, case: Convolution, dtype: str) -> None:
    """The bits do not depend on where results go."""
    input_, weight, bias = tensors_of(case, dtype)
    plain = result(acl, case, (input_, weight, bias))
    inputs, weights = seen(input_), seen(weight)
    outputs = seen(np.full(case.output, FILL, input_.dtype))
    for name in inputs:
        given = (inputs[name], weights[name], np.repeat(bias, 2)[::2])
        assert_result(result(acl, case, given), case, given, name)
    for name in ("channels last", "transposed", "reversed"):
        assert result(acl, case, (input_, weight, bias), outputs[name]).tobytes() == plain.tobytes(), name


@pytest.mark.parametrize("case", FEW, ids=str)
def test_a_bias_that_is_not_finite_stays_in_its_channel(acl: Library, case: Convolution) -> None:
    input_, weight, bias = tensors_of(case)
    bias[-1] = np.nan
    found = result(acl, case, (input_, weight, bias))
    assert np.isnan(found[:, -1]).all()
    assert np.isfinite(found[:, :-1]).all()


def print_results(acl: Library, is_compared: bool) -> None:
    """Prints the bits of many results; they are also compared with their definition if that is asked for."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    types = tuple(TYPES)
    for number, case in enumerate(CASES):
        input_, weight, bias = tensors_of(case, types[number % len(types)])
        tensors = (input_, weight, None if number % 5 == 0 else bias)
        found = result(acl, case, tensors)
        print(number, hashlib.sha256(found.tobytes()).hexdigest())
        if is_compared:
            assert_result(found, case, tensors)


@pytest.mark.timeout(600)
def test_values_at_every_vector_level_and_the_same_bits_with_any_number_of_threads(
    run_program: Callable[..., list[str]], vector_levels: list[str]
) -> None:
    for level in vector_levels:
        first = run_program(call_of(print_results, True), {"vector_level": level, "threads": 1})
        assert len(first) == len(CASES)
        for threads in (2, 8):
            assert run_program(call_of(print_results, False), {"vector_level": level, "threads": threads}) == first
