"""Operators that reduce rows: what is not finite is not finite where the definition says, and nowhere else."""

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.cases import TypedCase, arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.layer_norm_backward.samples import layer_norm_case
from aclgrad.operators.parts import samples_of
from tools.abi.acl import Library

from .table_gradients import call, gradient_of

NAMES = (
    "group_norm", "group_norm_backward", "layer_norm", "layer_norm_backward", "log_softmax", "log_softmax_backward",
    "rms_norm", "rms_norm_grad", "softmax", "softmax_backward",
)  # fmt: skip
SPECIAL = (np.nan, np.inf, -np.inf)


def poisoned(name: str) -> list[tuple[TypedCase, str]]:
    """Returns small calls with several rows, and each input of floats."""
    cases = [*samples_of(name).cases[:2]]
    if name == "layer_norm_backward":
        cases.append(layer_norm_case("long", (6,), (9000,)))
    return [(TypedCase(OPERATORS[name], case, "float32"), input) for case in cases for input in case.shapes]


@pytest.mark.parametrize("value", SPECIAL)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_finite_is_where_the_definition_has_it(acl: Library, name: str, value: float) -> None:
    for typed, input in poisoned(name):
        if (name, input) == ("group_norm_backward", "gamma") and np.isinf(value):
            continue  # multiplied by sums, as devices do, where the definition adds up products
        arrays = typed.arrays()
        arrays[input].reshape(-1)[arrays[input].size // 3] = value
        with np.errstate(all="ignore"):
            truths = arrays_of(reference.define(name, arrays, typed.attributes))
        for found, truth in zip(arrays_of(gradient_of(acl, typed, **arrays)), truths, strict=True):
            np.testing.assert_allclose(
                found, truth.astype(np.float32), rtol=1e-3, atol=1e-4, err_msg=f"{typed} {input}"
            )


@pytest.mark.parametrize("value", [-200.0, 0.0, 88.7, 89.0, 1e30])
def test_powers_of_e(acl: Library, value: float) -> None:
    """Below the least subnormal, and around the largest number; test_small_exponentials.py has those between."""
    typed = call("log_softmax_backward", grad_output=(2, 1), output=(2, 1), dim=-1)
    given = {"grad_output": np.array([[1], [-1]], np.float32), "output": np.full((2, 1), value, np.float32)}
    with np.errstate(over="ignore"):
        powers = np.exp(np.float64(np.float32(value))).astype(np.float32)
    np.testing.assert_allclose(gradient_of(acl, typed, **given), [[1 - powers], [powers - 1]], rtol=1e-6, atol=1e-37)
