"""Upsampling of planes and pooling of boxes: the functions of which other operators are the gradients."""
