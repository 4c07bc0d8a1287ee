"""aclnnLogSoftmaxBackward: the gradient of the logarithm of softmax along one axis."""

from aclgrad.operators.families.softmax.spec import softmax_spec

SPEC = softmax_spec(
    "log_softmax_backward",
    "aclnnLogSoftmaxBackward",
    "the logarithm of softmax",
    "out = grad_output - exp(output) * sum(grad_output)",
)
