"""Random shapes and attributes: what the server answers is what the definition says."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aclgrad
from aclgrad import reference
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import samples_of
from aclgrad.products import Product
from tools.serving import Server

RANDOM = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
@RANDOM
def test_a_legal_call_gives_the_gradient_of_the_definition(server: Server, name: str, data: st.DataObject) -> None:
    spec = OPERATORS[name]
    case = samples_of(name).draw(lambda least, most: data.draw(st.integers(least, most)))
    typed = TypedCase(spec, case, data.draw(st.sampled_from(case.only or spec.inputs[0].dtypes[Product.ATLAS_A2])))
    inputs = typed.arrays()
    unread = {each.name for each in spec.inputs if each.unread_on and not each.read_for(typed.arguments)}
    with aclgrad.Client(server.address, shape_only=False) as client:
        sent = {key: array.shape if key in unread else array for key, array in inputs.items()}
        gradient = client.execute(name, sent, case.attributes)
    truth = reference.define(name, inputs, case.attributes)
    assert gradient.dtype == inputs["grad_output"].dtype
    assert gradient.shape == truth.shape
    tolerance = spec.tolerance(Product.ATLAS_A2, typed.dtype)
    # Sums of both signs cancel: the error is bounded by the sum of what was added up.
    magnitudes = {key: np.abs(value) if key == "grad_output" else value for key, value in inputs.items()}
    magnitude = np.abs(reference.define(name, magnitudes, case.attributes))
    error = np.abs(gradient.astype(truth.dtype) - truth)
    assert (error <= tolerance.absolute + tolerance.relative * magnitude).all()
