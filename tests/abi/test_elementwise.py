"""Gradients of functions of each element: values that calls with ordinary ones do not have, and what CANN converts."""

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.samples import samples_of
from tools.abi.acl import Library

from .checks.elementwise import ORDERS
from .table_gradients import call, gradient_of

SAVED = (0.0, -0.0, 1e-45, -1e-30, 0.5, 1.0, 3.0, -3.0, 9.0, -9.0, 20.0, -20.0)
"""Infinite gradients times these are the same in float32 as in float64."""
EXTREME = (-87.5, -88.1, 89.0, -104.0, 105.0, 1e20, -1e20, 3e38, -3e38, np.inf, -np.inf, np.nan)
PAIRS = np.array(
    [(grad, saved) for grad in (1.0, -2.5, 0.0, 1e-30, np.inf, np.nan) for saved in SAVED]
    + [(grad, saved) for grad in (1.0, -2.5, np.nan) for saved in EXTREME],
    np.float32,
)


@pytest.mark.parametrize("name", ORDERS)
def test_extreme_values(acl: Library, name: str) -> None:
    grad_output, saved = map(np.ascontiguousarray, PAIRS.T)
    for attributes in {str(each.attributes): each.attributes for each in samples_of(name).cases}.values():
        own = next(each for each in samples_of(name).picture.shapes if each != "grad_output")
        arrays = {"grad_output": grad_output, own: saved}
        typed = call(name, **dict.fromkeys(arrays, grad_output.shape), **attributes)
        with np.errstate(over="ignore", invalid="ignore"):
            truth = reference.define(name, arrays, attributes).astype(np.float32)
        np.testing.assert_allclose(gradient_of(acl, typed, **arrays), truth, rtol=4e-6, atol=1e-6)
