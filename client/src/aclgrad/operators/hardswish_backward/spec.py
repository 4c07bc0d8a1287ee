"""aclnnHardswishBackward: the gradient of hard swish.

At -3 and 3, where the function has no derivative, the operator takes the slope of the middle, -0.5 and 1.5. PyTorch
takes those outside, 0 and 1, since 2.8.
"""

from aclgrad.operators._families.elementwise.spec import elementwise_spec, floats
from aclgrad.products import Product

SPEC = elementwise_spec(
    "hardswish_backward",
    "Gives the gradient of hard swish, self * min(max(self + 3, 0), 6) / 6.",
    "out = 0 where self < -3, grad_output where self > 3, else grad_output * (self / 3 + 0.5) "
    "(PyTorch: aten::hardswish_backward, but at -3 and 3).",
    floats(without=(Product.ATLAS_INFERENCE,)),
    output="out",
)
