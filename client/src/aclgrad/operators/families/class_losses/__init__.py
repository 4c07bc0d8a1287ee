"""Gradients of losses of classes, whose targets are positions: an operator is a row of each module."""
