"""aclnnPreluBackward: the sums of its weights, for every form of channels, and special values."""

import numpy as np
import pytest

from tools.abi.acl import Library

from .table_gradients import call, gradient_of

torch = pytest.importorskip("torch")

NAME = "prelu_backward"


def gradients(acl: Library, dtype: str, **arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    typed = call(NAME, dtype, **{name: array.shape for name, array in arrays.items()})
    kind = typed.arrays()["self"].dtype
    return gradient_of(acl, typed, **{name: array.astype(kind) for name, array in arrays.items()})


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "shape",
    [
        (3, 700, 5),  # rows of channels, in blocks
        (30_001, 3, 2),  # rows of several samples, the last of which is shorter
        (70_000, 1, 1),
        (600, 600),
        (2, 20_000, 3),  # more columns than have sums of their own
        (1, 70_000),
        (9, 5, 63),
        (9, 5, 64),  # runs of channels
        (2, 3, 100, 90),  # of several parts
    ],
    ids=str,
)
def test_sums_of_channels(acl: Library, shape: tuple[int, ...], dtype: str) -> None:
    generator = np.random.default_rng(5)
    given = {"grad_output": generator.standard_normal(shape), "self": generator.standard_normal(shape)}
    typed = call(NAME, dtype, grad_output=shape, self=shape, weight=shape[1:2])
    kind = typed.arrays()["self"].dtype
    rounded = {name: array.astype(kind) for name, array in given.items()}
    rounded["weight"] = generator.standard_normal(shape[1]).astype(kind)
    of_input, of_weight = gradient_of(acl, typed, **rounded)
    grad, input, weight = (torch.from_numpy(rounded[each].astype(np.float64)) for each in rounded)
    input.requires_grad_()
    weight.requires_grad_()
    torch.nn.functional.prelu(input, weight).backward(grad)
    rounding = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    np.testing.assert_allclose(of_input.astype(np.float64), input.grad.numpy(), rtol=rounding, atol=6e-8)
    magnitude = np.abs(rounded["grad_output"].astype(np.float64) * input.detach().numpy())
    scale = magnitude.sum(axis=tuple(axis for axis in range(len(shape)) if axis != 1))
    error = np.abs(of_weight.astype(np.float64) - weight.grad.numpy())
    assert (error <= rounding * np.abs(weight.grad.numpy()) + 2e-5 * scale + 6e-8).all()


def test_what_is_not_finite_stays_in_its_channel(acl: Library) -> None:
    """NaN is not positive."""
    for value in (np.nan, np.inf, -np.inf):
        for cells in (1, 100):
            input = np.full((4, 3, cells), 1.0)
            input[2, 1, 0] = value
            of_input, of_weight = gradients(
                acl, "float32", grad_output=np.ones(input.shape), self=input, weight=np.array([2.0, 3, 4])
            )
            np.testing.assert_array_equal(of_input, np.where(input > 0, 1, 3))
            np.testing.assert_array_equal(of_weight, [0, 0 if value > 0 else value, 0])


def test_zeros_have_the_slope_of_the_weight(acl: Library) -> None:
    input = np.array([[0.0, -0.0, 1e-45]])
    grad = np.array([[1.0, 2, 3]])
    of_input, of_weight = gradients(acl, "float32", grad_output=grad, self=input, weight=np.array([0.5]))
    np.testing.assert_array_equal(of_input, [[0.5, 1, 3]])
    assert of_weight == 0
