"""The definitions of attention against PyTorch in float64: samples and drawn calls, whose statistics are float32."""

import numpy as np
import pytest
import torch

from aclgrad import reference
from aclgrad.operators.cases import TypedCase, arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.families.attention.checks import sizes_of
from aclgrad.operators.parts import samples_of

NAMES = [name for name in OPERATORS if name.startswith("flash_attention")]
DRAWS = 40
ROUNDED = 2e-6
"""Relative to the largest element: by the statistics and the result of the forward pass."""


def calls(name: str) -> list[TypedCase]:
    integers, samples = np.random.default_rng(0).integers, samples_of(name)
    drawn = [samples.draw(lambda least, most: int(integers(least, most, endpoint=True))) for _ in range(DRAWS)]
    found = [TypedCase(OPERATORS[name], case, "float32") for case in (*samples.cases, *drawn)]
    return [each for each in found if all(map(all, each.case.shapes.values()))]


@pytest.mark.parametrize("name", NAMES)
def test_the_definition_is_pytorchs(name: str) -> None:
    for typed in calls(name):
        arrays = typed.arrays()
        # PyTorch computes its own scale in float64.
        given = typed.attributes["scale_value"]
        scale = float(np.float32(sizes_of(typed.arguments).head_size ** -0.5)) if given is None else given
        attributes = {**typed.attributes, "scale_value": scale}
        tensors = {
            each: torch.from_numpy(array if array.dtype == np.bool_ else array.astype(np.float64))
            for each, array in arrays.items()
        }
        truth = arrays_of(reference.define(name, arrays, attributes))
        for one, other in zip(truth, samples_of(name).pytorch(tensors, attributes), strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=ROUNDED, atol=ROUNDED * max(1, np.abs(one).max()))
