"""aclnnSigmoidBackward: the gradient of the logistic sigmoid, from what it returned.

CANN's operator also takes complex numbers, and multiplies by the conjugate of the derivative; those are not served.
"""

from aclgrad.operators._families.elementwise.spec import elementwise_spec, floats

SPEC = elementwise_spec(
    "sigmoid_backward",
    "Gives the gradient of the logistic sigmoid.",
    "grad_input = grad_output * (1 - output) * output (PyTorch: aten::sigmoid_backward).",
    floats("float64"),
    saved="output",
)
