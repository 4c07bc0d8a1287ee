"""Judges gradients: a server's by the definitions and by another server, and those that a training has recorded."""
