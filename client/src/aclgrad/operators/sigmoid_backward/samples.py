"""Calls of sigmoid_backward."""

from aclgrad.operators._families.elementwise.definition import sigmoid
from aclgrad.operators._families.elementwise.samples import elementwise_samples

SAMPLES = elementwise_samples("sigmoid_backward", saved="output", value=sigmoid)
