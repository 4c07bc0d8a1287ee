"""Gradients of functions of each element: values that calls with ordinary ones do not have, and what CANN converts."""

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.parts import samples_of
from tools.abi.acl import Library, Scalar

from .checks.elementwise import ELEMENTWISE
from .table_gradients import call, gradient_of

SAVED = (0.0, -0.0, 1e-45, -1e-30, 0.5, 1.0, 3.0, -3.0, 5.0, -5.0)
"""Infinite gradients times these are the same in float32 as in float64."""
EXTREME = (20.0, -20.0, -87.5, -88.1, 89.0, -104.0, 105.0, 1e20, -1e20, 3e38, -3e38, np.inf, -np.inf, np.nan)
PAIRS = np.array(
    [(grad, saved) for grad in (1.0, -2.5, 0.0, 1e-30, np.inf, np.nan) for saved in SAVED]
    + [(grad, saved) for grad in (1.0, -2.5, np.nan) for saved in EXTREME],
    np.float32,
)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_extreme_values(acl: Library, name: str) -> None:
    grad_output, saved = map(np.ascontiguousarray, PAIRS.T)
    for attributes in {str(each.attributes): each.attributes for each in samples_of(name).cases}.values():
        own = next(each for each in samples_of(name).cases[0].shapes if each != "grad_output")
        arrays = {"grad_output": grad_output, own: saved}
        typed = call(name, **dict.fromkeys(arrays, grad_output.shape), **attributes)
        with np.errstate(over="ignore", invalid="ignore"):
            truth = reference.define(name, arrays, attributes).astype(np.float32)
        np.testing.assert_allclose(gradient_of(acl, typed, **arrays), truth, rtol=4e-6, atol=1e-6)


FLAT = ((2000,), (2000,))
SIGMOIDS = [
    ((4,), (2, 3, 4), "float32 float32 float32"),
    ((2, 1, 4), (3, 1), "float32 float32 float32"),
    ((), (2, 3, 4), "float32 float32 float32"),
    (*FLAT, "float16 float32 float32"),
    (*FLAT, "float32 float16 float16"),
    (*FLAT, "float32 float64 float64"),
    (*FLAT, "complex64 float64 complex128"),
    (*FLAT, "float32 complex64 complex64"),
    (*FLAT, "complex64 complex64 complex64"),
    (*FLAT, "complex128 complex128 complex128"),
]
"""Shapes of the gradient and the output; the types of both, and of the result."""


@pytest.mark.parametrize(("grad_shape", "saved_shape", "types"), SIGMOIDS, ids=str)
def test_sigmoids_broadcast_mix_types_and_are_complex(
    acl: Library, grad_shape: tuple[int, ...], saved_shape: tuple[int, ...], types: str
) -> None:
    def draw(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        values = generator.standard_normal(shape)
        return (values + 1j * generator.standard_normal(shape) if "complex" in dtype else values).astype(dtype)

    generator = np.random.default_rng(1)
    grad_type, saved_type, dtype = types.split()
    grad, saved = draw(grad_shape, grad_type), draw(saved_shape, saved_type)
    made = np.empty(np.broadcast_shapes(grad_shape, saved_shape), dtype)
    with acl.tensor(grad) as grads, acl.tensor(saved) as outputs, acl.tensor(made) as gradient:
        acl.run("aclnnSigmoidBackward", grads.handle, outputs.handle, gradient.handle)
        found = gradient.read_storage()
    wide = saved.astype(np.complex128)
    expected = grad * np.conj((1 - wide) * wide)
    np.testing.assert_allclose(found, expected, rtol=2e-3 if "float16" in types else 1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8"])
def test_integers_above_a_threshold(acl: Library, dtype: str) -> None:
    """They pass as they are, also those that no float32 holds."""
    info = np.iinfo(dtype)
    grad, saved = np.array([info.max, info.min, info.max - 1], dtype), np.array([3, 1, 2], dtype)
    with acl.tensor(grad) as grads, acl.tensor(saved) as inputs, acl.tensor(np.empty_like(grad)) as out:
        with acl.value(Scalar(1.5)) as threshold:
            acl.run("aclnnThresholdBackward", grads.handle, inputs.handle, threshold, out.handle)
        np.testing.assert_array_equal(out.read_storage(), np.array([info.max, 0, info.max - 1], dtype))
