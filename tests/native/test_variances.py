"""Native code refuses what is no reciprocal of a standard deviation, and computes the variances that a device reads."""

import numpy as np
import pytest

from aclgrad_native import InvalidValueError, VarianceCheck

EPS = float(np.float32(1e-5))
LARGEST = np.finfo(np.float32).max


def reciprocals(*values: float) -> bytes:
    return np.array(values, np.float32).tobytes()


def convert(values: bytes | memoryview, eps: float = EPS) -> np.ndarray:
    """Returns what a device reads in the place of the values."""
    converted = VarianceCheck(eps, 1e-4, is_converted=True).apply(values)
    assert converted is not None
    return np.frombuffer(converted, np.float32)


@pytest.mark.parametrize("eps", [EPS, 1e-3, 1.0, float(np.float32(1e-12))])
def test_a_variance_is_found_again(eps: float) -> None:
    """As nearly as the reciprocal in float32 tells it: its rounding changes var + eps by two parts in 2^24."""
    variances = np.concatenate([[0.0], np.logspace(-12, 38, 500)])
    found = convert((1 / np.sqrt(variances + eps)).astype(np.float32).tobytes(), eps)
    assert np.all(np.abs(found.astype(np.float64) - variances) <= 3 * 2.0**-24 * (variances + eps))
    assert found.min() >= 0


def test_it_is_rounded_once_from_double() -> None:
    values = np.random.default_rng(5).uniform(0.01, 300, 1000).astype(np.float32)
    expected = np.maximum(1 / values.astype(np.float64) ** 2 - EPS, 0).astype(np.float32)
    assert convert(values.tobytes()).tobytes() == expected.tobytes()


def test_special_values() -> None:
    """Rounding may exceed the bound a little; 0 is the reciprocal for an infinite variance; no channels are legal."""
    bound = 1 / np.sqrt(EPS)
    found = convert(memoryview(b"x" + reciprocals(bound, bound * (1 + 9e-5), 0.0, -0.0, np.nan))[1:])
    np.testing.assert_array_equal(found, [0, 0, np.inf, np.inf, np.nan])
    assert convert(b"").size == 0


@pytest.mark.parametrize("eps", [EPS, float(np.float32(1e-12)), float(np.finfo(np.float32).tiny), 1.0])
def test_infinity_stays_infinite(eps: float) -> None:
    """Devices compute 1 / sqrt(variance + eps) in float32."""
    (variance,) = convert(reciprocals(np.inf), eps)
    assert variance + np.float32(eps) == 0
    # The device may read the values themselves.
    assert VarianceCheck(eps, 1e-4, is_converted=False).apply(reciprocals(1.0, 0.0, np.nan, np.inf)) is None


@pytest.mark.parametrize("is_converted", [True, False])
@pytest.mark.parametrize("value", [-0.5, -np.inf, -1e-30, 1.0002 / np.sqrt(EPS), 1e30, LARGEST])
def test_a_value_that_this_eps_cannot_give_is_refused(value: float, is_converted: bool) -> None:
    with pytest.raises(InvalidValueError, match=r"at position 2, outside \[.*, 316.228\], .* for an eps of 1e-05"):
        VarianceCheck(EPS, 1e-4, is_converted).apply(reciprocals(1.0, np.nan, value, -7.0))


def test_a_variance_that_float32_does_not_hold_is_refused() -> None:
    least = np.nextafter(np.float32(1 / np.sqrt(float(LARGEST))), np.float32(1))
    assert np.isfinite(convert(reciprocals(least))).all()
    with pytest.raises(InvalidValueError, match="at position 0"):
        convert(reciprocals(least * np.float32(0.99)))
