"""Calls of grid_sampler3d_backward."""

from aclgrad.operators.families.grid_sampler.samples import grid_sampler_samples

SAMPLES = grid_sampler_samples(3)
