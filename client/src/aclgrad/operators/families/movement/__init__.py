"""Moves elements: into a part of a tensor, into all of it, or from several tensors into one."""
