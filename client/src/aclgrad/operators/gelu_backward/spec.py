"""aclnnGeluBackward: the gradient of GELU, approximated by a hyperbolic tangent.

CANN's documents say that it is the exact one, but every kernel approximates: the two differ by up to 9e-4 of the
gradient. `gelu_backward_v2` has both. At infinity the 910A and Atlas A3 return NaN.
"""

from aclgrad.operators._families.elementwise.spec import elementwise_spec, floats

SPEC = elementwise_spec(
    "gelu_backward",
    "Gives the gradient of GELU in the approximation by a hyperbolic tangent.",
    "With u = sqrt(2 / pi) * (self + 0.044715 * self^3) and t = tanh(u): grad_input = grad_output * (0.5 * (1 + t) + "
    "0.5 * self * (1 - t^2) * sqrt(2 / pi) * (1 + 0.134145 * self^2)) "
    '(PyTorch: aten::gelu_backward with approximate="tanh").',
    floats(),
)
