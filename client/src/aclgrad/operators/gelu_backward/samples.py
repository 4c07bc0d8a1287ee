"""Calls of gelu_backward."""

from aclgrad.operators._families.elementwise.samples import elementwise_samples

SAMPLES = elementwise_samples("gelu_backward", approximate="tanh")
