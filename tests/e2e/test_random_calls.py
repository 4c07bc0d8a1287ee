"""Random shapes and attributes: what the server answers is what the definition says."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aclgrad
from aclgrad import reference
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tests.e2e.drawn_calls import legal_calls, numpy_dtype
from tests.serving import Server

RANDOM = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
@RANDOM
def test_a_legal_call_gives_the_gradient_of_the_definition(server: Server, name: str, data: st.DataObject) -> None:
    inputs, attributes = data.draw(legal_calls(name))
    dtype = inputs["grad_output"].dtype
    with aclgrad.Client(server.address, shape_only=False) as client:
        gradient = client.execute(name, inputs, attributes)
    truth = reference.define(name, inputs, attributes)
    assert gradient.dtype == dtype
    assert gradient.shape == truth.shape
    spec = OPERATORS[name]
    tolerance = spec.tolerance(Product.ATLAS_A2, next(key for key in spec.tolerances if numpy_dtype(key) == dtype))
    # Sums of both signs cancel: the error is bounded by the sum of what was added up.
    magnitudes = {key: np.abs(value) if key == "grad_output" else value for key, value in inputs.items()}
    magnitude = np.abs(reference.define(name, magnitudes, attributes))
    error = np.abs(gradient.astype(truth.dtype) - truth)
    assert (error <= tolerance.absolute + tolerance.relative * magnitude).all()
