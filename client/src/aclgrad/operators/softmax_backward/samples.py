"""Calls of softmax_backward."""

from aclgrad.operators.families.softmax.definition import softmax
from aclgrad.operators.families.softmax.samples import softmax_samples

SAMPLES = softmax_samples(softmax, "_softmax_backward_data")
