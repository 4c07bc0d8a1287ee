"""The gradients of convolutions: values along any number of axes, of any view and type, and the same bits always."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product as product_of

import numpy as np
import pytest

from tests.long_shapes import MAX_BESIDE_BYTES, MAX_OF_TENSORS
from tools.abi.acl import Library

from .convolutions import Convolution, assert_gradients, convolution, described, gradients, tensors_of, truths
from .kernel_memory import MEBIBYTE, forget_peak, peak_bytes
from .products import FILL, TYPES
from .programs_in_forks import call_of

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
    # Fewer positions than taps and steps.
    convolution((2, 3, 2, 1), (4, 3, 4, 4), 3, 3),
    convolution((1, 2, 3, 2), (3, 2, 40, 9), (50, 7), (60, 30), (1, 3)),
    convolution((1, 2, 3, 2), (3, 2, 40, 9), (50, 12), (330, 40), (15, 8)),
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
def test_values(acl: Library, case: Convolution, dtype: str) -> None:
    tensors = tensors_of(case, dtype)
    assert_gradients(gradients(acl, case, tensors), case, tensors)


# A plain one, one of several groups, a transposed one, and those of a channel in each group: in rows, and side by side.
FEW = (
    convolution((2, 6, 9, 8), (4, 6, 3, 3), 1, 1),
    convolution((2, 6, 5, 7), (9, 2, 3, 2), (2, 1), 1, 1, 3),
    convolution((2, 3, 5, 6), (3, 4, 3, 4), 2, 1, 1, 1, output_padding=(1, 0)),
    convolution((2, 3, 20, 37), (6, 1, 3, 3), 2, 1, 1, 3),
    convolution((2, 18, 7, 5), (18, 1, 3, 3), 1, 1, 1, 18),
    convolution((2, 4, 3, 4, 5), (2, 4, 2, 3, 2), (1, 2, 1), 1),
    convolution((1, 16, 2, 1, 5), (16, 1, 1, 1, 1), 1, 0, 1, 16),
)


def seen(array: np.ndarray) -> dict[str, np.ndarray]:
    """Returns views that have the elements of an array, each of a storage of its own."""
    spread = np.full([2 * size + 1 for size in array.shape], np.nan, array.dtype)
    within = spread[tuple(slice(1, None, 2) for _ in array.shape)]
    within[...] = array
    return {
        "channels last": np.moveaxis(np.moveaxis(array, 1, -1).copy(), -1, 1),
        "transposed": array.T.copy().T,
        "first axis last": np.moveaxis(
            np.moveaxis(array, min(2, array.ndim - 1), -1).copy(), -1, min(2, array.ndim - 1)
        ),
        "spread": within,
        "reversed": np.flip(np.flip(array).copy()),
    }


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", FEW, ids=str)
def test_views(acl: Library, case: Convolution, dtype: str) -> None:
    """The bits are those of row-major tensors."""
    tensors = tensors_of(case, dtype)
    plain = [each.tobytes() for each in gradients(acl, case, tensors)]
    views = [seen(each) for each in tensors]
    for name in views[0]:
        found = gradients(acl, case, tuple(each[name] for each in views))
        assert_gradients(found, case, tensors, name)
    for position, name in product_of(range(3), views[0]):
        given = (*tensors[:position], views[position][name], *tensors[position + 1 :])
        assert_gradients(gradients(acl, case, given), case, tensors, name)
    outputs = [np.full(each.shape, FILL, each.dtype) for each in gradients(acl, case, tensors)]
    for name in ("channels last", "transposed", "reversed"):
        to = (seen(outputs[0])[name], seen(outputs[1])[name], outputs[2][::-1])
        assert [each.tobytes() for each in gradients(acl, case, tensors, outputs=to)] == plain, name


@pytest.mark.parametrize("case", FEW, ids=str)
def test_repeated_elements(acl: Library, case: Convolution) -> None:
    """As the gradient of a sum is, and a batch of one image."""
    grad_output, input_, weight = tensors_of(case)
    repeated = (
        np.broadcast_to(np.float32(0.5), grad_output.shape),
        np.broadcast_to(input_[:1].copy(), input_.shape),
        np.broadcast_to(weight[..., :1].copy(), weight.shape),
    )
    assert_gradients(gradients(acl, case, repeated), case, repeated)


@pytest.mark.parametrize("case", FEW, ids=str)
def test_what_is_not_wanted(acl: Library, case: Convolution) -> None:
    """The other gradients have the same bits, and what only they need is not read."""
    tensors = tensors_of(case)
    every = gradients(acl, case, tensors)
    for mask in product_of((False, True), repeat=3):
        missing = [np.full_like(each, np.nan) for each in tensors]
        given = [tensors[0], tensors[1] if mask[1] else missing[1], tensors[2] if mask[0] else missing[2]]
        found = gradients(acl, case, tuple(given), mask)
        for is_wanted, one, other in zip(mask, found, every, strict=True):
            assert (one is not None) == is_wanted
            if is_wanted:
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("case", FEW, ids=str)
def test_what_is_not_finite(acl: Library, case: Convolution, value: float, dtype: str) -> None:
    """It reaches what it takes part in; the rest is as if it were 0, but for what it meets zeros of padding in."""
    for position in range(3):
        tensors = tensors_of(case, dtype)
        finite = [each.copy() for each in tensors]
        tensors[position].flat[0], finite[position].flat[0] = value, 0
        zeros = [np.zeros_like(each) for each in tensors]
        zeros[position].flat[0] = 1
        with np.errstate(invalid="ignore"):
            touched = [
                each != 0 for each in truths(case, tuple(one if one.any() else np.ones_like(one) for one in zeros))[0]
            ]
        found, expected = gradients(acl, case, tensors), truths(case, tuple(finite))[0]
        for name, one, truth, is_touched in zip(("input", "weight", "bias"), found, expected, touched, strict=True):
            is_other = {0: "", 1: "weight", 2: "input"}[position]
            if position and name != is_other:
                continue
            wide = one.astype(np.float64)
            assert not np.isfinite(wide[is_touched]).any(), (name, position)
            rest = np.isfinite(wide)
            np.testing.assert_allclose(wide[rest], truth[rest], rtol=0.02, atol=0.2)
            assert position == 2 or rest[~is_touched].mean() > 0.5 or is_touched.all(), (name, position)


def test_modes_compute_in_full(acl: Library) -> None:
    tensors = tensors_of(FEW[0])
    plain = [each.tobytes() for each in gradients(acl, FEW[0], tensors)]
    for mode in (1, 2, 3):
        assert [each.tobytes() for each in gradients(acl, FEW[0], tensors, cube_math_type=mode)] == plain


def print_gradients(acl: Library, is_compared: bool) -> None:
    """Prints the bits of many gradients; they are also compared with their definition if that is asked for."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for case, dtype in product_of(CASES, TYPES):
        tensors = tensors_of(case, dtype)
        found = gradients(acl, case, tensors)
        print(case, dtype, *(hashlib.sha256(each.tobytes()).hexdigest() for each in found))
        if is_compared:
            assert_gradients(found, case, tensors)


@pytest.mark.timeout(600)
def test_every_vector_level_and_the_same_bits_with_any_number_of_threads(
    run_program: Callable[..., list[str]], vector_levels: list[str]
) -> None:
    for level in vector_levels:
        first = run_program(call_of(print_gradients, True), {"vector_level": level, "threads": 1})
        assert len(first) == len(TYPES) * len(CASES)
        for threads in (2, 3, 8):
            assert run_program(call_of(print_gradients, False), {"vector_level": level, "threads": threads}) == first


def test_the_same_bits_for_any_number_of_callers(acl: Library) -> None:
    given = [(case, tensors_of(case)) for case in CASES]

    def bits(stream: object = None) -> list[list[bytes]]:
        return [[one.tobytes() for one in gradients(acl, *each, stream=stream)] for each in given]

    def again(_: int) -> list[list[bytes]]:
        acl.call("aclrtSetDevice", 0)
        with acl.stream() as stream:
            return bits(stream)

    alone = bits()
    with ThreadPoolExecutor(4) as callers:
        assert list(callers.map(again, range(4))) == [alone] * 4


@pytest.mark.needs("host memory")
def test_memory(run_program: Callable[..., list[str]]) -> None:
    """A kernel takes what phase 1 says of workspace, and little else."""
    assert run_program(call_of(print_memory), {"threads": 64}) == []


LARGE = (
    convolution((4, 32, 56, 56), (32, 1, 3, 3), 1, 1, 1, 32),
    convolution((4, 256, 14, 14), (256, 1, 7, 7), 1, 3, 1, 256),
    convolution((1, 4, 300_000), (8, 1, 31), 2, 15, 3, 4),
    convolution((1, 2, 40, 80, 80), (2, 1, 5, 5, 5), 1, 2, 1, 2),
    convolution((1, 2, 900, 900), (2, 1, 31, 31), 1, 15, 1, 2),
    convolution((1, 3000, 2, 2), (3000, 1, 2, 2), 1, 1, 1, 3000),
)  # fmt: skip


def print_memory(acl: Library) -> None:
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for case, dtype in product_of(LARGE, TYPES):
        tensors = tensors_of(case, dtype)
        tensor_bytes = sum(each.nbytes for each in tensors) + tensors[1].nbytes + tensors[2].nbytes
        with described(acl, case, tensors) as (arguments, _):
            size, executor = acl.plan("aclnnConvolutionBackward", *arguments)
            workspace = np.full(size, 0xFF, np.uint8)
            before = forget_peak()
            acl.call("aclnnConvolutionBackward", workspace.ctypes.data, size, executor, None)
            acl.call("aclrtSynchronizeStream", None)
            beside = peak_bytes() - before
        if tensor_bytes + size > MAX_OF_TENSORS * tensor_bytes + MAX_BESIDE_BYTES or beside > 2 * MEBIBYTE:
            print(case, dtype, tensor_bytes, size, beside)


@pytest.mark.parametrize("dtype", TYPES)
def test_without_a_batch_the_gradients_are_zeros(acl: Library, dtype: str) -> None:
    for case in (
        convolution((0, 4, 9, 8), (6, 2, 3, 3), 1, 1, 1, 2),
        convolution((0, 4, 5), (4, 3, 2), output_padding=0),
    ):
        found = gradients(acl, case, tensors_of(case, dtype))
        assert [each.shape for each in found] == [case.input, case.weight, case.output[1:2]]
        assert all((each == 0).all() for each in found)
