"""aclnnSoftmaxBackward: the gradient of softmax along one axis.

Phase 1 on a device does not look at the status of its own kernel, so all that the kernel needs is checked here.
"""

from aclgrad.operators.families.softmax.spec import softmax_spec

SPEC = softmax_spec(
    "softmax_backward", "aclnnSoftmaxBackward", "softmax", "out = output * (grad_output - sum(grad_output * output))"
)
