"""Calls of tanh_backward."""

import numpy as np

from aclgrad.operators._families.elementwise.samples import elementwise_samples

SAMPLES = elementwise_samples("tanh_backward", saved="output", value=np.tanh)
