"""Gradients of functions of each element by itself."""
