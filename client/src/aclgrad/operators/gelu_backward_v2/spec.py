"""aclnnGeluBackwardV2: the gradient of GELU, exact or approximated.

Devices compute the exact one by a rational approximation of the error function, each product by another. At infinity
some return NaN.
"""

from aclgrad.operators._families.elementwise.spec import elementwise_spec, floats
from aclgrad.operators.spec import AttributeKind, AttributeSpec

SPEC = elementwise_spec(
    "gelu_backward_v2",
    "Gives the gradient of GELU: of the exact one, or of the approximation by a hyperbolic tangent.",
    'With "none": grad_input = grad_output * (Phi(self) + self * phi(self)), where Phi and phi are the distribution '
    'and the density of normal numbers; with "tanh": as gelu_backward (PyTorch: aten::gelu_backward).',
    floats(),
    attributes=(
        AttributeSpec(
            "approximate",
            'The function that was applied: "none", the exact one, or "tanh".',
            AttributeKind.TEXT,
            default="none",
            choices=("none", "tanh"),
        ),
    ),
)
