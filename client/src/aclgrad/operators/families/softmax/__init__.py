"""Softmax along one axis, and its logarithm: values and gradients."""
