"""Sampling a volume at the points of a grid, and its gradients."""

from aclgrad.operators.families.grid_sampler.definition import backward, forward

__all__ = ["backward", "forward"]
