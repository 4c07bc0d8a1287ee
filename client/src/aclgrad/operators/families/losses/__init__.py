"""Gradients of losses of each element by itself: an operator is a row of each module."""
