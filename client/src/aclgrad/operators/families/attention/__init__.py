"""Attention and its gradients: an operator is a row of each module."""
