"""Softmax along one axis, and its logarithm."""
