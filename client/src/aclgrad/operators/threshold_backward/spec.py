"""aclnnThresholdBackward: the gradient of a threshold, below which a function is constant.

Devices take thresholds up to 2^-23 for 0. With 0, the kernels for bfloat16, and those of the 910A, multiply by 0 or 1:
an infinite gradient that does not pass becomes NaN there. CANN's operator also takes integers; those are not served.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators._families.elementwise.spec import elementwise_spec, floats
from aclgrad.operators.spec import Arguments, AttributeKind, AttributeSpec
from aclgrad.products import Product

_LARGEST: Final = float(np.finfo(np.float32).max)
_ZERO: Final = np.finfo(np.float32).eps


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    threshold = arguments.double("threshold")
    if threshold and abs(np.float32(threshold)) <= _ZERO:
        yield Violation("attributes[threshold]", f"is {threshold}, which devices take for 0", "send 0")


SPEC = replace(
    elementwise_spec(
        "threshold_backward",
        "Gives the gradient of a threshold: that of the result where the input is above it, and of ReLU with 0.",
        "out = grad_output where self > threshold, else 0; NaN is above (PyTorch: aten::threshold_backward).",
        floats(),
        output="out",
        attributes=(
            AttributeSpec(
                "threshold",
                "The largest number whose gradient is 0; rounded to float32.",
                AttributeKind.DOUBLE,
                minimum=-_LARGEST,
                maximum=_LARGEST,
            ),
        ),
        check=_check,
    ),
    is_planned_alone=True,
)
