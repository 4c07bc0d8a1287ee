"""Calls of silu_backward."""

from aclgrad.operators._families.elementwise.samples import elementwise_samples

SAMPLES = elementwise_samples("silu_backward")
