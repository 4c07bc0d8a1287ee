"""Kernels take little memory beside their tensors, whatever the shapes: nobody counts it before a call runs."""

from collections.abc import Callable

import pytest

from aclgrad.products import Product

from .kernel_memory import print_excesses
from .programs_in_forks import call_of

CELLS = 2**20


@pytest.mark.long
@pytest.mark.needs("host memory")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("product", "threads", "dtypes"),
    [
        (Product.ATLAS_A2, 64, ("float16",)),  # whose sums are of another type
        *(
            pytest.param(*each, (), marks=pytest.mark.slow)
            for each in ((Product.ATLAS_A2, 64), (Product.ASCEND_950, 2), (Product.ATLAS_TRAINING, 1))
        ),
    ],
)
def test_a_kernel_takes_little_beside_its_tensors(
    run_program: Callable[..., list[str]], product: Product, threads: int, dtypes: tuple[str, ...]
) -> None:
    program = call_of(print_excesses, str(product), CELLS, dtypes)
    *excesses, count = run_program(program, {"product": product, "threads": threads})
    assert excesses == []
    assert int(count) > 100


def test_memory_that_was_given_back_at_once_is_seen(run_program: Callable[..., list[str]]) -> None:
    program = (
        "import numpy as np\n"
        "from tests.abi.kernel_memory import forget_peak, peak_bytes\n"
        "before = forget_peak()\n"
        "np.ones(2**24, np.uint8)\n"
        "print(peak_bytes() - before)\n"
    )
    (taken_bytes,) = run_program(program)
    # The system counts pages in batches, and a fork gets pages of its own as it writes.
    assert abs(int(taken_bytes) - 2**24) < 2**22
