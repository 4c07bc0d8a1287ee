"""Gradients of gated units, which multiply one half of a tensor by the other: an operator is a row of each module."""
