"""aclnnSiluBackward: the gradient of SiLU, also called swish."""

from aclgrad.operators._families.elementwise.spec import elementwise_spec, floats
from aclgrad.products import Product

SPEC = elementwise_spec(
    "silu_backward",
    "Gives the gradient of SiLU, x * sigmoid(x).",
    "With s = sigmoid(self): grad_input = grad_output * s * (1 + self * (1 - s)) (PyTorch: aten::silu_backward).",
    floats(without=(Product.ATLAS_INFERENCE,)),
)
