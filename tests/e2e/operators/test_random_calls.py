"""Random shapes and attributes: what the server answers is what the definition says."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aclgrad
from aclgrad.operators.cases import TypedCase, arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import samples_of
from aclgrad.products import Product
from tests.bounds import assert_defined
from tools.serving import Server


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[aclgrad.Client]:
    with aclgrad.Client(server.address, shape_only=False) as client:
        yield client


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
@settings(max_examples=5)
def test_a_legal_call_gives_the_gradient_of_the_definition(
    client: aclgrad.Client, name: str, data: st.DataObject
) -> None:
    assert_right(client, name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
@settings(max_examples=80)
def test_many_legal_calls_do(client: aclgrad.Client, name: str, data: st.DataObject) -> None:
    assert_right(client, name, data)


def assert_right(client: aclgrad.Client, name: str, data: st.DataObject) -> None:
    spec = OPERATORS[name]
    case = samples_of(name).draw(lambda least, most: data.draw(st.integers(least, most)))
    typed = TypedCase(spec, case, data.draw(st.sampled_from(case.only or spec.inputs[0].dtypes[Product.ATLAS_A2])))
    inputs = typed.arrays()
    unread = {each.name for each in spec.inputs if each.unread_on and not each.read_for(typed.arguments)}
    sent = {key: array.shape if key in unread else array for key, array in inputs.items()}
    gradients = client.execute(name, sent, case.attributes)
    for gradient, type in zip(arrays_of(gradients), typed.outputs.values(), strict=True):
        assert gradient.dtype == type.dtype.numpy
    assert_defined(typed, gradients, Product.ATLAS_A2, inputs)
