"""Calls of gelu_backward_v2."""

from aclgrad.operators._families.elementwise.samples import elementwise_samples

SAMPLES = elementwise_samples(
    "gelu_backward", attributes={"exact": {"approximate": "none"}, "tangent": {"approximate": "tanh"}}
)
