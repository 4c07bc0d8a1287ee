"""Sampling planes or volumes at the points of a grid."""
