"""Reductions of a tensor along some of its axes: an operator is a row of each module."""
