"""Matrix products, and what is added to them."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition


def product(input: Array, mat2: Array, cube_math_type: int | None = None) -> Array:
    """Multiplies the last two axes; those in front broadcast, and vectors are a row and a column."""
    return np.asarray(np.matmul(input.astype(np.float64), mat2.astype(np.float64)))


def addmm(
    input: Array, mat1: Array, mat2: Array, beta: float = 1.0, alpha: float = 1.0, cube_math_type: int | None = None
) -> Array:
    """Adds the addend to the product, each times its factor; without a factor, whatever it is times."""
    found = np.zeros((mat1.shape[0], mat2.shape[1]))
    if alpha:
        found += float(np.float32(alpha)) * product(mat1, mat2)
    if beta:
        found += float(np.float32(beta)) * input.astype(np.float64)
    return found


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "addmm": Definition(addmm),
    "batch_mat_mul": Definition(product),
    "matmul": Definition(product),
    "mm": Definition(product),
}
