"""Calls of reflection_pad3d_backward."""

from aclgrad.operators.families.pad.samples import pad_samples
from aclgrad.operators.families.pad.spec import REFLECTION

SAMPLES = pad_samples(REFLECTION, 3)
