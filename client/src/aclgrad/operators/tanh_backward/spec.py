"""aclnnTanhBackward: the gradient of the hyperbolic tangent, from what it returned."""

from aclgrad.operators._families.elementwise.spec import elementwise_spec, floats

SPEC = elementwise_spec(
    "tanh_backward",
    "Gives the gradient of the hyperbolic tangent.",
    "grad_input = grad_output * (1 - output^2) (PyTorch: aten::tanh_backward).",
    floats("float64"),
    saved="output",
)
