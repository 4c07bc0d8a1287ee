"""A wrong name of an input or an attribute is answered with the name that was meant."""

import numpy as np
import pytest

from aclgrad.errors import InvalidFieldError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.validation import check_call
from aclgrad.products import Product
from aclgrad.tensors import view_of_array
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.values import AttributeValue

ONES = np.ones((1, 2, 2), np.float32)
POOL, PAD = "avg_pool2d_backward", "reflection_pad2d_backward"
KERNEL: dict[str, AttributeValue] = {"kernel_size": (2,)}
PADDING: dict[str, AttributeValue] = {"padding": (1, 1, 1, 1)}

# The operator, its inputs and attributes, and what is said of each wrong field.
MEANT = [
    (POOL, "grad_output input", KERNEL, {"inputs[input]": "call it self"}),
    (POOL, "gradient self", KERNEL, {"inputs[gradient]": "call it grad_output"}),
    (POOL, "grad input", KERNEL, {"inputs[grad]": "call it grad_output", "inputs[input]": "call it self"}),
    (POOL, "grad_output self input", KERNEL, {"inputs[input]": "leave it out"}),
    (POOL, "grad_output x", KERNEL, {"inputs[x]": "leave it out", "inputs[self]": "send it"}),
    (POOL, "grad_output self", {"kernel": (2,)}, {"attributes[kernel]": "call it kernel_size"}),
    (POOL, "grad_output self", {**KERNEL, "strides": (2,)}, {"attributes[strides]": "call it stride"}),
    (PAD, "grad_output self", {**PADDING, "padding_mode": 1}, {"attributes[padding_mode]": "leave it out"}),
    (
        "upsample_nearest2d_backward",
        "grad_output",
        {"scale": 2.0},
        {"attributes[scale]": "call it scales_h or scales_w"},
    ),
]


@pytest.mark.parametrize(("operator", "inputs", "attributes", "told"), MEANT)
def test_a_wrong_name(operator: str, inputs: str, attributes: dict[str, AttributeValue], told: dict[str, str]) -> None:
    views = tuple(view_of_array(name, ONES) for name in inputs.split())
    with pytest.raises(InvalidFieldError) as caught:
        check_call(OperatorCall(operator, views, attributes), OPERATORS[operator], Product.ATLAS_A2)
    found = {each.field: each.remedy.partition(":")[0] for each in caught.value.violations}
    assert {field: remedy for field, remedy in found.items() if field in told} == told
    assert not [field for field, remedy in found.items() if field not in told and remedy != "send it"]
