"""aclnnAdaptiveAvgPool2dBackward against its definition."""

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tools.abi.acl import Library

NAME = "aclnnAdaptiveAvgPool2dBackward"
# Relative and absolute: half a step of each type, subnormals included, and some for the float32 sums.
TOLERANCE = {
    np.float32: (2.0**-21, 1e-38),
    np.float16: (2.0**-10, 2.0**-24),
    ml_dtypes.bfloat16: (2.0**-7, 1e-38),
}

SHAPES = [
    # gradOutput, self
    ((2, 3, 2, 2), (2, 3, 6, 8)),
    ((1, 1, 1, 1), (1, 1, 1, 1)),
    ((2, 2, 1, 1), (2, 2, 7, 5)),
    ((1, 2, 3, 5), (1, 2, 7, 11)),
    ((1, 2, 7, 7), (1, 2, 7, 7)),
    ((1, 2, 4, 3), (1, 2, 5, 4)),
    ((1, 2, 9, 8), (1, 2, 5, 3)),
    ((1, 1, 13, 1), (1, 1, 2, 9)),
    ((2, 1, 11), (2, 6, 5)),
    ((3, 4, 4), (3, 10, 10)),
    ((1, 300, 2), (1, 7, 300)),
    ((4, 16, 7, 7), (4, 16, 112, 96)),
    ((1, 1, 100, 90), (1, 1, 1000, 999)),
]


def reference(grad_output: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The definition in float64, and the same with absolute values, which is the scale of rounding errors."""
    grad = grad_output.astype(np.float64)
    out_height, out_width = grad.shape[-2:]
    result = np.zeros((*grad.shape[:-2], height, width))
    scale = np.zeros_like(result)
    for i in range(out_height):
        h0, h1 = i * height // out_height, -(-(i + 1) * height // out_height)
        for j in range(out_width):
            w0, w1 = j * width // out_width, -(-(j + 1) * width // out_width)
            share = grad[..., i, j, None, None] / ((h1 - h0) * (w1 - w0))
            result[..., h0:h1, w0:w1] += share
            scale[..., h0:h1, w0:w1] += abs(share)
    return result, scale


def random(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32).astype(dtype)


def check(result: np.ndarray, grad_output: np.ndarray, dtype: type) -> None:
    expected, scale = reference(grad_output, *result.shape[-2:])
    relative, absolute = TOLERANCE[dtype]
    error = abs(result.astype(np.float64) - expected)
    assert (error <= relative * scale + absolute).all(), error.max()


def gradient(acl: Library, grad_output: np.ndarray, shape: tuple[int, ...], stream: object = None) -> np.ndarray:
    poison = np.full(shape, np.nan, grad_output.dtype)
    with acl.tensor(grad_output) as grad, acl.tensor(poison) as self, acl.tensor(poison) as out:
        acl.run(NAME, grad.handle, self.handle, out.handle, stream=stream)
        return out.read_storage()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("grad_shape", "shape"), SHAPES)
def test_values(acl: Library, grad_shape: tuple[int, ...], shape: tuple[int, ...], dtype: type) -> None:
    grad_output = random(grad_shape, dtype)
    check(gradient(acl, grad_output, shape), grad_output, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_non_finite_values_pass_through(acl: Library, dtype: type) -> None:
    grad_output = np.array([[[np.inf, -np.inf], [np.nan, 0]]], dtype)
    result = gradient(acl, grad_output, (1, 2, 4)).astype(np.float32)
    np.testing.assert_array_equal(result[0], [[np.inf, np.inf, -np.inf, -np.inf], [np.nan, np.nan, 0, 0]])


VIEWS = {
    "transposed": lambda a: a.transpose(0, 1, 3, 2),
    "batches and channels swapped": lambda a: a.transpose(1, 0, 2, 3),
    "every second column": lambda a: a[..., ::2],
    "inner part": lambda a: a[:, 1:, 2:, 1:-1],
    "contiguous after an offset": lambda a: a[1:],
    "reversed": lambda a: a[:, :, ::-1, ::-1],
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", VIEWS)
def test_strided_input_and_output(acl: Library, name: str, dtype: type) -> None:
    view = VIEWS[name]
    grad_storage = random((2, 3, 6, 8), dtype)
    out_storage = np.full((2, 3, 14, 17), 7, dtype)
    grad_output, out_view = view(grad_storage), view(out_storage)
    with (
        acl.tensor(grad_storage, grad_output) as grad,
        acl.tensor(out_storage, out_view) as self,
        acl.tensor(out_storage, out_view) as out,
    ):
        acl.run(NAME, grad.handle, self.handle, out.handle)
        result = out.read_storage()
    check(view(result), grad_output, dtype)
    view(result)[...] = 7
    assert (result == out_storage).all()  # nothing outside of the view was written


def test_an_expanded_input(acl: Library) -> None:
    storage = random((2, 2), np.float32)
    grad_output = np.broadcast_to(storage, (3, 4, 2, 2))
    shape = (3, 4, 5, 5)
    poison = np.full(shape, np.nan, np.float32)
    with acl.tensor(storage, grad_output) as grad, acl.tensor(poison) as self, acl.tensor(poison) as out:
        acl.run(NAME, grad.handle, self.handle, out.handle)
        check(out.read_storage(), grad_output, np.float32)


def test_addresses_may_be_any(acl: Library) -> None:
    grad_output = random((1, 2, 2, 2), np.float32)
    shape = (1, 2, 5, 5)
    with acl.buffer(256) as grad_memory, acl.buffer(512) as out_memory:
        acl.upload(grad_memory + 3, grad_output)
        with (
            acl.describe(grad_output.shape, address=grad_memory + 3) as grad,
            acl.describe(shape) as self,
            acl.describe(shape, address=out_memory + 1) as out,
        ):
            acl.run(NAME, grad, self, out)
        check(acl.download(out_memory + 1, np.empty(shape, np.float32)), grad_output, np.float32)


@pytest.mark.parametrize(
    ("grad_shape", "shape"),
    [((1, 1, 0, 16), (1, 1, 32, 16)), ((0, 3, 2, 2), (0, 3, 4, 4)), ((2, 2, 2), (2, 0, 4)), ((0, 2, 2), (0, 4, 4))],
)
def test_empty_tensors_leave_the_output_untouched(
    acl: Library, grad_shape: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    before = np.full(shape, 7, np.float32)
    with (
        acl.tensor(np.zeros(grad_shape, np.float32)) as grad,
        acl.tensor(before) as self,
        acl.tensor(before) as out,
    ):
        size, executor = acl.plan(NAME, grad.handle, self.handle, out.handle)
        assert size == 0
        acl.call(NAME, None, 0, executor, None)
        acl.call("aclrtSynchronizeStream", None)
        assert (out.read_storage() == before).all()


def test_two_streams_at_once(acl: Library) -> None:
    grads = [random((8, 16, size, size), np.float32) for size in (7, 9)]
    shape = (8, 16, 64, 60)
    alone = [gradient(acl, grad, shape) for grad in grads]
    blank = np.zeros(shape, np.float32)
    with (
        acl.stream() as first,
        acl.stream() as second,
        acl.tensor(grads[0]) as grad0,
        acl.tensor(grads[1]) as grad1,
        acl.tensor(blank) as out0,
        acl.tensor(blank) as out1,
    ):
        for _ in range(20):
            for grad, out, stream in ((grad0, out0, first), (grad1, out1, second)):
                size, executor = acl.plan(NAME, grad.handle, out.handle, out.handle)
                acl.call(NAME, None, size, executor, stream)
        acl.call("aclrtSynchronizeDevice")
        for out, expected in zip((out0, out1), alone, strict=True):
            np.testing.assert_array_equal(out.read_storage(), expected)


def test_the_result_does_not_depend_on_the_number_of_threads(
    run_program: Callable[..., list[str]], tmp_path: Path
) -> None:
    program = (
        "import hashlib\n"
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "grad = np.random.default_rng(1).standard_normal((5, 3, 17, 13), np.float32)\n"
        "out = np.zeros((5, 3, 100, 90), np.float32)\n"
        "with acl.tensor(grad) as g, acl.tensor(out) as o:\n"
        f"    acl.run('{NAME}', g.handle, o.handle, o.handle)\n"
        "    print(hashlib.sha256(o.read_storage().tobytes()).hexdigest())\n"
    )
    digests = set()
    for threads in (1, 2, 3, 8):
        config = tmp_path / f"{threads}.json"
        config.write_text(f'{{"host": {{"threads": {threads}}}}}')
        digests.update(run_program(program, ACL_HOST_CONFIG=str(config)))
    assert len(digests) == 1
