"""Attention and its gradients: values of every layout, mask, bias and view, and what is not finite."""

import numpy as np
import pytest

from tools.abi.acl import Library

from .attention import (
    MASKED,
    Attention,
    Tensors,
    Truth,
    assert_gradients,
    assert_values,
    gradients,
    lanes_of,
    tensors_of,
    values,
)
from .products import FILL, TYPES

torch = pytest.importorskip("torch")

LAYOUTS = ("BNSD", "BSND", "BSH", "SBH")
SIZES = (2, 6, 9, 11, 10, 3, 7)
"""Of six heads that share three, with values of other sizes."""
MASKS = ((2, 6, 9, 11), (2, 1, 9, 11), (1, 1, 9, 11), (9, 11))
BIASES = ((2, 6, 9, 11), (1, 6, 9, 11), (2, 6, 1, 11))


def assert_right(acl: Library, case: Attention, tensors: Tensors, name: object = "") -> None:
    passed = values(acl, case, tensors)
    assert_values(passed, case, tensors, name)
    assert_gradients(gradients(acl, case, tensors, passed), case, tensors, passed, name)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_masks(acl: Library, layout: str, dtype: str) -> None:
    for mask in ((), *MASKS):
        case = Attention(*SIZES, layout, mask, mode=len(mask) // 4)
        assert_right(acl, case, tensors_of(case, dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("pse_type", [0, 1])
@pytest.mark.parametrize("bias", BIASES, ids=str)
def test_biases(acl: Library, bias: tuple[int, ...], pse_type: int, dtype: str) -> None:
    for mask in ((), MASKS[1]):
        case = Attention(*SIZES, "BSND", mask, bias, pse_type=pse_type)
        assert_right(acl, case, tensors_of(case, dtype))


def test_the_first_operators_add_a_bias_before_the_scale(acl: Library) -> None:
    """V1 has no type of pse and V2 has 1 for it."""
    case = Attention(*SIZES, bias=BIASES[0], pse_type=1)
    tensors = tensors_of(case)
    first = Attention(*SIZES)  # calls V1, with the tensor in the bias's place
    passed, expected = values(acl, first, tensors), values(acl, case, tensors)
    for each, other in zip(passed, expected, strict=True):
        np.testing.assert_array_equal(each, other)
    for each, other in zip(gradients(acl, first, tensors, passed), gradients(acl, case, tensors, passed), strict=True):
        np.testing.assert_array_equal(each, other)


@pytest.mark.parametrize("mode", [2, 3])
@pytest.mark.parametrize("sizes", [(9, 11), (11, 9), (9, 9), (1, 5), (5, 1), (150, 200), (160, 40)], ids=str)
def test_causal_masks_give_the_values_of_whole_ones(acl: Library, sizes: tuple[int, int], mode: int) -> None:
    """Rows in front of the first key have none, if the last ones see all."""
    case = Attention(2, 4, *sizes, 9, 2, mode=mode)
    tensors = tensors_of(case)
    assert_right(acl, case, tensors)
    whole = Attention(2, 4, *sizes, 9, 2, mask=sizes)
    masked = Truth(case, tensors).masked(tensors)
    passed, expected = values(acl, case, tensors), values(acl, whole, tensors | {"mask": masked})
    for each, other in zip(passed, expected, strict=True):
        np.testing.assert_array_equal(each, other)
    found = gradients(acl, case, tensors, passed)
    for each, other in zip(found, gradients(acl, whole, tensors | {"mask": masked}, passed), strict=True):
        np.testing.assert_array_equal(each, other)


def test_masks_of_bytes(acl: Library) -> None:
    """Any byte but 0 masks out."""
    case = Attention(*SIZES, mask=(9, 11))
    tensors = tensors_of(case)
    given = tensors | {"mask": tensors["mask"].astype(np.uint8) * np.arange(1, 100, dtype=np.uint8).reshape(9, 11)}
    passed = values(acl, case, tensors)
    for each, other in zip(values(acl, case, given), passed, strict=True):
        np.testing.assert_array_equal(each, other)
    for each, other in zip(gradients(acl, case, given, passed), gradients(acl, case, tensors, passed), strict=True):
        np.testing.assert_array_equal(each, other)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("depth", [1, 2, 7, 8, 15, 16, 17, 33, 64, 80, 257, 512, 768])
def test_sizes_of_heads(acl: Library, depth: int, dtype: str) -> None:
    for value_depth in {depth, max(depth // 2, 1), 1}:
        case = Attention(1, 2, 5, 6, depth, 1, value_depth, mode=2)
        assert_right(acl, case, tensors_of(case, dtype))


def test_pytorch_agrees(acl: Library) -> None:
    """Its masks are inverted; its logsumexp is a largest score whose sum is 1."""
    case = Attention(2, 4, 9, 11, 8, mask=(2, 1, 9, 11))
    tensors = tensors_of(case)
    query, key, value, dy = (torch.from_numpy(tensors[name]).double() for name in ("query", "key", "value", "dy"))
    given = [each.requires_grad_() for each in (query, key, value)]
    allowed = torch.from_numpy(~tensors["mask"])
    expected = torch.nn.functional.scaled_dot_product_attention(*given, attn_mask=allowed)
    expected.backward(dy)
    largest, sums, result = values(acl, case, tensors)
    np.testing.assert_allclose(result, expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    logarithms = lanes_of((largest + np.log(sums))[..., 0])
    found = gradients(acl, case, tensors, (logarithms, np.ones_like(largest), result))
    for each, operand in zip(found, given, strict=True):
        np.testing.assert_allclose(each, operand.grad.numpy(), rtol=1e-4, atol=5e-6)


def views_of(array: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the array by other strides, each a view of a storage that has more."""
    wide = np.full([size + 3 for size in array.shape], FILL, array.dtype)
    sliced = wide[tuple(slice(1, 1 + size) for size in array.shape)]
    steps = np.full([2 * size for size in array.shape], FILL, array.dtype)[(slice(None, None, 2),) * array.ndim]
    axes = tuple(reversed(range(array.ndim)))
    views = {
        "sliced": sliced,
        "steps": steps,
        "transposed": np.empty([array.shape[axis] for axis in axes], array.dtype).transpose(axes),
        "rows transposed": np.empty((*array.shape[1::-1], *array.shape[2:]), array.dtype).swapaxes(0, 1),
    }
    for each in views.values():
        each[...] = array
    return views


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_views(acl: Library, layout: str, dtype: str) -> None:
    """The bits depend neither on where tensors are nor on the strides of what is written."""
    case = Attention(*SIZES, layout, MASKS[0], BIASES[1])
    tensors = tensors_of(case, dtype)
    passed = values(acl, case, tensors)
    assert_values(passed, case, tensors)
    plain = gradients(acl, case, tensors, passed)
    seen = {name: views_of(each) for name, each in tensors.items()}
    names = ("query", "key", "value")
    for view in seen["query"]:
        given = {name: each[view] for name, each in seen.items()}
        output = views_of(np.full(passed[2].shape, FILL, passed[2].dtype))[view]
        storage = output if output.base is None else output.base
        storage[...] = FILL
        for each, other in zip(values(acl, case, given, output), passed, strict=True):
            assert each.tobytes() == other.tobytes(), view
        outputs = tuple(views_of(np.full(tensors[name].shape, FILL, passed[2].dtype))[view] for name in names)
        for each in outputs:
            (each if each.base is None else each.base)[...] = FILL
        statistics = tuple(views_of(each)[view] for each in passed)
        for each, other in zip(gradients(acl, case, given, statistics, outputs), plain, strict=True):
            assert each.tobytes() == other.tobytes(), view


def test_statistics_are_read_as_they_are_given(acl: Library) -> None:
    """In memory that has them once, of a forward pass or of none."""
    case = Attention(*SIZES, mask=(9, 11))
    tensors = tensors_of(case)
    _, _, result = values(acl, case, tensors)
    generator = np.random.default_rng(5)
    # As PyTorch has its logsumexp, heads innermost.
    largest = generator.uniform(-1, 2, (2, 9, 6)).astype(np.float32).swapaxes(1, 2)
    sums = generator.uniform(0.5, 9, (2, 6, 9)).astype(np.float32)
    passed = lanes_of(largest), lanes_of(sums), (result * 3).astype(result.dtype)
    assert_gradients(gradients(acl, case, tensors, passed), case, tensors, passed)


def test_rows_without_a_key(acl: Library) -> None:
    case = Attention(*SIZES, mask=MASKS[0])
    tensors = tensors_of(case)
    tensors["mask"][1, 2:4, 3:6] = True
    largest, sums, result = values(acl, case, tensors)
    assert (largest[1, 2:4, 3:6] == np.float32(MASKED)).all()
    assert (sums[1, 2:4, 3:6] == -np.float32(MASKED)).all()
    assert (result[1, 2:4, 3:6] == 0).all()
    assert_values((largest, sums, result), case, tensors)
    of_query, of_key, of_value = gradients(acl, case, tensors, (largest, sums, result))
    # Shares of such rows are 1 / 3.4e38.
    assert (abs(of_query[1, 2:4, 3:6]) < 1e-36).all()
    # PyTorch has the logsumexp 0 for them.
    pytorch = np.where(largest <= MASKED, 0, largest + np.log(sums)), np.ones_like(sums), result
    for each, other in zip(gradients(acl, case, tensors, pytorch), (of_query, of_key, of_value), strict=True):
        np.testing.assert_allclose(each, other, atol=1e-5)


def test_biases_that_mask_out(acl: Library) -> None:
    """A score of -inf has no share, and a row of nothing else the result 0, as a row that is masked out."""
    case = Attention(*SIZES, bias=BIASES[0])
    tensors = tensors_of(case)
    tensors["bias"][0, 1, :, 4:] = -np.inf
    tensors["bias"][1, 2, 3] = -np.inf
    largest, sums, result = values(acl, case, tensors)
    assert (result[1, 2, 3] == 0).all()
    kept = tensors | {"mask": np.isneginf(tensors["bias"]), "bias": np.nan_to_num(tensors["bias"], neginf=0.0)}
    masked = Attention(*SIZES, mask=MASKS[0], bias=BIASES[0])
    expected = values(acl, masked, kept)
    for each, other in zip((largest, sums, result), expected, strict=True):
        np.testing.assert_array_equal(each, other)
    for each, other in zip(
        gradients(acl, case, tensors, expected), gradients(acl, masked, kept, expected), strict=True
    ):
        np.testing.assert_allclose(each, other, rtol=0, atol=1e-36)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_what_is_not_finite_is_seen(acl: Library, name: str, value: float) -> None:
    """A NaN does not turn into a row without a key, and stays in its head."""
    case = Attention(*SIZES)
    tensors = tensors_of(case)
    tensors[name][1, 1, 3, 2] = value
    largest, sums, result = values(acl, case, tensors)
    heads = slice(1, 2) if name == "query" else slice(2, 4)
    touched = np.zeros(result.shape, bool)
    if name == "query":
        touched[1, heads, 3] = True
    elif name == "key":
        # An infinite score that is below all others has no share.
        touched[1, heads] = True if np.isnan(value) else (tensors["query"][1, heads, :, 2:3] > 0)
    else:
        touched[1, heads, :, 2] = True
    np.testing.assert_array_equal(~np.isfinite(result), touched)
    of_key = 0 if name == "query" else 1
    found = gradients(acl, case, tensors, (largest, sums, result))
    for each, head in zip(found, (heads, of_key, of_key), strict=True):
        others = np.ones(each.shape, bool)
        others[1, head] = False
        assert np.isfinite(each[others]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0])
@pytest.mark.parametrize("place", [0, 1])
def test_statistics_that_are_not_finite_stay_in_their_rows_and_keys(acl: Library, place: int, value: float) -> None:
    case = Attention(2, 4, 300, 400, 8, mode=2)
    tensors = tensors_of(case)
    passed = [each.copy() for each in values(acl, case, tensors)]
    passed[place][1, 2, 200] = value
    of_query, of_key, of_value = gradients(acl, case, tensors, tuple(passed))
    others = np.ones(of_query.shape, bool)
    others[1, 2, 200] = False
    assert np.isfinite(of_query[others]).all()
    for each in (of_key, of_value):
        others = np.ones(each.shape, bool)
        others[1, 2] = False
        assert np.isfinite(each[others]).all()
