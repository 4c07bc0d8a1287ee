"""Calls of hardswish_backward."""

from aclgrad.operators._families.elementwise.samples import away_from, elementwise_samples

SAMPLES = elementwise_samples("hardswish_backward", value=lambda normal: away_from(-3.0, 3.0)(2 * normal))
