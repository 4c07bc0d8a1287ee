"""Calls of replication_pad1d_backward."""

from aclgrad.operators.families.pad.samples import pad_samples
from aclgrad.operators.families.pad.spec import REPLICATION

SAMPLES = pad_samples(REPLICATION, 1)
