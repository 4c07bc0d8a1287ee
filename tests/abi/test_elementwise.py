"""Gradients of functions of each element: values that calls with ordinary ones do not have, and what CANN converts."""

from contextlib import ExitStack
from itertools import product

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.parts import samples_of
from tools.abi.acl import Format, Library, Scalar

from .checks.elementwise import ELEMENTWISE
from .products import storage_of
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
        shapes = {each: (0,) for each in samples_of(name).cases[0].shapes}
        own = next(each for each in shapes if each != "grad_output")
        typed = call(name, **shapes | dict.fromkeys(("grad_output", own), grad_output.shape), **attributes)
        assert_values(acl, typed, typed.arrays() | {"grad_output": grad_output, own: saved})


def assert_values(acl: Library, typed: TypedCase, arrays: dict[str, np.ndarray]) -> None:
    """Compares with the definition in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        truth = reference.define(typed.spec.name, arrays, typed.case.attributes).astype(np.float32)
    np.testing.assert_allclose(gradient_of(acl, typed, **arrays), truth, rtol=4e-6, atol=1e-6)


LOSSES: dict[str, dict[str, tuple[float, ...]]] = {
    "binary_cross_entropy_backward": {
        "self": (0.0, 1e-45, 1e-30, 1e-13, 0.25, 1.0, np.nan),
        "target": (0.0, 0.25, 1.0, np.nan),
        "weight": (0.0, 2.0, np.inf),
    },
    "binary_cross_entropy_with_logits_backward": {
        "self": (0.0, 1e-45, 1.0, *EXTREME),
        "target": (0.0, 0.25, 1.0, np.nan),
        "weight": (0.0, 2.0),
        "pos_weight": (0.0, 3.0, np.nan),
    },
    "kl_div_backward": {
        "self": (0.0, np.nan),
        "target": (1e-45, -1.0, *(each for each in EXTREME if not 88.7 < each < np.inf)),
    },
    "l1_loss_backward": {"self": (0.0, 1e-45, 3e38, np.inf), "target": (0.0, -0.0, 1e-45, -3e38, -np.inf)},
    "mse_loss_backward": {"self": (0.0, 1e-45, 1e38, np.inf, np.nan), "target": (0.0, 1e-45, 1e38, -np.inf)},
    "smooth_l1_loss_backward": {
        "self": (0.0, 1e-45, 1.0, 3e38, np.inf, np.nan),
        "target": (0.0, -0.0, 0.125, 2.0, 1e-45, -3e38, -np.inf),
    },
}
"""Values of inputs, of which each is combined with each."""


@pytest.mark.parametrize("name", LOSSES)
def test_extreme_values_of_losses(acl: Library, name: str) -> None:
    grad = (1.0, -2.5, 0.0, 1e-30, np.nan)
    rows = np.array(list(product(grad, *LOSSES[name].values())), np.float32)
    arrays = dict(zip(("grad_output", *LOSSES[name]), map(np.ascontiguousarray, rows.T), strict=True))
    for attributes in {str(each.attributes): each.attributes for each in samples_of(name).cases}.values():
        assert_values(acl, call(name, **{each: (len(rows),) for each in arrays}, **attributes), arrays)


def test_no_absolute_error_of_what_is_not_a_number(acl: Library) -> None:
    """As PyTorch: the sign of NaN is 0."""
    typed = call("l1_loss_backward", grad_output=(2,), self=(2,), target=(2,), reduction=0)
    found = gradient_of(acl, typed, self=np.float32([np.nan, 1]), target=np.float32([1, np.nan]))
    np.testing.assert_array_equal(found, [0, 0])


def view_of(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Returns a view that is broadcast to the shape: transposed, reversed, of every second column, or repeated."""
    fitting = tuple(size if generator.integers(0, 3) else 1 for size in shape[generator.integers(0, len(shape) + 1) :])
    drawn = generator.uniform(0.1, 0.9, fitting[::-1]).astype(dtype).T
    if not fitting:
        return drawn
    kind = generator.integers(0, 4)
    if kind == 0:
        return drawn[::-1]
    if kind == 1:
        return np.repeat(drawn, 2, -1)[..., ::2]
    if kind == 2:
        return np.broadcast_to(drawn[:1], fitting)
    return drawn


@pytest.mark.parametrize("is_mixed", [False, True])
@pytest.mark.parametrize("shape", [(41,), (3, 1100), (5, 7, 3), (2, 3, 250, 60), (70001, 2)], ids=str)
def test_views_of_any_strides_are_broadcast(acl: Library, shape: tuple[int, ...], is_mixed: bool) -> None:
    """Five inputs, of which each lies in its own way beside the result."""
    generator = np.random.default_rng(len(shape))
    dtypes = ("float32", "float16") if is_mixed else ("float32",)
    for _ in range(8):
        kinds = [np.dtype(dtypes[generator.integers(0, len(dtypes))]) for _ in range(5)]
        grad, weight, positive = (view_of(generator, shape, kinds[each]) for each in (0, 3, 4))
        x, target = (generator.standard_normal(shape).astype(kinds[each]).T.copy().T for each in (1, 2))
        made = np.empty(shape, kinds[2])
        with ExitStack() as stack:
            tensors = [
                stack.enter_context(acl.tensor(storage_of(each), each, Format.ND))
                for each in (grad, x, target, weight, positive, made)
            ]
            handles = [each.handle for each in tensors]
            acl.run("aclnnBinaryCrossEntropyWithLogitsBackward", *handles[:-1], 2, handles[-1])
            found = tensors[-1].read_storage()
        truth = reference.define(
            "binary_cross_entropy_with_logits_backward",
            {"grad_output": grad, "self": x, "target": target, "weight": weight, "pos_weight": positive},
            {"reduction": 2},
        )
        np.testing.assert_allclose(found, truth, rtol=1e-3 if is_mixed else 4e-6, atol=2e-3 if is_mixed else 1e-6)


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
