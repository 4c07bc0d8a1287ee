"""Losses, of each element or of classes, and their means and sums: an operator is a row of each module."""
