"""The kernels of convolutions around the sizes of their blocks: values, bits and workspaces for any threads."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.long_shapes import MAX_BESIDE_BYTES, MAX_OF_TENSORS
from tools.abi.acl import Library

from .convolutions import FORMATS, Convolution, assert_gradients, convolution, gradients, tensors_of
from .kernel_memory import MEBIBYTE
from .programs_in_forks import call_of

# Channels of a tile, a panel and a sum, and positions of a tile, a block and a sum, each with one less and one more.
CHANNELS = tuple(
    convolution((2, big, 6, 5), (small, big, *kernel), 1, kernel[0] // 2)
    for big, small in (
        (11, 31), (12, 32), (13, 33), (97, 95), (28, 96), (29, 97), (255, 7), (256, 8), (257, 9), (7, 257), (513, 70),
    )
    for kernel in ((1, 1), (3, 3))
)  # fmt: skip
POSITIONS = tuple(
    convolution((images, 5, length), (6, 5, 3), 1, 1)
    for images, length in (
        (1, 31), (1, 32), (1, 33), (1, 255), (1, 256), (1, 257), (1, 287), (1, 288), (1, 289), (2, 256), (3, 171),
        (32, 16), (511, 1), (9, 57), (1, 577), (2, 1100), (70, 7),
    )
)  # fmt: skip
GEOMETRIES = (
    # Phases of a step, with one tap, some or none; taps that fall into some phases only.
    convolution((2, 14, 25, 23), (13, 14, 3, 3), 3, 1),
    convolution((2, 14, 25, 23), (13, 14, 3, 3), 2, 2, 2),
    convolution((2, 14, 25, 23), (13, 14, 2, 4), (4, 3), 1, (3, 2)),
    convolution((2, 14, 25, 24), (13, 14, 1, 1), 2),
    convolution((2, 14, 25, 24), (13, 14, 5, 4), (3, 2), (2, 3)),
    convolution((3, 14, 25, 24), (13, 14, 2, 2), (7, 5)),
    convolution((2, 14, 12, 11), (14, 13, 4, 4), 2, 1, 1, 1, output_padding=(0, 1)),
    convolution((2, 4, 9, 10, 11), (34, 4, 3, 2, 3), (1, 2, 3), (1, 0, 2), (2, 1, 1)),
    convolution((2, 12, 7, 8, 9), (18, 6, 2, 3, 3), (2, 1, 2), 1, (1, 2, 1), 2),
    # Groups of few channels, and kernels as large as a picture.
    convolution((2, 64, 15, 14), (64, 4, 3, 3), 1, 1, 1, 16),
    convolution((2, 48, 15, 14), (72, 2, 3, 3), 2, 1, 1, 24),
    convolution((2, 3, 40, 33), (17, 3, 31, 29), 1, 7),
    convolution((2, 3, 64, 64), (20, 3, 16, 16), 16),
    # One position, or few, of many taps, most of which read nothing for most results.
    convolution((3, 14, 5, 6), (13, 14, 5, 6)),
    convolution((2, 3, 4, 41, 43), (5, 3, 4, 41, 43), 1, 0),
    convolution((2, 2, 2003), (3, 2, 2000)),
    convolution((2, 2, 3), (3, 2, 2000), 1, 2100),
    # Many positions, and so parts of the sums of weights.
    convolution((2, 3, 130, 140), (33, 3, 3, 3), 1, 1),
    convolution((1, 2, 70_000), (3, 2, 5), 1, 2),
    convolution((1, 34, 300_000), (2, 34, 1)),
)  # fmt: skip
CASES = (*CHANNELS, *POSITIONS, *GEOMETRIES)


def print_gradients(acl: Library, is_compared: bool) -> None:
    """Prints the bits of many gradients; they are also compared with their definition if that is asked for."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for number, case in enumerate(CASES):
        dtype = ("float32", "float16", "float32", "bfloat16")[number % 4]
        tensors = tensors_of(case, dtype, number)
        if number % 3 == 0:  # channels last
            tensors = tuple(np.moveaxis(np.moveaxis(each, 1, -1).copy(), -1, 1) for each in tensors)
        found = gradients(acl, case, tensors, (True, True, False))
        print(number, *(hashlib.sha256(each.tobytes()).hexdigest() for each in found[:2]))
        if is_compared:
            assert_gradients(found, case, tensors, number)


@pytest.mark.timeout(600)
def test_every_vector_level_and_the_same_bits_with_any_number_of_threads(
    run_program: Callable[..., list[str]], vector_levels: list[str]
) -> None:
    for level in vector_levels:
        first = run_program(call_of(print_gradients, True), {"vector_level": level, "threads": 1})
        assert len(first) == len(CASES)
        for threads in (2, 3, 8):
            assert run_program(call_of(print_gradients, False), {"vector_level": level, "threads": threads}) == first


def test_the_same_bits_for_any_number_of_callers(acl: Library) -> None:
    given = [(case, tensors_of(case)) for case in (*CHANNELS[-4:], *POSITIONS[-4:], *GEOMETRIES[:8])]

    def bits(stream: object = None) -> list[bytes]:
        return [each.tobytes() for case in given for each in gradients(acl, *case, stream=stream)]

    def again(_: int) -> list[bytes]:
        acl.call("aclrtSetDevice", 0)
        with acl.stream() as stream:
            return bits(stream)

    alone = bits()
    with ThreadPoolExecutor(4) as callers:
        assert list(callers.map(again, range(4))) == [alone] * 4


def test_what_is_not_finite_stays_where_its_taps_lead(acl: Library) -> None:
    """Padding, and what lies beside a row or behind an image, must not multiply an infinity by 0."""
    case = convolution((2, 5, 9, 7), (6, 5, 3, 3), 1, 1)
    grad_output, input_, weight = tensors_of(case)
    grad_output[0, 1, 4, 6] = np.inf
    input_[1, 2, 8, 0] = np.nan
    of_input, of_weight, _ = gradients(acl, case, (grad_output, input_, weight))
    touched = np.zeros(case.input, bool)
    touched[0, :, 3:6, 5:] = True
    np.testing.assert_array_equal(~np.isfinite(of_input), touched)
    # The last row's first position is touched by all but the taps of the kernel's last row and first column.
    touched = np.zeros(case.weight, bool)
    touched[:, 2, 1:, :2] = True
    touched[1] = True  # by an infinity times something
    assert not (~np.isfinite(of_weight) & ~touched).any()
    assert np.isnan(of_weight[:, 2, 1:, :2]).all()


# Shapes whose panels, sums or phases would be large if these grew with them.
ABSURD = (
    convolution((1, 4096, 3, 3), (4096, 4096, 3, 3), 1, 1),
    convolution((1, 8, 4096, 4096), (8, 8, 3, 3), 1, 1),
    convolution((1, 512, 40, 40), (512, 512, 31, 31), 1, 15),
    convolution((1, 16, 1_000_000), (16, 16, 9), 1, 4),
    convolution((1, 4, 1_000_000), (4, 4, 1000), 1, 0, 700),
    convolution((1, 2, 200, 200, 200), (2, 2, 200, 200, 200), 200),
    convolution((100_000, 8, 2, 2), (8, 8, 2, 2)),
    convolution((1, 100_000, 2, 2), (100_000, 2, 2, 2), 1, 1, 1, 50_000),
    convolution((1, 2, 5_000_000), (2, 2, 3), 2_000_000),
    convolution((1, 64, 2048, 2048), (64, 1, 3, 3), 1, 1, 1, 64),
    convolution((1, 2, 5_000_000), (2, 1, 9), 1, 4, 1, 2),
    convolution((1, 100_000, 7, 7), (100_000, 1, 7, 7), 1, 3, 1, 100_000),
    convolution((1, 4, 1000, 1000), (4, 1, 500, 500), 1, 0, 1, 4),
)


def _workspace(acl: Library, case: Convolution, mask: tuple[bool, ...]) -> int:
    """Returns what phase 1 asks for, of tensors without memory."""
    shapes = (case.output, case.input, case.weight)
    kind = FORMATS[len(case.input)]
    with (
        acl.describe(shapes[0], format_=kind, address=64) as grad_output,
        acl.describe(shapes[1], format_=kind, address=64) as input_,
        acl.describe(shapes[2], format_=kind, address=64) as weight,
        acl.int_array((case.output[1],)) as bias, acl.int_array(case.stride) as stride,
        acl.int_array(case.padding) as padding, acl.int_array(case.dilation) as dilation,
        acl.int_array(case.more) as more, acl.bool_array(mask) as wanted,
    ):  # fmt: skip
        size, executor = acl.plan(
            "aclnnConvolutionBackward", grad_output, input_, weight, bias, stride, padding, dilation, case.transposed,
            more, case.groups, wanted, 0, input_ if mask[0] else None, weight if mask[1] else None, None,
        )  # fmt: skip
        acl.call("aclDestroyAclOpExecutor", executor)
        return size


def print_workspaces(acl: Library) -> None:
    """Prints the cases whose workspace is more than a call may take beside its tensors, and the largest of all."""
    largest = 0
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for case in (*ABSURD, *CASES):
        shapes = (case.output, case.input, case.weight)
        tensor_bytes = 4 * sum(int(np.prod(shape, dtype=np.float64)) for shape in shapes)
        for mask in ((True, False, False), (False, True, False)):
            size = _workspace(acl, case, mask)
            largest = max(largest, size)
            if size > (MAX_OF_TENSORS - 1) * tensor_bytes + MAX_BESIDE_BYTES:
                print(case, mask, size, tensor_bytes)
    print(largest)


@pytest.mark.parametrize("threads", [1, 64])
def test_workspaces_do_not_grow_with_shapes_and_threads(run_program: Callable[..., list[str]], threads: int) -> None:
    *too_large, largest = run_program(call_of(print_workspaces), {"threads": threads})
    assert too_large == []
    assert int(largest) <= threads * 16 * MEBIBYTE
