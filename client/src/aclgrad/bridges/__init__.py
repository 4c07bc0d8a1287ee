"""Shared by the bridges to PyTorch and JAX, without importing either."""
