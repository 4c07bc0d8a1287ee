"""Kernels take little memory beside their tensors, whatever the shapes: nobody counts it before a call runs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from aclgrad.products import Product

CELLS = 2**20


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
    run_program: Callable[..., list[str]], tmp_path: Path, product: Product, threads: int, dtypes: tuple[str, ...]
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"host": {"product": product, "threads": threads}}))
    program = "from tests.abi.kernel_memory import print_excesses\n"
    program += f"print_excesses(acl, {str(product)!r}, {CELLS}, {dtypes})\n"
    *excesses, count = run_program(program, ACL_HOST_CONFIG=str(config))
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
    assert abs(int(taken_bytes) - 2**24) < 2**21
