"""What other calls left in device memory never reaches a reply."""

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.cases import TypedCase, arrays_of, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import samples_of
from aclgrad.operators.spec import Tolerance
from aclgrad.products import Product

from .forked import open_device
from .forks import in_fork
from .unwritten_outputs import wrong_of_unwritten, wrong_of_written

PRODUCTS = [
    pytest.param(each, marks=() if each is Product.ATLAS_A2 else pytest.mark.slow)
    for each in Product
    if any(typed_cases(each))
]


@pytest.mark.once
@in_fork(host_pointers=False, strict=True, faults=[{"kind": "unwritten_output", "at": 1, "count": 2**62}])
def test_an_output_that_no_operator_writes_is_filled() -> None:
    """Of every operator, in every dtype: a card may report success and write nothing."""
    assert list(wrong_of_unwritten(open_device(), Product.ATLAS_A2)) == []


@pytest.mark.once
@pytest.mark.parametrize("product", PRODUCTS)
@in_fork(host_pointers=False, strict=True)
def test_the_host_library_writes_every_output_whole(product: Product) -> None:
    """The memory of a reply, which it writes directly, is not filled before."""
    assert list(wrong_of_written(open_device(), product)) == []


def has_empty_sums(typed: TypedCase) -> bool:
    gradients = arrays_of(reference.define(typed.spec.name, typed.arrays(), typed.attributes))
    return any((each == 0).any() for each in gradients)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_that_may_leave_cells_without_a_sum_has_such_a_case(name: str) -> None:
    """Where the gradient is zero without a sum, a kernel may forget to write."""
    spec, generator = OPERATORS[name], np.random.default_rng(5)
    drawn = [samples_of(name).draw(lambda least, most: int(generator.integers(least, most + 1))) for _ in range(60)]
    is_exact = spec.tolerances["float32"] == Tolerance(0.0, 0.0)  # gathers: every cell has a value
    if not is_exact and any(has_empty_sums(TypedCase(spec, case, "float32")) for case in drawn):
        cases = [typed for typed in typed_cases(Product.ATLAS_A2) if typed.spec is spec and typed.dtype == "float32"]
        assert any(map(has_empty_sums, cases))
