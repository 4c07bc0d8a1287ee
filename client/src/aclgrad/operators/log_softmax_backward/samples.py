"""Calls of log_softmax_backward."""

from aclgrad.operators.families.softmax.definition import log_softmax
from aclgrad.operators.families.softmax.samples import softmax_samples

SAMPLES = softmax_samples(log_softmax, "_log_softmax_backward_data")
