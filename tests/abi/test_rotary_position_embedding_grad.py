"""aclnnRotaryPositionEmbeddingGrad: every way of sharing cosines, long sums, missing x, and special values."""

from itertools import product

import numpy as np
import pytest

from aclgrad.operators.cases import TypedCase, arrays_of
from aclgrad.operators.parts import samples_of
from tests.call_file import PRODUCT
from tools.abi.acl import Library

from .table_gradients import call, device_arrays, gradient_of, masked_gradients_of

torch = pytest.importorskip("torch")

NAME = "rotary_position_embedding_grad"
ROUNDING = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}


def rotary(dy: tuple[int, ...], cos: tuple[int, ...], mode: int, dtype: str = "float32") -> TypedCase:
    return call(NAME, dtype, dy=dy, cos=cos, sin=cos, x=dy, mode=mode)


def truths_of(typed: TypedCase, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Returns PyTorch's gradients of the parts, in float64."""
    wide = {name: torch.from_numpy(each.astype(np.float64)) for name, each in arrays.items()}
    return [each.numpy() for each in samples_of(NAME).pytorch(wide, typed.attributes)]


def assert_right(acl: Library, typed: TypedCase) -> None:
    """Sums may be wrong by 2^-17 of their terms."""
    arrays = typed.arrays()
    truths, found = truths_of(typed, arrays), arrays_of(gradient_of(acl, typed, **arrays))
    rounding = ROUNDING[typed.dtype]
    terms = np.abs(arrays["dy"].astype(np.float64)).max() * max(
        np.abs(arrays[name].astype(np.float64)).max() for name in ("x", "cos", "sin")
    )
    for place, (each, truth) in enumerate(zip(found, truths, strict=True)):
        sharing = arrays["dy"].size // truth.size if place else 2
        limit = rounding * np.abs(truth) + 2.0**-22 * terms * np.sqrt(sharing) * 4 + 6e-8
        assert (np.abs(each.astype(np.float64) - truth) <= limit).all(), (str(typed), place)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("mode", [0, 1])
def test_every_way_of_sharing(acl: Library, mode: int, dtype: str) -> None:
    """Those that A2 refuses are refused here, too, unless the product is a 950."""
    spec = call(NAME, dy=(1,) * 4, cos=(1,) * 4, sin=(1,) * 4, x=(1,) * 4, mode=0).spec
    for shape in ((3, 4, 5, 6), (2, 7, 9, 34)):
        for own in product((False, True), repeat=3):
            cos = (*(size if each else 1 for size, each in zip(shape, own, strict=False)), shape[3])
            typed = rotary(shape, cos, mode, dtype)
            if not list(spec.check(typed.arguments, PRODUCT)):
                assert_right(acl, typed)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize(
    ("dy", "cos"),
    [
        ((9, 100, 3, 30), (1, 1, 3, 30)),  # 900 rows share one: four parts
        ((9, 3, 100, 30), (1, 3, 1, 30)),
        ((3, 9, 100, 66), (3, 1, 1, 66)),
        ((2, 3, 300, 40), (1, 1, 300, 40)),  # blocks of positions, the last of which is shorter
        ((2, 300, 3, 40), (1, 300, 1, 40)),
        ((2, 2, 5, 896), (1, 1, 5, 896)),
    ],
    ids=str,
)
def test_parts_and_blocks(acl: Library, dy: tuple[int, ...], cos: tuple[int, ...], mode: int, dtype: str) -> None:
    assert_right(acl, rotary(dy, cos, mode, dtype))


@pytest.mark.parametrize("mode", [0, 1])
def test_without_x_only_dx_is_written(acl: Library, mode: int) -> None:
    typed = rotary((2, 3, 5, 10), (1, 1, 5, 10), mode)
    whole, _, _ = gradient_of(acl, typed)
    alone, *others = masked_gradients_of(acl, typed, {"xOptional": None})
    np.testing.assert_array_equal(alone, whole)
    unwritten = device_arrays(typed)
    for name, each in zip(("dcosOut", "dsinOut"), others, strict=True):
        np.testing.assert_array_equal(each, unwritten[name])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["dy", "cos", "sin", "x"])
@pytest.mark.parametrize("mode", [0, 1])
def test_what_is_not_finite_stays_in_its_pair(acl: Library, mode: int, name: str, value: float) -> None:
    typed = rotary((2, 3, 5, 38), (1, 1, 5, 38), mode)
    arrays = typed.arrays()
    arrays[name][0, 0, 2, 5] = value
    with np.errstate(all="ignore"):
        truths = truths_of(typed, arrays)
    for found, truth in zip(arrays_of(gradient_of(acl, typed, **arrays)), truths, strict=True):
        np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-5)
