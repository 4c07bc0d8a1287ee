"""Gradients are those of the definition, and the same bits at every vector level, with any number of threads and at any
address. Products of matrices and convolutions have the bits of their level."""

from collections.abc import Callable

import pytest

from aclgrad.products import Product
from tests.call_file import PRODUCT

from .programs_in_forks import call_of
from .table_gradients import PRODUCTS, print_gradients

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("is_short", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_gradients_are_those_of_the_definition_and_the_same_bits_everywhere(
    run_program: Callable[..., list[str]], vector_levels: list[str], is_short: bool
) -> None:
    products: dict[str, set[str]] = {}

    def gradients(level: str, threads: int, offset: int, is_defined: bool = False) -> set[str]:
        program = call_of(print_gradients, str(PRODUCT), offset, is_short, is_defined)
        printed = set(run_program(program, {"vector_level": level, "threads": threads}))
        found = {line for line in printed if line.startswith(PRODUCTS)}
        assert products.setdefault(level, found) ^ found == set(), (level, threads, offset)
        return printed - found

    lowest, *others = vector_levels
    assert lowest == "baseline"
    first = gradients(lowest, 1, 0)
    assert len(first) > 1000
    assert gradients(vector_levels[-1], 3, 33, is_defined=True) ^ first == set()
    assert gradients(vector_levels[-1], 2, 0) ^ first == set()
    if not is_short:
        for level, threads, offset in (*((level, 1, 0) for level in others), (others[-1], 4, 1), (lowest, 3, 3)):
            assert gradients(level, threads, offset) ^ first == set(), (level, threads, offset)


@pytest.mark.parametrize(
    ("product", "name"),
    [
        (Product.ATLAS_TRAINING, "max_pool2d_with_mask"),  # whose masks have another layout there
        *(
            pytest.param(each, "", marks=pytest.mark.slow)
            for each in (Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE, Product.ASCEND_950)
        ),
    ],
)
def test_gradients_are_those_of_the_definition_on_other_products(
    run_program: Callable[..., list[str]], product: Product, name: str
) -> None:
    assert run_program(call_of(print_gradients, str(product), 0, name != "", True, name), {"product": product})
