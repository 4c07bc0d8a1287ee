"""Kernels take little memory beside their tensors, whatever the shapes: nobody counts it before a call runs."""

from collections.abc import Callable

import pytest

from aclgrad.products import Product

from .kernel_memory import print_excesses
from .programs_in_forks import call_of

CELLS = 2**20


@pytest.mark.needs("host memory")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("product", "threads", "is_short"),
    [
        (Product.ATLAS_A2, 64, True),
        *(
            pytest.param(*each, False, marks=pytest.mark.slow)
            for each in ((Product.ATLAS_A2, 64), (Product.ASCEND_950, 2), (Product.ATLAS_TRAINING, 1))
        ),
    ],
)
def test_a_kernel_takes_little_beside_its_tensors(
    run_program: Callable[..., list[str]], product: Product, threads: int, is_short: bool
) -> None:
    program = call_of(print_excesses, str(product), CELLS, is_short)
    *excesses, count = run_program(program, {"product": product, "threads": threads})
    assert excesses == []
    assert int(count) > 100
