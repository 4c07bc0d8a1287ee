"""aclnnLeakyReluBackward: the gradient of leaky ReLU.

Devices round the slope to float32 for every dtype, so for float64 it has to be a float32.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators._families.elementwise.spec import elementwise_spec, floats
from aclgrad.operators.spec import Arguments, AttributeKind, AttributeSpec
from aclgrad.products import Product

_LARGEST: Final = float(np.finfo(np.float32).max)


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    slope, field = arguments.double("negative_slope"), "attributes[negative_slope]"
    if arguments.attributes["self_is_result"] and slope < 0:
        yield Violation(field, f"is {slope}, and the result does not tell the sign then", "send at least 0")
    if arguments.inputs["self"].dtype.name == "float64" and float(np.float32(slope)) != slope:
        yield Violation(field, f"is {slope}, which devices round to float32", f"send {float(np.float32(slope))}")


SPEC = elementwise_spec(
    "leaky_relu_backward",
    "Gives the gradient of leaky ReLU: that of the result, times the slope where the input is not above 0.",
    "out = grad_output where self > 0, else grad_output * negative_slope (PyTorch: aten::leaky_relu_backward).",
    floats("float64"),
    output="out",
    attributes=(
        AttributeSpec(
            "negative_slope",
            "What the function multiplies negative numbers by; rounded to float32.",
            AttributeKind.DOUBLE,
            default=0.01,
            minimum=-_LARGEST,
            maximum=_LARGEST,
        ),
        AttributeSpec(
            "self_is_result",
            "Whether self is what the function returned; the slope is not negative then.",
            AttributeKind.BOOL,
            default=False,
        ),
    ),
    check=_check,
)
