"""Upsampling of planes: the functions of which other operators are the gradients."""
